"""The page of failures: error groups of all queues, one of them in detail, and changes of its tasks."""
