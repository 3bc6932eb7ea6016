"""One module for each queue: its tasks, and how they are sent.

Each has ``send(name, *args)``, ``send_many(name, list of args)`` or None where the queue has no bulk
sending, and ``send_at(name, due, *args)`` with `due` in seconds since the epoch. The names are those of
`benchmarks.bodies`.
"""
