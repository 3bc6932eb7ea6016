"""What a worker logs when it starts, and a worker that starts on a cluster that is not complete yet."""

from __future__ import annotations

import re
from typing import Any

import pytest
import redis

from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.startup import describe_worker
from django_redis_components.taskqueue.worker.options import WorkerOptions
from tests.support.processes import Children
from tests.support.stores import Stores
from tests.taskqueue.support import SITE
from tests.taskqueue.tasks import note
from tools.localserver import LocalServer, free_port

LAST_SLOT = 16_383


def described(*queues: str) -> list[str]:
    return list(describe_worker(WorkerOptions(queues=queues), processes=1, poller=True, using="default"))


def test_start_names_the_queues_that_the_worker_does_not_serve() -> None:
    assert note.options.queue_name == "default"
    assert re.search(r"^Queues that this worker does not serve: .*\bdefault \(\d+ tasks?\)", described("mail")[-1])


def test_start_does_not_name_served_queues_as_not_served() -> None:
    not_served = [line for line in described("mail", "default") if line.startswith("Queues that this worker")]

    assert not [line for line in not_served if re.search(r"\b(mail|default) \(", line)]


@pytest.mark.parametrize(
    ("distance", "text"),
    [(0, "Hash slot not served"), (1, "The cluster is down")],
    ids=["our-slot", "another"],
)
def test_worker_waits_for_a_cluster_that_lacks_a_slot(
    stores: Stores, settings: Any, children: Children, distance: int, text: str
) -> None:
    extra = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--cluster-announce-ip", "127.0.0.1")
    server = LocalServer(directory=stores.new_directory("slotless"), extra_args=extra, die_with_parent=True).start()
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": f"redis+cluster://127.0.0.1:{server.port}"}}}
    try:
        with redis.Redis.from_url(server.url) as raw:
            lacking = raw.execute_command("CLUSTER", "KEYSLOT", home().base) + distance
            raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, lacking - 1, lacking + 1, LAST_SLOT)
            child = children.manage("runworker", env=SITE)
            child.wait_for(text)

            raw.execute_command("CLUSTER", "ADDSLOTS", lacking)

        child.wait_for("Worker: queues default")
        child.terminate()
        assert child.wait() == 0
    finally:
        children.close()
        server.kill()
