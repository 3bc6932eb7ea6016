"""Renewal of leases while their owners work, and notification when one is lost.

One daemon thread per process, the renewer, watches all leases. It starts with the first lease, ends when none is left,
and starts anew in the child of a fork, which owns none of its parent's leases. When a third of a lease has passed it is
renewed, in one round trip per connection, by a thread of that connection: a server that hangs must not cost leases on
another server, nor delay the notification of a loss. `on_lost` runs in a separate thread, because it is code of the
site and may take long.

The local deadline decides. After a connection error the renewal is repeated until the deadline; at the deadline the
lease is lost, whatever the server replies later. A refusal of the server is final.
"""

from __future__ import annotations

import dataclasses
import math
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from django.db import connections
from redis.exceptions import RedisError

from django_redis_components.core.arguments import check_callable, check_flag, short_repr
from django_redis_components.core.chunks import chunks
from django_redis_components.core.client.connections import client
from django_redis_components.core.decorators import refuse_awaitable, refuse_deferred_function
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.leasing.background import BackgroundRunner, start_daemon
from django_redis_components.core.leasing.calls import read_releases
from django_redis_components.core.leasing.lease import Lease, local_deadline
from django_redis_components.core.leasing.owner import OwnedLeases
from django_redis_components.core.protocol import Batch, Call, Flow, run
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.core.units import Seconds, to_seconds

#: A lease is renewed when this share of it has passed: two attempts may fail before it is lost.
RENEW_AFTER = 1 / 3
#: Longest backoff between two attempts after an error, in seconds; for short leases a tenth of the lease.
RETRY_S = 1.0
#: Leases that are renewed in one round trip.
BATCH = 100
#: Seconds that the idle thread waits for the next lease before it ends.
LINGER_S = 5.0

_log = guarded_logger(__name__)

#: Returns the calls that extend the lease of a token by milliseconds. All of them must succeed.
ExtendCalls = Callable[[str, int], Sequence[Call]]


@dataclasses.dataclass(frozen=True, slots=True)
class RenewalPolicy:
    """Whether and for how long the leases of an object are renewed, and what is called when one is lost.

    Attributes:
        target: the object. When it has been garbage collected, its lease is left to expire.
        using: our connection alias.
        max_s: seconds after the grant until which a lease is renewed; 0: it is not renewed.
        on_lost: called with the object when its lease is lost.
    """

    target: weakref.ref[object]
    using: str
    max_s: float
    on_lost: Callable[..., object] | None

    def watch(self, lease: Lease, leases: OwnedLeases, extend: ExtendCalls, ttl_ms: int) -> None:
        """Watch a lease that was just added to `leases`."""
        renewer.watch(LeaseWatch(self, lease, leases, extend, ttl_ms, time.monotonic() + self.max_s))


def renewal_policy_for(
    target: object,
    kind: str,
    using: str,
    timeout: Seconds,
    renew: bool,
    max_lease: Seconds | None,
    on_lost: Callable[..., object] | None,
) -> RenewalPolicy | None:
    """Return the policy for the leases of `target`, a "lock" or "semaphore"; None if they need not be watched.

    Raises:
        TypeError: `renew` is not a bool, `max_lease` is not a duration, or `on_lost` cannot be called.
        ValueError: `max_lease` is shorter than a lease, or given without `renew`.
    """
    max_s = _renewal_s(timeout, check_flag(renew, "renew"), max_lease)
    if on_lost is not None:
        check_callable(on_lost, "on_lost", f"a function that takes the {kind}")
    refuse_deferred_function(on_lost, "on_lost")
    return RenewalPolicy(weakref.ref(target), using, max_s, on_lost) if max_s or on_lost is not None else None


def _renewal_s(timeout: Seconds, renew: bool, max_lease: Seconds | None) -> float:
    """Return the seconds for which a lease is renewed: 0 for never, infinity without a limit."""
    if max_lease is None:
        return math.inf if renew else 0.0
    if not renew:
        raise ValueError(
            f"max_lease={short_repr(max_lease)} requires renew=True: otherwise a lease ends after its timeout."
        )
    if to_seconds(max_lease, "max_lease") < to_seconds(timeout, "timeout"):
        raise ValueError(
            f"max_lease={short_repr(max_lease)}: expected at least the timeout, which is {short_repr(timeout)}."
        )
    return to_seconds(max_lease, "max_lease")


@dataclasses.dataclass(slots=True, eq=False)
class LeaseWatch:
    """One lease that the renewer watches.

    Attributes:
        policy: of the object that the lease was granted to.
        lease: the lease.
        leases: the collection that contains it.
        extend: makes the calls that renew it.
        ttl_ms: milliseconds of the lease.
        renew_until: monotonic time until which it may be renewed.
        due_at: monotonic time of the next renewal, or of the deadline.
        is_renewing: whether a renewal is in progress.
    """

    policy: RenewalPolicy
    lease: Lease
    leases: OwnedLeases
    extend: ExtendCalls
    ttl_ms: int
    renew_until: float
    due_at: float = 0.0
    is_renewing: bool = False

    def schedule(self) -> None:
        """Set the next due time after a grant or a renewal."""
        now = time.monotonic()
        renewal = now + self.ttl_ms / 1_000 * RENEW_AFTER
        self.due_at = min(renewal if renewal < self.renew_until else math.inf, self.lease.deadline_at)

    def schedule_retry(self) -> None:
        """Set the next due time after an error: no later than the deadline."""
        self.due_at = min(time.monotonic() + min(RETRY_S, self.ttl_ms / 10_000), self.lease.deadline_at)

    def renewal_ms(self) -> int:
        """Return the milliseconds to renew it for; 0 when it may not be renewed any more."""
        left_ms = (self.renew_until - time.monotonic()) * 1_000
        return int(min(self.ttl_ms, left_ms)) if left_ms >= 1 else 0


class LeaseRenewer:
    """Watches and renews the leases of one process.

    Attributes:
        watches: the watched leases.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all leases, in the child of a fork: the parent's thread does not exist here."""
        # Callers acquire the lock itself. The methods of a Condition are Python code, in which Ctrl-C or a soft time
        # limit may leave the lock held, and then no lease of the process would be renewed any more.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self.watches: dict[Lease, LeaseWatch] = {}
        self._thread: threading.Thread | None = None
        self._runners: dict[str, BackgroundRunner] = {}

    def watch(self, watch: LeaseWatch) -> None:
        """Start to watch a lease.

        Raises:
            RuntimeError: no thread could be started.
        """
        watch.schedule()
        with self._lock:
            if self._thread is None:
                self._thread = start_daemon(self._run, "redis-lease-renewer")
            self.watches[watch.lease] = watch
            self._changed.notify()

    def unwatch(self, lease: Lease) -> LeaseWatch | None:
        """Stop watching a lease, because it is being released. Later replies about it are ignored."""
        return self.watches.pop(lease, None)

    def recheck(self, lease: Lease) -> None:
        """Process a lease at once: its owner has learnt that it is lost."""
        with self._lock:
            watch = self.watches.get(lease)
            if watch is not None:
                watch.due_at = 0.0
                self._changed.notify()

    def _run(self) -> None:
        while (due := self._wait()) is not None:
            self._log_errors(due, self._process, due)

    def _log_errors(self, watches: Iterable[LeaseWatch], function: Callable[..., None], *args: object) -> None:
        """Call a function for these watches. An error in it costs one attempt, never the thread."""
        try:
            function(*args)
        except BaseException:  # noqa: BLE001 - all other leases depend on this thread
            for watch in watches:
                watch.is_renewing = False
                watch.schedule_retry()
            _log.exception("Cannot renew leases; retrying.")
        with self._changed:
            self._changed.notify()

    def _wait(self) -> list[LeaseWatch] | None:
        """Wait until leases are due, and return them; None when there are no more leases."""
        with self._changed:
            watches = list(self.watches.values())  # a copy: `unwatch` takes no lock, so the dict may become empty
            if not watches:
                self._changed.wait(LINGER_S)
                watches = list(self.watches.values())
            if not watches:
                self._thread = None
                return None
            next_due_at = min(watch.due_at for watch in watches)
            self._changed.wait(max(0.0, next_due_at - time.monotonic()))
            now = time.monotonic()
            return [watch for watch in list(self.watches.values()) if watch.due_at <= now]

    def _process(self, due: Iterable[LeaseWatch]) -> None:
        renewals: dict[str, list[tuple[LeaseWatch, int]]] = defaultdict(list)
        for watch in due:
            renewal_ms = watch.renewal_ms()
            if watch.policy.target() is None or watch.lease.is_released:
                self.unwatch(watch.lease)
            elif watch.lease.is_lost:
                self._report_loss(watch)
            else:
                watch.due_at = watch.lease.deadline_at
                if renewal_ms and not watch.is_renewing:
                    renewals[watch.policy.using].append((watch, renewal_ms))
        for using, each in renewals.items():
            self._start_renewal(using, each)

    def _start_renewal(self, using: str, renewals: list[tuple[LeaseWatch, int]]) -> None:
        """Have the thread of this connection renew these leases."""
        watches = [watch for watch, _ in renewals]
        for watch in watches:
            watch.is_renewing = True
        runner = self._runners.setdefault(using, BackgroundRunner(f"redis-lease-renewal-{using}"))
        try:
            runner.submit(partial(self._log_errors, watches, self._renew_all, using, renewals))
        except RuntimeError:  # no more threads: renew them in this one
            self._renew_all(using, renewals)

    def _renew_all(self, using: str, renewals: list[tuple[LeaseWatch, int]]) -> None:
        for some in chunks(renewals, BATCH):
            self._renew(using, some)

    def _renew(self, using: str, renewals: list[tuple[LeaseWatch, int]]) -> None:
        requested_at = time.monotonic()
        try:
            with slot_wait_limit(0):  # repeated soon anyway, and leases in other slots must not wait for this one
                replies = run(client(using), extend_all(renewals))
        except (RedisError, RedisComponentsError) as exc:
            replies = [exc] * len(renewals)
        refused = [watch for (watch, _), reply in zip(renewals, replies, strict=True) if not reply]
        if refused:
            run(client(using), read_releases((each.lease, each.extend(each.lease.token, 1)) for each in refused))
        for (watch, renewal_ms), reply in zip(renewals, replies, strict=True):
            watch.is_renewing = False
            if isinstance(reply, Exception):
                _log.warning("The lease of %s was not renewed and will be retried: %s", watch.policy.target(), reply)
                watch.schedule_retry()
            elif reply:
                watch.lease.renew(local_deadline(requested_at, renewal_ms))
                watch.schedule()
            else:
                self._report_loss(watch)

    def _report_loss(self, watch: LeaseWatch) -> None:
        """Notify the owner, unless it has released the lease meanwhile."""
        if self.unwatch(watch.lease) is None:
            return
        watch.lease.mark_lost()
        target = watch.policy.target()
        release = watch.lease.forced_release
        _log.warning("The lease of %s was %s.", target, release or "lost before it was released")
        if watch.policy.on_lost is not None and target is not None:
            try:
                start_daemon(_call_on_lost, "redis-lease-lost", watch, watch.policy.on_lost, target)
            except RuntimeError:  # no more threads
                _call_on_lost(watch, watch.policy.on_lost, target)


def _call_on_lost(watch: LeaseWatch, on_lost: Callable[..., object], target: object) -> None:
    """Call the site's function. There `target`, which may have other leases, reports the lost one."""
    try:
        with watch.leases.lent_to_caller(watch.lease):
            refuse_awaitable(on_lost(target), on_lost, "on_lost is called without waiting")
    except BaseException:  # noqa: BLE001 - a SystemExit in a thread would be silent
        _log.exception("on_lost of %s failed.", target)
    finally:
        connections.close_all()  # those of this thread, which ends


def release_in_thread(name: str, using: str, calls: Sequence[Call]) -> None:
    """Release a lease whose owner was interrupted. The interpreter waits for the thread before it exits."""
    work = partial(_release_all, name, using, calls)
    try:
        threading.Thread(target=work, name="redis-lease-release").start()
    except RuntimeError:  # no more threads
        work()


def _release_all(name: str, using: str, calls: Sequence[Call]) -> None:
    try:
        run(client(using), _send(calls))
    except (RedisError, RedisComponentsError) as exc:
        _log.warning("%r was not released after an interruption; its lease will expire: %s", name, exc)


def _send(calls: Sequence[Call]) -> Flow[None]:
    yield Batch(calls)


def extend_all(renewals: list[tuple[LeaseWatch, int]]) -> Flow[list[object]]:
    """Extend these leases by these milliseconds, and return one reply for each: 0 refused, or an exception."""
    calls = [watch.extend(watch.lease.token, renewal_ms) for watch, renewal_ms in renewals]
    replies = iter((yield Batch([call for each in calls for call in each], return_exceptions=True)))
    return [_combined([next(replies) for _ in each]) for each in calls]


def _combined(replies: list[object]) -> object:
    """Combine the replies of one lease: a refusal is final, an error is not."""
    return min(replies, key=lambda reply: 1 if isinstance(reply, Exception) else 2 if reply else 0)


#: The renewer of this process.
renewer = LeaseRenewer()


after_fork_in_child(renewer.reset)
