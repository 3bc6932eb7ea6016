"""Moving tasks to another shard; independent of argparse and of the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.management.base import CommandResult
from django_redis_components.management.progress import Advance, progress
from django_redis_components.management.redis.queues.operations import count_of_tasks
from django_redis_components.taskqueue import failpoints
from django_redis_components.taskqueue.fields import Part
from django_redis_components.taskqueue.options import check_queue
from django_redis_components.taskqueue.routing import ask_for_write
from django_redis_components.taskqueue.shards import Shard, named, route_of
from django_redis_components.taskqueue.stats.queue_stats import QueueInfo, read_depths
from django_redis_components.taskqueue.store import moves
from django_redis_components.taskqueue.store.moves import Movable
from django_redis_components.taskqueue.store.scan import Filters, scan_tasks

#: States whose tasks are moved, in this order: ready tasks first, since they wait for a worker only.
STATES = ("ready", "scheduled", "failed", "unregistered")
#: What stays, by the attributes of `Movable`, for the text.
_REASONS = {
    "flows": "of flows",
    "unique": "with a unique key",
    "limits": "with a limit",
    "held": "with a limit that a running task holds",
    "groups": "of paused groups",
    "refused": "whose unique key another task has in the other shard",
    "movable": "that changed meanwhile",
}


@dataclasses.dataclass(slots=True)
class Left:
    """What stays in the shard, of one queue.

    Attributes:
        tasks: by why.
        running: tasks that run.
        problem: why none of the queue was moved, or not all failed ones; "" without a reason.
    """

    tasks: Movable = dataclasses.field(default_factory=Movable)
    running: int = 0
    problem: str = ""

    @property
    def data(self) -> dict[str, int]:
        """Counts by why, without zeros."""
        counts = {**dataclasses.asdict(self.tasks), "running": self.running}
        return {reason: count for reason, count in counts.items() if count}

    def without_movable(self) -> Left:
        """Return it without the tasks that may be moved."""
        return dataclasses.replace(self, tasks=dataclasses.replace(self.tasks, movable=0))

    @property
    def text(self) -> str:
        """What stays, as text; "" for nothing."""
        counts = [f"{count:,} {_REASONS[name]}" for name, count in dataclasses.asdict(self.tasks).items() if count]
        counts += [f"{self.running:,} running"] if self.running else []
        return "; ".join([*([", ".join(counts)] if counts else []), *([self.problem] if self.problem else [])])


class ShardMove:
    """A move of tasks from a shard to another one.

    Args:
        source, target: their names.
        queue: the only queue whose tasks are moved; "": all.

    Raises:
        ValueError: a shard does not exist, or both are the same.
        CommandError: tasks of a move in the other direction are left.
        UnknownQueue: the queue is not declared, and has no tasks in the shard.
        redis.exceptions.RedisError: a shard does not answer.
    """

    def __init__(self, using: str, source: str, target: str, queue: str = "") -> None:
        self.source, self.target = named(source, using), named(target, using)
        if source == target:
            raise ValueError(f"Shard {source!r}: expected another shard to move the tasks to.")
        #: How many tasks an interrupted move has left.
        self.interrupted = self.source.run(moves.check_target(self.source, self.target))
        back = self.target.run(moves.check_target(self.target, self.source))
        if back:
            raise CommandError(
                f"A move of {count_of_tasks(back)} from shard {target!r} to {source!r} was interrupted, or runs."
                f" Complete it first: redis shards move {target} {source}"
            )
        depths = self.source.run(read_depths(self.source, *([queue] if queue else [])))
        self._queues = {depth.name: depth for depth in depths if _listed(depth) or depth.running or depth.waiting}
        if queue and not self._queues:
            check_queue(queue)  # one that is no longer declared may have tasks
        #: Tasks that enter a queue later are not moved: the command would not end while the route goes to the shard.
        self._until_us = self.source.run(_read_us(self.source))
        self.moved = 0
        #: Tasks that the other shard has refused.
        self._refused: set[str] = set()

    @property
    def direction(self) -> str:
        """From where to where, as text."""
        return f"from shard {self.source.name!r} to {self.target.name!r}"

    @property
    def routed(self) -> list[str]:
        """The queues whose new tasks still go to the shard."""
        return [queue for queue in self._queues if self.source in route_of(queue, self.source.using)]

    @property
    def listed(self) -> int:
        """How many tasks were in the states that are moved."""
        return self.interrupted + sum(map(_listed, self._queues.values()))

    def count(self) -> dict[str, Left]:
        """Return what would be moved, as `tasks.movable`, and what would stay, by queue. Writes nothing."""
        return {queue: self._left_of(queue) for queue in self._queues}

    def perform(self, advance: Advance) -> dict[str, Left]:
        """Move the tasks; return what stays, by queue.

        Args:
            advance: gets the number of tasks after each step.
        """
        self._drain(advance)
        left = {}
        for queue in self._queues:
            problem = self._pause_problem(queue) or self._move_queue(queue, advance)
            left[queue] = dataclasses.replace(self._left_of(queue), problem=problem)
        return {queue: each for queue, each in left.items() if each.text}

    def _pause_problem(self, queue: str) -> str:
        """Return why the tasks of a queue must not move: they would run in the other shard; "" if they may."""
        shards = (self.source, self.target)
        here, there = [shard.run(read_depths(shard, queue))[0].paused for shard in shards]
        if here is None or there is not None:
            return ""
        return f"paused in shard {self.source.name!r} only: pause or resume it in all shards"

    def _move_queue(self, queue: str, advance: Advance) -> str:
        """Move the tasks of a queue; return why not all failed ones were."""
        problem = ""
        for state in STATES:
            has_moved = True
            while has_moved and not problem:  # a place in a list may have changed while its tasks were taken
                has_moved = False
                for ids in self._ids(queue, state):
                    if state == "failed" and not self._has_room(queue, len(ids)):
                        problem = 'the other shard keeps as many failed tasks as it may (TASKQUEUE["FAILED_LIMIT"])'
                        break
                    has_moved |= self._move(queue, state, ids, advance)
        return problem

    def _move(self, queue: str, state: str, ids: list[str], advance: Advance) -> bool:
        """Move these tasks, as far as another shard may take them; return whether it took any."""
        source, target = self.source, self.target
        target.run(ask_for_write(target))  # else the tasks would be in neither queue
        is_target = self._is_target(queue)
        ids = [each for each in ids if each not in self._refused]
        taken = source.run(moves.export_tasks(source, queue, state, self._until_us, target, ids, is_target=is_target))
        failpoints.reach("after_export")
        self._drain(advance)
        return bool(taken)

    def _drain(self, advance: Advance) -> None:
        """Complete the move of the tasks that were taken, by this process or another one."""
        source, target = self.source, self.target
        now_ms = target.run(moves.read_ms(target))
        while tasks := source.run(moves.read_moving(source)):
            failpoints.reach("after_read")
            read_at_ms = now_ms  # of all parts: a later one may be accepted long after
            gone = [task for task in tasks if not task.arguments]
            forgotten = source.run(moves.forget_tasks(source, gone)) if gone else 0
            for part in moves.parts([task for task in tasks if task.arguments]):
                now_ms, arrived, refused = target.run(moves.import_tasks(target, part, read_at_ms))
                failpoints.reach("after_import")
                if refused:
                    source.run(moves.return_tasks(source, refused))
                    target.run(moves.settle_arrivals(target, refused, now_ms, "/refused"))
                    self._refused.update(task.id for task in refused)
                if arrived:
                    moved = source.run(moves.forget_tasks(source, arrived))
                    failpoints.reach("after_forget")
                    target.run(moves.settle_arrivals(target, arrived, now_ms))
                    self.moved += moved
                    forgotten += moved
            advance(forgotten)

    def _ids(self, queue: str, state: str) -> Iterator[list[str]]:
        """Yield the ids of the tasks in a state. While they are taken out, some may be yielded twice, or not at all."""
        cursor, seen, rest = "", set[str](), 0
        while cursor not in seen:
            seen.add(cursor)
            scan = self.source.run(
                scan_tasks(self.source, queue, state, Filters(), cursor=cursor, limit=moves.CHUNK, mode="ids")
            )
            if scan.tasks:
                yield [task.record.id for task in scan.tasks]
            rest = (rest or scan.total) - scan.scanned
            cursor = scan.last
            if not scan.has_more or rest <= 0:
                return

    def _left_of(self, queue: str) -> Left:
        """Return what of a queue is in the shard now."""
        source, counts = self.source, Movable()
        for state in STATES:
            for ids in self._ids(queue, state):
                rest = [each for each in ids if each not in self._refused]
                counts.refused += len(ids) - len(rest)
                counts += source.run(
                    moves.count_movable(source, queue, state, self._until_us, rest, is_target=self._is_target(queue))
                )
        [depth] = source.run(read_depths(source, queue))
        waiting = dataclasses.replace(counts, flows=counts.flows + depth.waiting)
        return Left(waiting, depth.running)

    def _is_target(self, queue: str) -> bool:
        """Return whether all new tasks of a queue go to the other shard."""
        return route_of(queue, self.source.using) == (self.target,)

    def _has_room(self, queue: str, count: int) -> bool:
        """Return whether the other shard has room for this number of further failed tasks."""
        failed = self.target.run(_count_failed(self.target, queue))
        return failed + count <= conf.settings().taskqueue.failed_limit


def preview(move: ShardMove) -> CommandResult:
    """Return what a move would do. Nothing is written.

    Raises:
        redis.exceptions.RedisError: the shard does not answer.
    """
    counts = move.count()
    movable = sum(each.tasks.movable for each in counts.values()) + move.interrupted
    staying = {queue: each.without_movable() for queue, each in counts.items()}
    text = f"Nothing was moved (dry run). Would move {count_of_tasks(movable)} {move.direction}."
    lines = [text, *(f"Would stay: queue {queue!r}: {each.text}." for queue, each in staying.items() if each.text)]
    return CommandResult(_data(move, movable, staying, is_dry_run=True), "\n".join(lines), note=_note(move))


def perform(move: ShardMove) -> CommandResult:
    """Move tasks to another shard, as far as they may be moved.

    Raises:
        ValueError, redis.exceptions.RedisError: see `ShardMove`.
    """
    try:
        with progress("move", lambda: move.listed, "tasks") as advance:
            left = move.perform(advance)
    except (RedisError, RedisComponentsError) as exc:
        exc.args = (" ".join([str(exc), *_interruption(move)]),)
        raise
    text = f"Moved {count_of_tasks(move.moved)} {move.direction}."
    note = _note(move)
    data = _data(move, move.moved, left, is_dry_run=False)
    if left:
        stays = " ".join(f"Queue {queue!r}: {each.text}." for queue, each in left.items())
        problem = " ".join(["Not all tasks of the shard were moved.", stays, *_hints(move, left.values())])
        return CommandResult(data, text, note=note, problem=problem)
    return CommandResult(data, text, note=note)


def _interruption(move: ShardMove) -> Iterator[str]:
    """Yield that tasks are in neither queue, after an error."""
    source = move.source
    try:
        count = source.run(moves.count_moving(source))
    except (RedisError, RedisComponentsError):
        yield (
            f"The move was interrupted: up to {moves.CHUNK} tasks of shard {source.name!r} may be on their way, and do"
            " not run. Repeat the command."
        )
        return
    if count:
        verb = "is on its way, and does" if count == 1 else "are on their way, and do"
        yield (
            f"The move was interrupted: {count_of_tasks(count)} of shard {source.name!r} {verb} not run. Repeat the"
            " command."
        )


def _hints(move: ShardMove, left: Iterable[Left]) -> Iterator[str]:
    """Yield what to do about tasks that stay."""
    staying = sum((each.tasks for each in left), Movable())
    if staying.unique or staying.limits:
        yield (
            f"Tasks with a unique key or a limit may be moved to shard {move.target.name!r} when all new tasks of their"
            " queue go there. Change the route, or let them run."
        )
    if staying.held or staying.refused:
        yield "Repeat the command when those have finished."


def _note(move: ShardMove) -> str:
    return f"New tasks of these queues go to the shard: {', '.join(move.routed)}." if move.routed else ""


def _data(move: ShardMove, moved: int, left: Mapping[str, Left], *, is_dry_run: bool) -> dict[str, Any]:
    return {
        "from": move.source.name,
        "to": move.target.name,
        "dry_run": is_dry_run,
        "moved": moved,
        "left": {queue: each.data for queue, each in left.items() if each.text},
        "routed": move.routed,
    }


def _listed(depth: QueueInfo) -> int:
    return depth.ready + depth.scheduled + depth.failed + depth.unregistered


def _read_us(shard: Shard) -> Flow[int]:
    seconds, micros = yield Read("TIME", key=shard.base)
    return int(seconds) * 1_000_000 + int(micros)


def _count_failed(shard: Shard, queue: str) -> Flow[int]:
    return int((yield Read("ZCARD", shard.queue(queue, Part.failed))))
