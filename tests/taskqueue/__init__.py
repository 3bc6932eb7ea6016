"""The task queue: its contract on every store, its parts, its processes."""
