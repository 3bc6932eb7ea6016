"""The overview page: a snapshot of all queues, workers and counters, its problems, its HTML and its JSON."""
