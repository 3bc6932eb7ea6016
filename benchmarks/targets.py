"""What the figures shall show, each with what was measured."""

from __future__ import annotations

import dataclasses
import statistics

from benchmarks import peers
from benchmarks.parts import drain, enqueueing

#: part -> row -> column -> the figure of each round
Measured = dict[str, dict[str, dict[str, list[float]]]]

ONE, TWO = "1 process, tasks/s", "2 processes, tasks/s"
P50, P99 = "p50, ms", "p99, ms"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A target, what was measured, and whether that is enough; None: something was not measured."""

    target: str
    measured: str
    met: bool | None


class Figures:
    """The medians of a run."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured

    def median(self, part: str, row: str, column: str) -> float | None:
        values = self.measured.get(part, {}).get(row, {}).get(column)
        return statistics.median(values) if values else None

    def best_peer(self, part: str, column: str) -> tuple[str, float] | None:
        """The fastest Python queue but ours."""
        labels = [row.label for row in peers.ROWS if row.peer not in ("ours", "bullmq")]
        found = [(value, label) for label in labels if (value := self.median(part, label, column)) is not None]
        return (max(found)[1], max(found)[0]) if found else None

    def lowest(self, part: str, start: str, column: str) -> float | None:
        """The worst of our rows that begin so: the highest value."""
        rows = [label for label in self.measured.get(part, {}) if label.startswith(start)]
        values = [value for label in rows if (value := self.median(part, label, column)) is not None]
        return max(values) if values else None


def verdicts(measured: Measured) -> list[Verdict]:
    """All targets."""
    figures = Figures(measured)
    ours = peers.OURS.label
    made = [
        _against_best(figures, "drain", ONE, 5.0, "drain, one process"),
        _times(figures, ("drain", ours, ONE), ("drain", peers.BULLMQ.label, ONE), 1.5, "drain, one process, BullMQ"),
        _times(figures, ("drain", ours, ONE), ("drain", drain.BARE, ONE), 0.45, "drain, of a bare loop"),
        _against_best(figures, "drain", TWO, 5.0, "drain, two processes"),
        _against_best(figures, "distance", "tasks/s", 5.0, "drain over 2 ms, one process"),
        _times(
            figures, ("enqueue", ours, enqueueing.ONE), ("enqueue", peers.HUEY.label, enqueueing.ONE), 2.0,
            "enqueue one by one, Huey",
        ),
        _times(
            figures, ("enqueue", ours, enqueueing.ONE), ("enqueue", enqueueing.RAW, enqueueing.ONE), 0.6,
            "enqueue one by one, of a held connection",
        ),
        _against_best(figures, "enqueue", enqueueing.BULK, 5.0, "enqueue in bulk"),
    ]  # fmt: skip
    made += [_no_more(figures, column) for column in (P50, P99)]
    late = figures.lowest("delayed", "ours, poller", P99)
    made.append(_below(late, 3.0, "delayed among many others, worst p99", "ms"))
    celery = figures.median("delayed", peers.CELERY.label, P99)
    made.append(_below(late, None if celery is None else 2 * celery, "delayed, twice Celery's p99", "ms"))
    slowest = figures.lowest("fairness", "ours", "slowest, ms")
    made.append(_below(slowest, 100.0, "short tasks beside a long one, the slowest", "ms"))
    made += [
        _below(figures.median("idle", label, "sent/s"), 1.0, f"idle, {label}", "commands/s sent")
        for label in ("our worker, without its poller", "our poller")
    ]
    made.append(_below(figures.median("memory", ours, "bytes a task"), 220.0, "a queued noop(1)", "bytes"))
    return made


def _against_best(figures: Figures, part: str, column: str, factor: float, what: str) -> Verdict:
    best = figures.best_peer(part, column)
    if best is None:
        return Verdict(f"{what}: >= {factor:g} x the best Python peer", "not measured", None)
    return _times(figures, (part, peers.OURS.label, column), (part, best[0], column), factor, f"{what}, {best[0]}")


def _times(
    figures: Figures, mine: tuple[str, str, str], theirs: tuple[str, str, str], factor: float, what: str
) -> Verdict:
    target = f"{what}: >= {factor:g} x"
    own, other = figures.median(*mine), figures.median(*theirs)
    if own is None or not other:
        return Verdict(target, "not measured", None)
    return Verdict(target, f"{own / other:.2f} x ({own:,.0f} to {other:,.0f})", own / other >= factor)


def _no_more(figures: Figures, column: str) -> Verdict:
    own = figures.median("pickup", peers.OURS.label, column)
    return _below(
        own, figures.median("pickup", peers.HUEY.label, column), f"pickup when idle, {column[:3]}, Huey's", "ms"
    )


def _below(value: float | None, limit: float | None, what: str, unit: str) -> Verdict:
    if value is None or limit is None:
        return Verdict(what, "not measured", None)
    return Verdict(f"{what}: <= {limit:.3g} {unit}", f"{value:.3g} {unit}", value <= limit)
