"""Waiting for one's turn: the flows that locks and semaphores share.

The line stands in Redis (``lua/shared/turns.lua``). Whoever lets go hands what became free to the first
in line that still lives, under a short lease (`HANDOFF_MS`), and rings its bell; its next question raises
the lease to the full one. So the grant is state and the bell only a hint: a lost bell, a cut wait or a
cancelled task loses nothing, because asking again finds the grant.

No wait lasts longer than `HANDOFF_MS`. Whoever stands behind a waiter that died holding a hand-off
therefore asks again, and learns its end, before that lease ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Sequence

from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.leases import Lease, deadline_of
from django_redis_components.core.owners import Acquisition, OwnedLeases
from django_redis_components.core.protocol import Call, Flow, Sleep, Wait, Within
from django_redis_components.core.recovery import HOPELESS, REFUSED
from django_redis_components.core.units import Seconds, check_flag, to_seconds

#: Milliseconds that a hand-off waits for the waiter to take it. A waiter that died costs those behind it
#: this long; one that is slower than this loses its turn.
HANDOFF_MS = 2_000
#: Milliseconds after its last question at which a waiter counts as dead. Less than two waits would drop
#: the living, who would go on at the end of the line.
LIVENESS_MS = 3 * HANDOFF_MS
#: Seconds after which a request that was cut off on its way has surely arrived or never will.
STRAGGLER_S = 0.1
#: Seconds that a cancelled caller waits for a Cluster slot that is being moved. Its place and hand-off expire anyway.
WALK_AWAY_S = HANDOFF_MS / 1_000


def patience(blocking: bool, blocking_timeout: Seconds | None) -> float:
    """Seconds to wait for a turn: 0 to ask once, infinity to wait for ever.

    Raises:
        TypeError: `blocking` is no flag, or the time no duration.
        ValueError: it is negative, or given although nothing is to be waited for.
    """
    if check_flag(blocking, "blocking"):
        return math.inf if blocking_timeout is None else to_seconds(blocking_timeout, "blocking_timeout", zero=True)
    if blocking_timeout is not None:
        raise ValueError(f"blocking_timeout={blocking_timeout!r} needs blocking=True: else nothing is waited for.")
    return 0.0


class Again(Call):
    """A call sent again after its reply was lost, as often as needed: an earlier one may have been executed."""

    @property
    def retry(self) -> bool:
        """The caller tells by the lease what the reply of a repetition means."""
        return True


def under(token: str, call: Call) -> Call:
    """The same call for a token, which is its first argument.

    What a free lock or permit needs is made once, and then only the token put in: to name nine keys and arguments
    each time costs as much as all the rest that is done for it here.
    """
    return Call(call.script, call.keys, (token, *call.args[1:]))


class Turns:
    """Takes the leases of one object, and gives them back."""

    def __init__(self, ttl_ms: int) -> None:
        """Args: ttl_ms: milliseconds of a lease."""
        self.leases = OwnedLeases()
        self._ttl_ms = ttl_ms
        #: Process and token of questions that ended in an error: the server may have granted them, so the
        #: next one asks again with one of them.
        self._unsettled: list[tuple[int, str]] = []

    def take(
        self,
        base: str,
        ask: Callable[[str, int], Call],
        walk_away: Callable[[str], Call],
        patience_s: float,
        acquisition: Acquisition,
        *,
        suffix: str = "",
        token: str | None = None,
        refused: Callable[[int, int], object] | None = None,
    ) -> Flow[bool]:
        """Ask until granted (True), or until `patience_s` (0 asks once) have passed (False).

        Args:
            base: the key whose ``:bell:<token>`` lists ring.
            ask: the call for one question of a token, given the milliseconds of life that it promises; with 0
                it leaves the line when refused. The reply: [granted; below 0 never, milliseconds to wait].
            walk_away: the call that gives up place and grant, for whoever is interrupted. 0: it had neither.
            acquisition: who asks, and is told the lease.
            token: what the lease is to be known by; None makes one that ends in `suffix`.
            refused: told the last reply, if that is a refusal; it may raise an error of this package.
        """
        mine = self.new_token(suffix) if token is None else token
        deadline, asks_again = time.monotonic() + patience_s, False
        self.leases.ask(acquisition)
        try:
            while True:
                asked_at = time.monotonic()
                last = asked_at >= deadline
                granted, pause_ms = yield _timed(ask(mine, 0 if last else LIVENESS_MS), patience_s, deadline - asked_at)
                asks_again = False
                if granted > 0:
                    self.leases.add(Lease(mine, deadline_of(asked_at, self._ttl_ms), granted), acquisition)
                    return True
                if last or granted < 0:
                    if refused is not None:
                        refused(granted, pause_ms)
                    return False
                yield Wait(f"{base}:bell:{mine}", min(pause_ms / 1_000, deadline - time.monotonic()))
                asks_again = True
        except RedisError:
            if token is None:
                self.leave_unsettled(mine)
            raise
        except (GeneratorExit, RedisComponentsError):
            raise
        except BaseException:
            yield from _walk_away(walk_away, mine, surely=not asks_again)
            raise

    def give_back(self, call: Call, lease: Lease) -> Flow[bool]:
        """Give a lease back; True when it was ours until now.

        After an error of the connection the lease is kept, so that it may be tried again. A repetition
        finds nothing when an earlier request was executed and only its reply was lost. As long as the lease
        cannot have expired, nobody else can have ended it: this counts as done.
        """
        return self.give_all_back((call,), lease)

    def give_all_back(self, calls: Sequence[Call], lease: Lease) -> Flow[bool]:
        """See `give_back`, for a lease on several things; True when all of them were ours until now."""
        begun, ours = False, True
        try:
            for call in calls:
                try:
                    reply = yield call
                except (ConnectionError, TimeoutError) as exc:
                    reply = yield from _repeated(call, lease, exc)
                begun, ours = True, bool(reply) and ours
        except (RedisError, RedisComponentsError):
            lease.returning |= begun
            raise
        except BaseException as exc:
            self.leases.returned(lease)
            if not isinstance(exc, GeneratorExit):
                for call in calls:
                    with contextlib.suppress(RedisError):
                        yield _again(call)
            raise
        done = ours or (lease.returning and not lease.is_overdue)
        self.leases.returned(lease, lost=not done)
        return done

    def leave_unsettled(self, token: str) -> None:
        """The server may have granted something to this token; the next question is to find it."""
        self._unsettled.append((os.getpid(), token))

    def new_token(self, suffix: str = "") -> str:
        """A token for the next question: one of those that are unsettled, or a new one."""
        if not self._unsettled:
            return fresh_token(suffix)
        return self.unsettled_token(suffix) or fresh_token(suffix)

    def unsettled_token(self, suffix: str = "") -> str | None:
        """One of the tokens that are unsettled, which is then the caller's to settle; None when there is none."""
        for entry in self._unsettled[:]:
            if entry[0] == os.getpid() and entry[1].endswith(suffix):
                with contextlib.suppress(ValueError):  # another thread may be quicker
                    self._unsettled.remove(entry)
                    return entry[1]
        return None


def fresh_token(suffix: str = "") -> str:
    """A token that nobody has used."""
    return os.urandom(16).hex() + suffix


def _timed(call: Call, patience_s: float, left_s: float) -> Call | Within:
    """The call; one with a time limit does not wait for a moving Cluster slot beyond it."""
    return Within(left_s, call) if 0 < patience_s < math.inf else call


def _repeated(call: Call, lease: Lease, error: RedisError) -> Flow[object]:
    """The reply to a release whose first reply was lost."""
    if isinstance(error, (*HOPELESS, *REFUSED)):
        raise error  # nothing was executed
    lease.returning = True
    return (yield _again(call))


def _again(call: Call) -> Again:
    return Again(call.script, call.keys, call.args)


def _walk_away(walk_away: Callable[[str], Call], token: str, *, surely: bool) -> Flow[None]:
    """Cancelled or interrupted: leave nothing behind, not even by a request that is still under way.

    Args:
        surely: whether a place or a grant that is found is all there can be. Not so for one that stood in line
            and was cut off while it asked again.
    """
    with contextlib.suppress(RedisError):
        if (yield Within(WALK_AWAY_S, walk_away(token))) and surely:
            return
        yield Sleep(STRAGGLER_S)
        yield Within(WALK_AWAY_S, walk_away(token))
