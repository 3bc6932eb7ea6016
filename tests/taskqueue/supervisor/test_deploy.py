"""A deploy: the old worker stops while many tasks run, and the new one already runs."""

from __future__ import annotations

import pytest

from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import Held, base_key, queue_worker, taskqueue_settings
from tests.taskqueue.tasks import hold

#: Tasks that run when the signal comes, and as many that wait behind them.
RUNNING = 50


@pytest.fixture
def held(redis_server: Store) -> Held:
    return Held(redis_server, "deploy")


def test_old_worker_finishes_its_tasks_and_the_new_one_runs_the_rest(
    redis_server: Store, children: Children, held: Held
) -> None:
    old = queue_worker(children, "--processes", "2", "--threads", "25", "--no-poller")
    results = hold.enqueue_many([(("deploy", 0.1), {})] * 2 * RUNNING)
    held.started(RUNNING)

    new = queue_worker(children, "--processes", "2", "--threads", "25", "--no-poller")
    old.terminate()
    held.started(2 * RUNNING)  # the others begin on the new worker while the first ones still run
    held.release()

    assert old.wait(60) == 0
    assert [result.get(60) for result in results] == ["deploy"] * 2 * RUNNING
    assert held.starts() == held.ends() == 2 * RUNNING, "each ran once"
    assert {result.attempts for result in results} == {1}
    assert new.returncode is None


def test_tasks_that_outlast_the_grace_run_again_on_the_new_worker(
    redis_server: Store, children: Children, held: Held, settings: object
) -> None:
    taskqueue_settings(settings, GRACE=0.2)
    old = queue_worker(children, "--threads", str(RUNNING), "--no-poller")
    results = hold.enqueue_many([(("deploy", 0.1), {})] * RUNNING)
    held.started(RUNNING)

    queue_worker(children, "--threads", str(RUNNING), "--no-poller")
    old.terminate()
    assert old.wait(60) == 0
    held.started(2 * RUNNING)
    held.release()

    assert [result.get(60) for result in results] == ["deploy"] * RUNNING
    assert {result.attempts for result in results} == {1}, "handed back, so no attempt was used"
    records = [redis_server.raw.hgetall(base_key(redis_server, "t", result.id)) for result in results]
    assert not any(b"x" in record for record in records), "nor a delivery"
    eventually(lambda: held.ends() == RUNNING)
