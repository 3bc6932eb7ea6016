"""Helpers of the tests of the page Live."""

from __future__ import annotations

from typing import Any

from django.test import Client

from django_redis_components.core.observability.live_events import MAX_EVENTS, RECORDER, LiveEvent

LIVE = "/admin/django_redis_components/liveevent/"


def record_events(settings: Any, *, is_on: bool = True) -> None:
    """Turn the events on, which are off in other tests: their thread would send commands at any time."""
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "LIVE_EVENTS": is_on}


def event(kind: str = "succeeded", name: str = "shop.pay", **facts: Any) -> LiveEvent:
    return LiveEvent(kind, "task", name, **{"task_id": "task-1", "queue": "mail", **facts})


def send(*events: LiveEvent) -> None:
    """Record events and send them, as many at once as a process records in a second."""
    for start in range(0, len(events), MAX_EVENTS):
        for each in events[start : start + MAX_EVENTS]:
            if RECORDER.has_room():
                RECORDER.add("default", each)
        RECORDER.flush()


def json_of(client: Client, **query: str) -> Any:
    response = client.get(LIVE, {"format": "json", **query})
    assert response.status_code == 200, response.content
    return response.json()


def events_of(client: Client, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json_of(client, **query)["events"]
    return found
