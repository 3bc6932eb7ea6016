"""The page of a flow: its graph, its states, cancellation, and a retry of what failed."""
