"""Transactions: read, decide and write atomically, with optimistic locking.

Guarantees. The queued commands are executed once and completely, on the state that the function has read. Otherwise
they are not executed, and an exception is raised. Attempts are bounded by number and time, with backoff and full
jitter; with `lock_after` callers acquire a lock after that many conflicts. A connection that is lost before EXEC counts
as a conflict. After a lost reply to EXEC, a marker that is written by the transaction shows whether it was executed,
and if it was not, prevents its later execution. `OutcomeUnknown` is raised only if the server does not answer that
request either.

Limits. The function may be called more than once. A write may be lost by a failover before it is replicated. An error
of one command (a wrong type) does not undo the others, because Redis has no rollback.

Keys beside the watched ones, in the slot of the first watched key; ``{tag}`` is that key's hash tag, or the key
itself if it has none:

====================================  ======  =================================================================
``drc:transactions:{tag}:done:<id>``  string  written by each transaction: ``done``, or ``void``; TTL: 1 minute
====================================  ======  =================================================================

Example::

    from django_redis_components.transactions import atomic_update

    def double(pipe):
        balance = int(pipe.get("account:abc") or 5)
        pipe.multi()
        pipe.set("account:abc", balance * 2)
        return balance * 2

    print(atomic_update(double, "account:abc"))

See also: `django_redis_components.locks`, for work outside Redis; docs/components/transactions.md.
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
