"""Renewing leases while their holders work, and telling holders that they lost them: locks, permits.

One daemon thread for each process looks at all leases. It starts with the first, ends when there is none
left, and is started again in the child of a fork, which holds none of its parent's leases. At a third of
their time it has leases renewed, in one round trip for each connection, by a thread of that connection: a
server that hangs must not cost the leases on another, nor keep a loss from being told. `on_lost` is called
in a thread of its own, for it is the site's and may take its time.

The local deadline is the truth: an error of the connection is tried again until then, and at the deadline
the lease is lost, whatever the server may say later. "Not yours" from the server is final.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from django.db import connections as databases
from redis.exceptions import RedisError

from django_redis_components.core.client.connections import client
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.decorators import refuse_awaitable
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leasing.background import BackgroundRunner, started
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import OwnedLeases
from django_redis_components.core.protocol import Batch, Call, Flow, run

if TYPE_CHECKING:
    from django_redis_components.core.leasing.renewal_policy import RenewalPolicy

#: A lease is renewed when this share of it has passed: two tries may fail before it is lost.
RENEW_AFTER = 1 / 3
#: Seconds between two tries after an error, at most; for short leases a tenth of the lease.
RETRY_S = 1.0
#: Leases that are renewed in one round trip.
BATCH = 100
#: Seconds that the thread stays for the next lease when it has none.
LINGER_S = 5.0

_log = logging.getLogger(__name__)

#: What renews a lease: the calls for a token and milliseconds. All of them must succeed.
ExtendCalls = Callable[[str, int], Sequence[Call]]


@dataclasses.dataclass(slots=True, eq=False)
class LeaseWatch:
    """One lease that is looked after.

    Attributes:
        policy: how.
        lease: what is renewed.
        leases: where it stands.
        extend: what renews it.
        ttl_ms: milliseconds of the lease.
        renew_until: monotonic seconds until which it may be renewed.
        due: monotonic seconds at which there is something to do.
        asks: whether a renewal is under way.
    """

    policy: RenewalPolicy
    lease: Lease
    leases: OwnedLeases
    extend: ExtendCalls
    ttl_ms: int
    renew_until: float
    due: float = 0.0
    asks: bool = False

    def plan(self) -> None:
        """Set when to look at it next, after a grant or a renewal."""
        now = time.monotonic()
        renewal = now + self.ttl_ms / 1_000 * RENEW_AFTER
        self.due = min(renewal if renewal < self.renew_until else math.inf, self.lease.deadline)

    def wait_after_error(self) -> None:
        """Set when to try again: before the deadline, if that is still to come."""
        self.due = min(time.monotonic() + min(RETRY_S, self.ttl_ms / 10_000), self.lease.deadline)

    def wanted_ms(self) -> int:
        """Milliseconds to ask for; 0 when it is to be renewed no longer."""
        left_ms = (self.renew_until - time.monotonic()) * 1_000
        return int(min(self.ttl_ms, left_ms)) if left_ms >= 1 else 0


class LeaseRenewer:
    """Looks after the leases of one process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, in the child of a fork: the parent's thread is not here, and its leases are not ours."""
        # Holders use the lock itself: the methods of a Condition are Python code, in which Ctrl-C or a soft time limit
        # may leave the lock held, and then no lease of the process would be renewed any more.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._watches: dict[Lease, LeaseWatch] = {}
        self._thread: threading.Thread | None = None
        self._renewers: dict[str, BackgroundRunner] = {}

    def watch(self, watch: LeaseWatch) -> None:
        """Look after a lease from now on.

        Raises:
            RuntimeError: there may be no more threads.
        """
        watch.plan()
        with self._lock:
            if self._thread is None:
                self._thread = started(self._run, "redis-lease-watchdog")
            self._watches[watch.lease] = watch
            self._changed.notify()

    def stop(self, lease: Lease) -> LeaseWatch | None:
        """Leave a lease alone: it is being given back. What the server says of it from now on is ignored."""
        return self._watches.pop(lease, None)

    def recheck(self, lease: Lease) -> None:
        """Look at a lease now: its holder has learnt that it is lost."""
        with self._lock:
            watch = self._watches.get(lease)
            if watch is not None:
                watch.due = 0.0
                self._changed.notify()

    def _run(self) -> None:
        while (due := self._wait()) is not None:
            self._careful(due, self._look_after, due)

    def _careful(self, watches: Iterable[LeaseWatch], do: Callable[..., None], *args: object) -> None:
        """Do something for these watches; a mistake in it costs a try, and never the thread."""
        try:
            do(*args)
        except Exception:  # noqa: BLE001 - all other leases depend on this thread
            _log.exception("The watchdog of leases goes on after an error.")
            for watch in watches:
                watch.asks = False
                watch.wait_after_error()
        with self._changed:
            self._changed.notify()

    def _wait(self) -> list[LeaseWatch] | None:
        """The watches that are due, after waiting for them; None when there are no more leases."""
        with self._changed:
            if not self._watches:
                self._changed.wait(LINGER_S)
            if not self._watches:
                self._thread = None
                return None
            self._changed.wait(max(0.0, min(watch.due for watch in list(self._watches.values())) - time.monotonic()))
            now = time.monotonic()
            return [watch for watch in list(self._watches.values()) if watch.due <= now]

    def _look_after(self, due: Iterable[LeaseWatch]) -> None:
        renewals: dict[str, list[tuple[LeaseWatch, int]]] = defaultdict(list)
        for watch in due:
            wanted_ms = watch.wanted_ms()
            if watch.policy.owner() is None or watch.lease.is_released:
                self.stop(watch.lease)
            elif watch.lease.is_lost:
                self._lost(watch)
            else:
                watch.due = watch.lease.deadline
                if wanted_ms and not watch.asks:
                    renewals[watch.policy.using].append((watch, wanted_ms))
        for using, each in renewals.items():
            self._have_renewed(using, each)

    def _have_renewed(self, using: str, renewals: list[tuple[LeaseWatch, int]]) -> None:
        """Let the thread of this connection renew these."""
        watches = [watch for watch, _ in renewals]
        for watch in watches:
            watch.asks = True
        renewer = self._renewers.setdefault(using, BackgroundRunner(f"redis-lease-renewal-{using}"))
        try:
            renewer.add(partial(self._careful, watches, self._renew_all, using, renewals))
        except RuntimeError:  # no more threads: better late than never
            self._renew_all(using, renewals)

    def _renew_all(self, using: str, renewals: list[tuple[LeaseWatch, int]]) -> None:
        for start in range(0, len(renewals), BATCH):
            self._renew(using, renewals[start : start + BATCH])

    def _renew(self, using: str, renewals: list[tuple[LeaseWatch, int]]) -> None:
        requested_at = time.monotonic()
        try:
            with slot_wait_limit(0):  # tried again soon anyway, and leases in other slots must not wait for this one
                replies = run(client(using), _extend_all(renewals))
        except (RedisError, RedisComponentsError) as exc:
            replies = [exc] * len(renewals)
        for (watch, wanted_ms), reply in zip(renewals, replies, strict=True):
            watch.asks = False
            if isinstance(reply, Exception):
                _log.warning(
                    "The lease of %s was not renewed, and will be tried again: %s", watch.policy.owner(), reply
                )
                watch.wait_after_error()
            elif reply:
                watch.lease.renew(local_deadline(requested_at, wanted_ms))
                watch.plan()
            else:
                self._lost(watch)

    def _lost(self, watch: LeaseWatch) -> None:
        """Tell the holder, unless it has let go meanwhile."""
        if self.stop(watch.lease) is None:
            return
        watch.lease.mark_lost()
        owner = watch.policy.owner()
        _log.warning("The lease of %s is lost while its holder works.", owner)
        if watch.policy.on_lost is not None and owner is not None:
            try:
                started(_tell, "redis-lease-lost", watch, watch.policy.on_lost, owner)
            except RuntimeError:  # no more threads
                _tell(watch, watch.policy.on_lost, owner)


def _tell(watch: LeaseWatch, on_lost: Callable[..., object], owner: object) -> None:
    """Call the site's function. What it asks the owner, which may hold others, is asked of the lost lease."""
    try:
        with watch.leases.shown(watch.lease):
            refuse_awaitable(on_lost(owner), on_lost, "on_lost is called without waiting")
    except BaseException:  # noqa: BLE001 - nobody would learn of a SystemExit in a thread
        _log.exception("on_lost of %s failed.", owner)
    finally:
        databases.close_all()  # those of this thread, which ends


def release_in_thread(name: str, using: str, calls: Sequence[Call]) -> None:
    """Release a lease whose holder was interrupted. The interpreter waits for the thread before it ends."""
    work = partial(_release_all, name, using, calls)
    try:
        threading.Thread(target=work, name="redis-lease-release").start()
    except RuntimeError:  # no more threads
        work()


def _release_all(name: str, using: str, calls: Sequence[Call]) -> None:
    try:
        run(client(using), _send(calls))
    except (RedisError, RedisComponentsError) as exc:
        _log.warning("%r was not released after an interruption, and its lease will end by itself: %s", name, exc)


def _send(calls: Sequence[Call]) -> Flow[None]:
    yield Batch(calls)


def _extend_all(renewals: list[tuple[LeaseWatch, int]]) -> Flow[list[object]]:
    calls = [watch.extend(watch.lease.token, wanted_ms) for watch, wanted_ms in renewals]
    replies = iter((yield Batch([call for each in calls for call in each], return_exceptions=True)))
    return [_verdict([next(replies) for _ in each]) for each in calls]


def _verdict(replies: list[object]) -> object:
    """What the replies of one lease come to: a refusal is final, an error is not."""
    return min(replies, key=lambda reply: 1 if isinstance(reply, Exception) else 2 if reply else 0)


#: The watchdog of this process.
watchdog = LeaseRenewer()


os.register_at_fork(after_in_child=watchdog.forget)
