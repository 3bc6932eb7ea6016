"""The outbox on PostgreSQL: what it adds to a commit, how fast the relay is, and what an outage loses: nothing.

    python -m benchmarks.outbox cost [--commits 2000] [--fsync]
    python -m benchmarks.outbox chaos [--outage 60] [--rate 200] [--failover]

`cost` measures transactions of one INSERT: alone, with `enqueue_on_commit`, and with the outbox, in turns, beside a
relay in another process; then how fast a relay sends a backlog, and deletes rows that were sent.

`chaos` lets four processes commit orders, each with a task, at a rate. Redis is away for `--outage` seconds, the
database is restarted before and while it is away (with `--failover` its host fails before, and a synchronous standby
takes over), and processes of the site, and relays, are killed by SIGKILL all the
time. Workers run the tasks before and after the outage, and the results of tasks expire after a second. At the end each
order that the database has committed must have run once, and nothing else.
"""
