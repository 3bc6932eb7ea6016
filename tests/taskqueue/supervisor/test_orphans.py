"""Orphans of tasks, which the supervisor adopts as process 1 of a container, or here as a subreaper."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support import Store, eventually
from tests.support.processes import MEASURED, Children
from tests.taskqueue.support import SITE, Held, is_running, processes_of
from tests.taskqueue.tasks import add, hold, leave_orphans

pytestmark = pytest.mark.integration

ORPHANS = 20


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_adopted_orphans_of_tasks_do_not_stay_as_zombies(redis_server: Store, children: Children) -> None:
    worker = children.call("tests.taskqueue.processes:worker_as_subreaper", env=SITE | MEASURED)

    orphans = leave_orphans.enqueue(ORPHANS).get(60)

    assert len(orphans) == ORPHANS
    eventually(lambda: not any(exists(pid) for pid in orphans))
    worker.terminate()
    worker.wait_for("done 0")


def test_exit_codes_of_worker_processes_are_read_beside_orphans(redis_server: Store, children: Children) -> None:
    worker = children.call("tests.taskqueue.processes:worker_as_subreaper", env=SITE | MEASURED)
    orphans = leave_orphans.enqueue(ORPHANS).get(60)
    held = Held(redis_server, "a")
    hold.enqueue("a")
    pid = held.started()

    os.kill(pid, signal.SIGKILL)

    worker.wait_for(f"Worker process {pid} exited (signal SIGKILL); starting another in ")
    held.started(times=2)
    held.release()
    eventually(lambda: not any(exists(orphan) for orphan in orphans))


def test_exit_codes_of_the_sites_own_processes_are_left_to_it(redis_server: Store, children: Children) -> None:
    target = "tests.taskqueue.processes:worker_as_subreaper_of_a_site_with_a_process"
    worker = children.call(target, env=SITE | MEASURED)
    own = int(worker.wait_for("own process ").split()[-1])
    orphans = leave_orphans.enqueue(ORPHANS).get(60)

    os.kill(own, signal.SIGUSR2)

    eventually(lambda: not any(exists(orphan) for orphan in orphans))
    eventually(lambda: not is_running(own))
    worker.terminate()
    worker.wait_for(f"own process ended with {-signal.SIGUSR2}")


def test_worker_that_adopts_nothing_waits_for_no_other_process(redis_server: Store, children: Children) -> None:
    worker = children.call("tests.taskqueue.processes:worker_of_a_site_with_a_process", env=SITE | MEASURED)
    own = int(worker.wait_for("own process ").split()[-1])
    assert add.enqueue(1, 2).get(60) == 3
    assert own in processes_of(worker.pid)

    os.kill(own, signal.SIGUSR2)

    assert add.enqueue(1, 2).get(60) == 3
    worker.terminate()
    worker.wait_for(f"own process ended with {-signal.SIGUSR2}")
