"""The page of one task: why it does not run, its runs and errors, arguments, limits, flow; and its changes."""
