"""What is logged about nodes of a Cluster that redirect to each other with MOVED. No server: the test answers."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
from redis.exceptions import MovedError

from django_redis_components.core.client import connections, retry, slot_migration
from django_redis_components.core.client.slot_migration import slot_of
from django_redis_components.core.client.topology import Cluster, topology_of
from django_redis_components.core.protocol import Read


@pytest.fixture
def topology(settings: Any, caplog: pytest.LogCaptureFixture) -> Cluster:
    caplog.set_level(logging.INFO, "django_redis_components.core.client.slot_migration")
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis+cluster://127.0.0.1:7000"}}}
    topology = topology_of(connections.endpoint("default"))
    assert isinstance(topology, Cluster)
    return topology


def test_long_wait_is_logged_at_its_start_and_its_end(
    topology: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_migration, "DISAGREE_LOG_S", 0.0)

    redirect_then_answer(topology)

    warning, info = caplog.records
    assert (warning.levelname, info.levelname) == ("WARNING", "INFO")
    assert warning.getMessage() == (
        f"Slot {slot_of('name')} of the Cluster {topology} is served by no node, since nodes redirect to each other: "
        "its requests wait, at most 60 s each."
    )
    assert info.getMessage().startswith(
        f"Slot {slot_of('name')} of the Cluster is served again; its requests waited for "
    )


def test_short_wait_is_not_logged(
    topology: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_migration, "DISAGREE_LOG_S", 3_600.0)

    redirect_then_answer(topology)

    assert not caplog.records


def redirect_then_answer(topology: Cluster) -> None:
    """Answer a request with MOVED until it has waited, and then with its value."""
    request, moved = Read("GET", "name"), MovedError("100 127.0.0.1:7001")
    limits = retry.RetryLimits(connections.endpoint("default").settings, time.monotonic())
    steps, waits = retry.recover(request, moved, topology, limits), 0

    step = next(steps)
    while waits < 3:
        if isinstance(step, retry.Backoff):
            waits += 1
            step = steps.send(None)
        else:
            step = steps.send([moved])
    with pytest.raises(StopIteration) as end:
        steps.send([b"value"])
    assert end.value.value == b"value"
