"""Transactions: read, decide and write, with nobody in between.

Guarantees. What the function has queued is executed once and whole, on the state that it has read; or not
at all, and an error says so. Repetitions are bounded by number and time, with full jitter, and may end in
a line (a lock) instead of a race. A connection that is lost before EXEC is a conflict. When the reply to
EXEC is lost, a marker that was written with it tells whether it was executed, and if it was not, keeps it
from being executed later; only if the server does not answer that either, `OutcomeUnknown` is raised.

Not guaranteed: that the function is called only once; that a write survives a failover before it was
replicated; that an error of one command (a wrong type) undoes the others, for Redis has no rollback.

Keys (those that are watched are the site's own), in the slot of the first watched key, whose hash tag is
``{tag}``, or which is itself the tag:

========================================  ======  ==============================================================
``drc:transactions:{tag}:done:<id>``      string  written with each transaction: ``done``, or ``void``; one minute
========================================  ======  ==============================================================

Example::

    from django_redis_components.transactions import atomic_update

    def double(pipe):
        balance = int(pipe.get("account:abc") or 5)
        pipe.multi()
        pipe.set("account:abc", balance * 2)
        return balance * 2

    print(atomic_update(double, "account:abc"))

See also: `django_redis_components.locks`, where the work is more than a few commands; docs/components/transactions.md.
"""

from __future__ import annotations

from django_redis_components.transactions.exceptions import OutcomeUnknown, TooMuchContention, TransactionError
from django_redis_components.transactions.pipes import AsyncPipe, Pipe
from django_redis_components.transactions.update import aatomic_update, atomic_update

__all__ = [
    "AsyncPipe",
    "OutcomeUnknown",
    "Pipe",
    "TooMuchContention",
    "TransactionError",
    "aatomic_update",
    "atomic_update",
]
