"""The reply to the process that commits is lost: Redis has its tasks, and neither it nor the relay sends them again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_redis_components.contrib.outbox.relay import Relay
from django_redis_components.taskqueue import TaskResult, chain, group, signals
from tests.contrib.outbox.support import row_count
from tests.support import Proxy, Store, eventually
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import note, recorded

pytestmark = pytest.mark.integration

#: A task of the connection whose replies are lost.
far = dataclasses.replace(note, connection="proxied")
#: More tasks than one part of a flow has.
LARGE = 260


@pytest.fixture
def patient(proxy: Proxy, table: None, settings: Any) -> Proxy:
    """The process that commits waits for long enough to send a request again, also on a busy machine."""
    made = settings.REDIS_COMPONENTS["CONNECTIONS"]
    connections = {**made, "proxied": {**made["proxied"], "PAGE_TIMEOUT": 10, "SOCKET_TIMEOUT": 10}}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": connections}
    return proxy


@pytest.fixture
def notified() -> Iterator[list[str]]:
    """The ids of the tasks whose signal was sent."""
    ids: list[str] = []

    def receive(task_result: TaskResult, **_: Any) -> None:
        ids.append(task_result.id)

    signals.task_enqueued.connect(receive)
    yield ids
    signals.task_enqueued.disconnect(receive)


def commit(kind: str) -> list[TaskResult]:
    """Commit calls of a kind. The last request that sends them contains "a word"."""
    with transaction.atomic():
        if kind == "flow":
            return chain(far.s("a word"), far.si("then")).enqueue_on_commit().results
        if kind == "large flow":
            return group(*(far.s(number) for number in range(LARGE)), far.s("a word")).enqueue_on_commit().results
        options: Any = {"id": {"id": "own"}, "unique": {"unique": True}}.get(kind, {})
        return [far.using(**options).enqueue_on_commit("a word"), far.enqueue_on_commit("then")]


@pytest.mark.parametrize("kind", ["task", "id", "unique", "flow", "large flow"])
@pytest.mark.parametrize("losses", [1, 100], ids=["the client repeats it", "the relay finds it"])
def test_tasks_of_a_process_without_a_reply_run_once(
    redis_server: Store, patient: Proxy, notified: list[str], kind: str, losses: int
) -> None:
    patient.drop_next_reply(b"a word", times=losses)
    results = commit(kind)
    patient.drop_next_reply(times=0)
    assert patient.dropped >= 1
    work_off()
    accepted = list(recorded)
    redis_server.raw.delete(*(base_key(redis_server, "t", result.id) for result in results))  # they have expired

    relay = Relay("proxied")
    eventually(lambda: (relay.step(), row_count() == 0)[1])
    relay.release()
    work_off()

    assert "a word" in accepted, "Redis had accepted it at the commit"
    assert sorted(map(str, recorded)) == sorted(str(result.args[0]) for result in results)
    assert notified == [result.id for result in results if losses == 1 or result.args[0] not in accepted]
    assert not any(result.is_duplicate for result in results)
