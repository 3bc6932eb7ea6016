"""The recipe for Sentry in the docs: one event for each task that fails finally, with the facts of the task."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any
from unittest import mock

from tests.architecture.sources import ROOT
from tests.support import Store, skip_missing
from tests.support.processes import Children
from tests.taskqueue.support import work_until_finished
from tests.taskqueue.tasks import add, fail, fail_thrice


def recipe() -> str:
    """Return the block of the guide that calls `sentry_sdk.init`."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "tracing.md").read_text(), re.S)
    [found] = [block for block in blocks if "sentry_sdk.init" in block]
    return str(found)


def report() -> list[dict[str, Any]]:
    """Run the recipe, then tasks that succeed, fail, and fail after retries; return the events. Runs in a child."""
    import sentry_sdk
    from sentry_sdk.envelope import Envelope
    from sentry_sdk.transport import Transport

    events: list[dict[str, Any]] = []

    class InMemoryTransport(Transport):
        flushed = False

        def capture_envelope(self, envelope: Envelope) -> None:
            event = envelope.get_event()
            if event is not None:
                events.append(event)

        def flush(self, *args: Any, **kwargs: Any) -> None:
            self.flushed = True

    kept: dict[str, Any] = {}
    transport, init = InMemoryTransport(), sentry_sdk.init
    with mock.patch.object(sentry_sdk, "init", lambda **options: init(**options, transport=transport)):
        exec(recipe(), kept)  # noqa: S102 - the block under test
    results = [add.enqueue(1, 2), fail.using(queue_name="default").enqueue("no stock"), fail_thrice.enqueue("no mail")]
    work_until_finished(*results)
    kept["flush_sentry"].flush()
    return [
        {
            "tags": event["tags"],
            "level": event["level"],
            "exceptions": [each["value"] for each in event["exception"]["values"]],
            "breadcrumbs": [each["level"] for each in event["breadcrumbs"]["values"] if each["type"] == "log"],
            "ids": [each.id for each in results],
            "flushed": transport.flushed,
        }
        for event in events
    ]


def test_a_task_that_fails_is_one_event_with_its_facts_and_a_retry_is_none(
    redis_server: Store, children: Children
) -> None:
    if find_spec("sentry_sdk") is None:
        skip_missing("sentry-sdk is not installed")

    events = children.call(
        "tests.contrib.sentry.test_recipe:report", env={"SENTRY_DSN": "https://k@sentry.invalid/1"}
    ).result()

    assert [(event["level"], event["exceptions"]) for event in events] == [
        ("error", ["no stock"]),
        ("error", ["no mail"]),
    ]
    _, failed_id, retried_id = events[0]["ids"]
    assert [event["tags"] for event in events] == [
        {"task": fail.name, "task_id": failed_id, "queue": "default", "attempt": "1"},
        {"task": fail_thrice.name, "task_id": retried_id, "queue": "default", "attempt": "3"},
    ]
    assert events[1]["breadcrumbs"].count("warning") == 2
    assert all(event["flushed"] for event in events)
