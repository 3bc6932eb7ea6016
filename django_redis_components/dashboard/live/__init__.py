"""The page Live: the newest events of tasks and locks."""
