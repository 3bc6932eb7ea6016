"""The page Live as JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core import conf
from django_redis_components.dashboard.error_text import shown_error
from django_redis_components.dashboard.json_data import cost_data, time_data
from django_redis_components.dashboard.live.snapshot import LiveSnapshot, RecordedEvent


def live_data(snapshot: LiveSnapshot) -> dict[str, Any]:
    """Return a snapshot. A request with ``?after=<last_id>`` returns what was added since."""
    return {
        "at": time_data(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "address": snapshot.address,
        **dataclasses.asdict(snapshot.query),
        "is_recorded": snapshot.is_recorded,
        "last_id": snapshot.last_id or snapshot.query.after or None,
        "events": [_event(each) for each in snapshot.events],
        "cost": cost_data(snapshot.cost),
    }


def _event(recorded: RecordedEvent) -> dict[str, Any]:
    event = recorded.event
    return {
        "id": recorded.id,
        "at": time_data(recorded.at),
        **dataclasses.asdict(event),
        "message": shown_error(event.message),
    }
