"""Shards of the task queue on real servers, and what becomes of tasks when a server is lost.

    python -m benchmarks.shards spread    server time of a task in one shard and in three, and the share of each
    python -m benchmarks.shards strict    how soon a task of an earlier queue in another shard starts
    python -m benchmarks.shards outage    a shard's server stopped, and killed, under load
    python -m benchmarks.shards idle      commands of idle workers in each of eight shards
    python -m benchmarks.shards limit     a limit by key over four shards, while workers are killed
    python -m benchmarks.shards move      `redis shards move` of scheduled tasks, killed again and again
    python -m benchmarks.shards chaos     a Cluster of six nodes: failovers, hangs, partitions, moved slots

Servers are started on this machine. ``chaos`` puts each node into a network namespace, for which it needs to be root,
or to be allowed to create user namespaces.
"""
