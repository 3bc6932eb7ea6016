"""Sending tasks that any shard of their queue may accept, and tasks of several shards at once.

A task without a placement key goes to the next shard in turn. If nothing was executed there, it goes to another one. If
the reply was lost, it does not: it could run twice. After an error a process leaves the shard out for a while, and then
asks whether it accepts a write before it sends a task there. While a shard keeps one call waiting, the others go
elsewhere: otherwise all threads of a process would soon wait for a server that hangs.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import RedisError, ResponseError

from django_redis_components.core.circuit_breaker import CircuitBreaker
from django_redis_components.core.client import connections
from django_redis_components.core.client.retry import NOT_EXECUTED_ERRORS
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.forks import after_fork_in_child
from django_redis_components.core.protocol import BoundedSlotWait, Command, Flow, arun, run
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import OutageLog, accepts_no_writes, describe_error
from django_redis_components.taskqueue.shard_clients import TIMEOUT_S, prompt_client
from django_redis_components.taskqueue.shards import Shard, place
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.messages import (
    TaskMessage,
    calls_for,
    chunks,
    first_part,
    send_call,
    with_parts,
)

T = TypeVar("T")
#: Seconds for which a shard that has failed is left out.
RETRY_S = 5.0
#: Seconds after which a call that waits for a shard keeps other calls from it: twice its longest reply time of late,
#: but at least `QUICK_S` and at most `SLOW_S`. If the shard hangs, each call that was sent before may be lost.
QUICK_S, SLOW_S = 0.02, 0.1
#: What remains of the longest reply time after each further reply: the longest of about a hundred counts.
DECAY = 0.98
#: What is done in several shards: each step is an `OnShard`.
Steps = Generator[Any, Any, T]


class _Reach(CircuitBreaker):
    """Whether a shard is left out in this process.

    Attributes:
        waiting: since when each call waits for the shard, the oldest first.
        longest_s: the longest time that a call of late has waited for its reply.
    """

    __slots__ = ("longest_s", "outage", "waiting")

    def __init__(self, shard: Shard) -> None:
        super().__init__()
        self.waiting: dict[object, float] = {}
        self.longest_s = SLOW_S
        self.outage = OutageLog(logger.warning, logger.info, f"Shard {shard.name}: ")

    def failed(self, shard: Shard, error: Exception) -> None:
        """Leave the shard out."""
        self.record_failure(RETRY_S)
        self.outage.failed(f"Shard {shard.name}: {describe_error(error)}; new tasks without a key go to the others.")

    def answered(self) -> None:
        """Use the shard again."""
        self.record_success()
        self.outage.succeeded()

    def slow_s(self) -> float:
        """Return for how many seconds it has kept a call waiting; 0 if that is not long."""
        since = list(self.waiting.values())  # a copy: calls begin and end meanwhile
        waited_s = time.monotonic() - since[0] if since else 0.0
        return waited_s if waited_s >= min(SLOW_S, max(QUICK_S, 2 * self.longest_s)) else 0.0


_circuits: dict[Shard, _Reach] = {}
conf.on_change(_circuits.clear)
after_fork_in_child(_circuits.clear)  # the calls of the parent do not end in the child


@dataclasses.dataclass(frozen=True, slots=True)
class OnShard:
    """A flow on a shard, as a step of `run_steps`.

    Attributes:
        shard: whose client performs it.
        flow: what is done.
        is_prompt: whether the shard is not waited for; see `shard_clients.prompt_client`.
    """

    shard: Shard
    flow: Flow[Any]
    is_prompt: bool = False

    def perform(self, _: Any) -> Any:
        """Perform it in this thread."""
        return run(prompt_client(self.shard) if self.is_prompt else self.shard.client(), self.flow)

    async def aperform(self, _: Any) -> Any:
        """Perform it on the event loop."""
        if not self.is_prompt:
            return await self.shard.arun(self.flow)
        return await arun(connections.aclient_with_timeout(self.shard.alias, TIMEOUT_S, retries=0), self.flow)


@dataclasses.dataclass(frozen=True, slots=True)
class LookUpAgain:
    """As a step of `run_steps`: the client that sends tasks asks again which node serves a shard.

    Another client has reached the shard. This one may still know the node that hangs.
    """

    shard: Shard

    def perform(self, _: Any) -> None:
        """Perform it in this thread."""
        self.shard.client().reset_topology(self.shard.base)

    async def aperform(self, _: Any) -> None:
        """Perform it on the event loop."""
        connections.aclient(self.shard.alias).reset_topology(self.shard.base)


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """The outcome of sending tasks that any shard may accept.

    Attributes:
        shard: which has accepted them, or may have.
        replies: what the flow has returned: those of the tasks; none after an error.
        error: why none was accepted, as far as is known.
        is_lost: whether the tasks may have been accepted nevertheless.
    """

    shard: Shard
    replies: Sequence[task_records.Reply] = ()
    error: Exception | None = None
    is_lost: bool = False


@dataclasses.dataclass(slots=True)
class SendingOutcome:
    """The outcome of tasks that were sent to several shards.

    Attributes:
        replies: of those that were accepted, by their numbers.
        unconfirmed: the numbers of those that may have been accepted.
        shards: where tasks without a placement key were sent, by their numbers.
        error: the first one.
    """

    replies: dict[int, task_records.Reply] = dataclasses.field(default_factory=dict)
    unconfirmed: set[int] = dataclasses.field(default_factory=set)
    shards: dict[int, Shard] = dataclasses.field(default_factory=dict)
    error: Exception | None = None


def run_steps(steps: Steps[T]) -> T:
    """Do something in several shards."""
    client: Any = None  # each step has its own
    return run(client, steps)


async def arun_steps(steps: Steps[T]) -> T:
    """See `run_steps`."""
    client: Any = None
    return await arun(client, steps)


def send_to_any(messages: Sequence[TaskMessage]) -> Steps[Attempt]:
    """Send tasks without a placement key to the next shard of their route; at most `messages.CHUNK`."""
    return (yield from try_each(messages[0].route, lambda shard: _send(shard, messages)))


def try_each(route: Sequence[Shard], flow_of: Callable[[Shard], Flow[Any]]) -> Steps[Attempt]:
    """Run a flow on the next shard of a route. If nothing was executed there, it is run on another one.

    Args:
        flow_of: returns the flow for a shard. Until an error that says so, nothing of it may have been executed.
    """
    error: Exception | None = None
    shard = route[0]
    for shard in (yield from _candidates(route)):
        circuit, call = _circuit(shard), object()
        circuit.waiting[call] = time.monotonic()
        try:
            replies = yield OnShard(shard, flow_of(shard))
        except RedisError as exc:
            if isinstance(exc, NOT_EXECUTED_ERRORS) or accepts_no_writes(exc):
                circuit.failed(shard, exc)
                error = exc
                continue
            is_lost = not isinstance(exc, ResponseError)
            if is_lost:
                circuit.failed(shard, exc)
            return Attempt(shard, error=exc, is_lost=is_lost)
        else:
            circuit.longest_s = max(time.monotonic() - circuit.waiting[call], circuit.longest_s * DECAY)
            circuit.answered()
            return Attempt(shard, replies)
        finally:
            del circuit.waiting[call]
    return Attempt(shard, error=error)


def next_answering(route: Sequence[Shard]) -> Shard:
    """Return the next shard of a route that has not failed in the last `RETRY_S`; any if all have.

    No shard is asked whether it answers. So the end of `RETRY_S` must suffice: a process that only stores tasks in the
    outbox would otherwise leave a shard out for as long as it runs.
    """
    ordered = _slow_last(_in_turn(route))
    return next((shard for shard in ordered if not _circuit(shard).retry_after_s()), ordered[0])


def send_over(messages: Sequence[TaskMessage], shards: Sequence[Shard]) -> Steps[SendingOutcome]:
    """Send tasks to their shards. One that is away does not stop the tasks of the others.

    Args:
        shards: of each message; that of one without a placement key does not count.
    """
    outcome = SendingOutcome()
    own: dict[Shard, list[int]] = {}
    anywhere: dict[Sequence[Shard], list[int]] = {}
    for number, (message, shard) in enumerate(zip(messages, shards, strict=True)):
        if message.route:
            anywhere.setdefault(message.route, []).append(number)
        else:
            own.setdefault(shard, []).append(number)
    for shard, numbers in own.items():
        yield from _send_own(shard, numbers, messages, outcome)
    for numbers in anywhere.values():
        yield from _send_anywhere(numbers, messages, outcome)
    return outcome


def _send_own(
    shard: Shard, numbers: list[int], messages: Sequence[TaskMessage], outcome: SendingOutcome
) -> Steps[None]:
    """Send tasks of one shard."""
    replies: list[task_records.Reply] = []
    some = [messages[number] for number in numbers]
    try:
        yield OnShard(shard, task_records.send_many(shard, some, replies))
    except (RedisError, RedisComponentsError) as exc:
        outcome.error = outcome.error or exc
        if not isinstance(exc, (ResponseError, *NOT_EXECUTED_ERRORS)):
            sent = len(replies) + first_part(some[len(replies) :])
            outcome.unconfirmed.update(numbers[len(replies) : sent])
    outcome.replies.update(zip(numbers, replies, strict=False))


def _send_anywhere(numbers: list[int], messages: Sequence[TaskMessage], outcome: SendingOutcome) -> Steps[None]:
    """Send tasks without a placement key, each part to the next shard in turn."""
    rest = iter(numbers)
    for some in chunks([messages[number] for number in numbers]):
        part = list(itertools.islice(rest, len(some)))
        attempt = yield from send_to_any(some)
        outcome.shards.update(dict.fromkeys(part, attempt.shard))
        outcome.replies.update(zip(part, attempt.replies, strict=False))
        outcome.error = outcome.error or attempt.error
        outcome.unconfirmed.update(part if attempt.is_lost else ())


def _send(shard: Shard, messages: Sequence[TaskMessage]) -> Flow[list[task_records.Reply]]:
    """Send tasks in one round trip. A slot that is being moved is not waited for: others are free."""
    replies: list[task_records.Reply] = []
    for call, some in with_parts(calls_for(shard, messages), messages):
        replies += yield from send_call(shard, call, some, partial(BoundedSlotWait, TIMEOUT_S))
    return replies


def _candidates(route: Sequence[Shard]) -> Steps[list[Shard]]:
    """Return the shards to try, in order: those that are not known to be away, or all if all are."""
    ordered, answers = _in_turn(route), {}
    for shard in ordered:
        answers[shard] = yield from _answers(shard)
    return _slow_last([shard for shard in ordered if answers[shard]] or ordered)


def _slow_last(shards: Sequence[Shard]) -> list[Shard]:
    """Return the shards, those that keep a call waiting last: on a busy host all may, one that hangs does longest."""
    return sorted(shards, key=lambda shard: _circuit(shard).slow_s())


def _in_turn(route: Sequence[Shard]) -> list[Shard]:
    """Return a route that begins with the shard whose turn it is."""
    start = route.index(place(route))
    return [*route[start:], *route[:start]]


def _answers(shard: Shard) -> Steps[bool]:
    """Return whether a shard is not known to be away. One that was away for a while is asked."""
    circuit = _circuit(shard)
    if not circuit.is_open:
        return True
    if not circuit.allows_request(RETRY_S):
        return False
    try:
        yield OnShard(shard, ask_for_write(shard), is_prompt=True)
    except (RedisError, RedisComponentsError) as exc:
        circuit.failed(shard, exc)
        return False
    yield LookUpAgain(shard)
    circuit.answered()
    return True


def ask_for_write(shard: Shard) -> Flow[Any]:
    """Write a key: a server that is out of memory, or became a replica, answers reads."""
    return (yield Command("SET", shard.key(Key.ack), 1, "PX", 1, retry=True))


def _circuit(shard: Shard) -> _Reach:
    return _circuits.get(shard) or _circuits.setdefault(shard, _Reach(shard))
