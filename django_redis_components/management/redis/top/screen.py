"""The screen as lines: a summary, and tables of queues, workers and running tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from django_redis_components.management.listings.task_listing import age, clock, of_queues
from django_redis_components.management.listings.worker_listing import of_workers
from django_redis_components.management.redis.top.snapshot import RunningTask, TopSnapshot
from django_redis_components.management.tables import TextTable, escape_controls, table, truncate

#: Characters of the bar of busy threads.
BAR = 30
#: Lines that are not rows of a table: the summary, and for each of three tables a blank line, the header and the count.
_FIXED_LINES = 3 + 3 * 3
Style = Callable[[str], str]


def lines_of(
    snapshot: TopSnapshot, address: str, *, size: tuple[int, int] | None, heading: Style, alert: Style
) -> Iterator[str]:
    """Yield the lines of the screen.

    Args:
        address: of the server, without credentials.
        size: columns and lines of the terminal; None: all rows, in full length.
        heading, alert: add color to a line.
    """
    columns, height = size or (None, None)
    rows = None if height is None else max(1, (height - _FIXED_LINES) // 3)
    for line in _summary(snapshot, address):
        yield _fit(line, columns)
    for each, alerts in _tables(snapshot):
        shown = each.rows if rows is None else each.rows[:rows]
        text = table(each.headers, shown, right=each.numbers, columns=columns).split("\n")
        yield ""
        yield heading(_fit(text[0], columns))
        for row, line in zip(shown, text[1:], strict=True):
            yield alert(_fit(line, columns)) if row[0] in alerts else _fit(line, columns)
        if len(shown) < len(each.rows):
            yield f"… {len(each.rows) - len(shown):,} more"


def _summary(snapshot: TopSnapshot, address: str) -> Iterator[str]:
    overview = snapshot.overview
    live = [worker for worker in overview.workers if worker.is_alive]
    busy, threads = sum(worker.busy_threads for worker in live), sum(worker.threads for worker in live)
    filled = round(BAR * busy / threads) if threads else 0
    per_minute = sum(metrics.per_minute() for metrics in overview.metrics.values())
    yield f"{escape_controls(address)}  {clock(overview.at)}"
    yield (
        f"Threads [{'|' * filled}{' ' * (BAR - filled)}] {busy:,}/{threads:,} busy"
        f"  Workers {overview.live_count:,} live, {overview.worker_count - overview.live_count:,} lost"
        f"  Poller {'active' if overview.poller else 'none'}"
    )
    for name, error in snapshot.missing.items():
        yield escape_controls(f"Shard {name} is missing: {error}")
    states = ("ready", "scheduled", "retrying", "limited", "waiting", "running", "failed", "unregistered")
    counts = {state: sum(getattr(queue, state) for queue in overview.queues) for state in states}
    shown = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count or state in ("ready", "running"))
    yield f"Tasks {shown}  Finished {per_minute:,.1f}/min (last hour)"


def _tables(snapshot: TopSnapshot) -> Iterator[tuple[TextTable, Collection[str]]]:
    """Yield each table, and the first cells of the rows with a problem."""
    overview = snapshot.overview
    queues = sorted(overview.queues, key=lambda queue: (-queue.ready - queue.running, queue.name))
    stuck = {queue.name for queue in queues if queue.ready and (queue.paused or not queue.live_workers)}
    yield of_queues(queues, overview.metrics, overview.at), stuck
    workers = sorted(overview.workers, key=lambda worker: (worker.is_alive, -worker.busy, worker.id))
    lost = {row[0] for row in of_workers(workers).rows if row[1] == "lost"}
    yield of_workers(workers), lost
    yield _running(snapshot.running), ()


def _running(tasks: Sequence[RunningTask]) -> TextTable:
    rows = [(task.id, age(task.elapsed_s), task.queue, task.worker, task.name) for task in tasks]
    return TextTable(("RUNNING TASK", "ELAPSED", "QUEUE", "WORKER", "TASK"), rows, frozenset(["ELAPSED"]))


def _fit(line: str, columns: int | None) -> str:
    return line if columns is None else truncate(line, columns)
