"""The page of workers, and the commands to them."""
