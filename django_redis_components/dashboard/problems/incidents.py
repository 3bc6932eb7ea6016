"""Incidents: the start of a problem, its acknowledgment, and what was announced about it.

`advance` decides what changes, without Redis. One process of the site calls it every few seconds with the problems that
it has found (`watcher`), and stores the result with a transaction (`storage`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django_redis_components.core.text import encodable
from django_redis_components.dashboard.problems.problem import OUTAGE, OUTAGE_CODES, Problem

#: Seconds after which a problem that was not found again is resolved: one that comes and goes is one incident.
END_AFTER_S = 60.0
#: Seconds that a warning must last before it is announced. A critical problem is announced at once.
WARN_AFTER_S = 60.0
#: Most incidents that are kept while they last, and characters of each of their texts. A longer command is left out.
MAX_OPEN, MAX_TEXT = 200, 1_000
#: Most announcements that wait for their delivery.
MAX_PENDING = 200
#: Code of the problem of channels that do not deliver.
NOTIFICATIONS_FAILING = "notifications_failing"
#: A time that no incident has, in seconds since the epoch: of the year 5138.
MAX_TIME = 1e11
#: Ranks of what may be announced, in order.
RANKS = {"": 0, "warning": 1, "critical": 2}


@dataclasses.dataclass(frozen=True, slots=True)
class Acknowledgment:
    """An operator works on an incident: it is not announced meanwhile.

    Attributes:
        severity: of the problem at that time. If a warning becomes critical, it alarms again.
        at, until: seconds since the epoch; `until` is None if it holds until the incident ends.
    """

    author: str
    reason: str
    severity: str
    at: float
    until: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Incident:
    """A problem from its beginning to its end.

    Attributes:
        id: see `Problem.id`.
        code, severity, text, advice, command, queue: see `Problem`, in the language of the site; as last found.
        started_at, seen_at: when it was found first and last, in seconds since the epoch.
        announced: the severity that was announced: "critical", "warning", or "".
        acknowledged: or None.
        resolved_at: when it was found last, once it is resolved; None before.
    """

    id: str
    code: str
    severity: str
    text: str
    advice: str
    command: str
    queue: str
    started_at: float
    seen_at: float
    announced: str = ""
    acknowledged: Acknowledgment | None = None
    resolved_at: float | None = None

    def is_acknowledged(self, now: float) -> bool:
        """Return whether an acknowledgment holds."""
        held = self.acknowledged
        return (
            held is not None
            and (held.until is None or now < held.until)
            and RANKS[self.severity] <= RANKS[held.severity]
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Announcement:
    """What the channels announce of an incident.

    Attributes:
        event: "started", "critical" (it was a warning before) or "resolved".
        channels: names of those that have not delivered it yet.
        made_at: in seconds since the epoch.
        claimed_at: when a process started to deliver it; 0 before.
    """

    event: str
    incident: Incident
    channels: tuple[str, ...]
    made_at: float
    claimed_at: float = 0.0

    @property
    def key(self) -> tuple[str, str, float]:
        """What is the same as long as it waits for its delivery."""
        return self.event, self.incident.id, self.made_at


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelFailure:
    """A channel whose last delivery has failed.

    Attributes:
        since, at: when the first delivery after a successful one has failed, and the last one, in seconds since the
            epoch.
        error: class and text of the last error, without secrets.
    """

    since: float
    at: float
    error: str


@dataclasses.dataclass(frozen=True, slots=True)
class IncidentState:
    """The incidents that last, by id, the announcements that wait for their delivery, and the channels that fail."""

    incidents: Mapping[str, Incident] = dataclasses.field(default_factory=dict)
    pending: tuple[Announcement, ...] = ()
    failures: Mapping[str, ChannelFailure] = dataclasses.field(default_factory=dict)

    @classmethod
    def parse(cls, stored: Any) -> IncidentState:
        """Return the state from JSON. What another version or program has written counts as nothing."""
        try:
            incidents = [parse_incident(each) for each in stored["incidents"]]
            pending = [
                Announcement(
                    **{**each, "incident": parse_incident(each["incident"]), "channels": tuple(each["channels"])}
                )
                for each in stored["pending"]
            ]
            _check_times(time for each in pending for time in (each.made_at, each.claimed_at))
            failures = {name: ChannelFailure(**each) for name, each in stored.get("failures", {}).items()}
            _check_failures(failures.values())
        except (AttributeError, KeyError, TypeError, ValueError):
            return cls()
        return cls({each.id: each for each in incidents}, tuple(pending), failures)

    def encode(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "incidents": [dataclasses.asdict(each) for each in self.incidents.values()],
            "pending": [dataclasses.asdict(each) for each in self.pending],
            "failures": {name: dataclasses.asdict(each) for name, each in self.failures.items()},
        }


def advance(
    state: IncidentState,
    problems: Sequence[Problem],
    now: float,
    *,
    channels: Sequence[str] = (),
    least: str = "warning",
) -> tuple[IncidentState, list[Incident]]:
    """Return the next state, and the incidents that are resolved by it.

    Args:
        problems: all that were found now.
        channels: names of those that announcements are sent to.
        least: the least severity that is announced.
    """
    found = {problem.id: problem for problem in problems}
    open_incidents, resolved, pending = {}, [], list(state.pending)
    for incident in state.incidents.values():
        if incident.id not in found and now - incident.seen_at > END_AFTER_S:
            over = dataclasses.replace(incident, resolved_at=incident.seen_at)
            resolved.append(over)
            if incident.announced:
                pending.append(Announcement("resolved", over, _channels_for(over, channels, state), now))
        else:
            open_incidents[incident.id] = incident
    for problem in [*found.values()]:
        if problem.id in open_incidents or len(open_incidents) < MAX_OPEN:
            open_incidents[problem.id] = _found_again(open_incidents.get(problem.id), problem, now)
    for incident in [*open_incidents.values()]:
        if incident.id in found and (event := _event_of(incident, now, least)):
            open_incidents[incident.id] = announced = dataclasses.replace(incident, announced=incident.severity)
            pending.append(Announcement(event, announced, _channels_for(announced, channels, state), now))
    waiting = tuple(each for each in pending if each.channels)[-MAX_PENDING:]
    failures = {name: each for name, each in state.failures.items() if name in channels}
    return IncidentState(open_incidents, waiting, failures), resolved


def record_deliveries(state: IncidentState, errors: Mapping[str, str], now: float) -> IncidentState:
    """Return the state after deliveries.

    Args:
        errors: by channel; "" if it has delivered.
    """
    failures = {name: each for name, each in state.failures.items() if errors.get(name) != ""}
    for name, error in errors.items():
        if error:
            since = failures[name].since if name in failures else now
            failures[name] = ChannelFailure(since, now, error[:MAX_TEXT])
    return dataclasses.replace(state, failures=failures)


def _channels_for(incident: Incident, channels: Sequence[str], state: IncidentState) -> tuple[str, ...]:
    """Return the channels that announce an incident. One that fails does not announce that channels fail."""
    is_about_channels = incident.code == NOTIFICATIONS_FAILING
    return tuple(name for name in channels if not (is_about_channels and name in state.failures))


def acknowledge(state: IncidentState, problem: Problem, acknowledgment: Acknowledgment | None) -> IncidentState:
    """Return the state in which a problem is acknowledged, or not any more (None)."""
    at = acknowledgment.at if acknowledgment else 0.0
    incident = state.incidents.get(problem.id) or _found_again(None, problem, at)
    changed = {**state.incidents, problem.id: dataclasses.replace(incident, acknowledged=acknowledgment)}
    return dataclasses.replace(state, incidents=changed)


def _event_of(incident: Incident, now: float, least: str) -> str:
    """Return what must be announced, or ""."""
    rank = RANKS[incident.severity]
    if rank <= RANKS[incident.announced] or rank < RANKS[least] or incident.is_acknowledged(now):
        return ""
    if incident.severity == "warning" and now - incident.started_at < WARN_AFTER_S:
        return ""
    return "critical" if incident.announced else "started"


def _found_again(incident: Incident | None, problem: Problem, now: float) -> Incident:
    return Incident(
        id=problem.id,
        code=problem.code,
        severity=problem.severity,
        text=encodable(problem.text)[:MAX_TEXT],
        advice=encodable(problem.advice)[:MAX_TEXT],
        command=encodable(problem.command) if len(problem.command) <= MAX_TEXT else "",
        queue=problem.queue,
        started_at=incident.started_at if incident else now,
        seen_at=now,
        announced=incident.announced if incident else "",
        acknowledged=incident.acknowledged if incident else None,
    )


def parse_incident(stored: Mapping[str, Any]) -> Incident:
    """Return an incident from JSON.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    held = stored["acknowledged"]
    incident = Incident(**{**stored, "acknowledged": Acknowledgment(**held) if held else None})
    texts = [getattr(incident, name) for name in ("id", "code", "text", "advice", "command", "queue")]
    times = [incident.started_at, incident.seen_at, 0 if incident.resolved_at is None else incident.resolved_at]
    severities = [incident.severity, incident.announced]
    if incident.acknowledged is not None:
        held = incident.acknowledged
        texts, times = [*texts, held.author, held.reason], [*times, held.at, 0 if held.until is None else held.until]
        severities.append(held.severity)
    _check_times(times)
    if not all(isinstance(each, str) for each in texts) or not RANKS.keys() >= set(severities):
        raise ValueError(f"{texts}, {severities}: expected texts, and known severities.")
    if incident.code in OUTAGE_CODES and incident.id.startswith(f"{incident.code}:"):  # of an earlier release
        return dataclasses.replace(incident, id=f"{OUTAGE}{incident.id.removeprefix(incident.code)}")
    return incident


def _check_failures(failures: Iterable[ChannelFailure]) -> None:
    for each in failures:
        _check_times((each.since, each.at))
        if not isinstance(each.error, str):
            raise TypeError(f"{each.error!r}: expected a text.")


def _check_times(times: Iterable[Any]) -> None:
    """Accept what can be shown as a time.

    Raises:
        TypeError, ValueError: it is none.
    """
    if not all(0 <= each < MAX_TIME for each in times):
        raise ValueError("Expected seconds since the epoch.")
