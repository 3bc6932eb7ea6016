"""The page of actions: what users of the dashboard have changed."""
