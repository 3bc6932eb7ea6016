"""The page of workers: its URL, reports of supervisors, and commands that wait."""

from __future__ import annotations

from typing import Any

from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.workers import read_workers
from tests.dashboard.support import now_ms, write_poller, write_worker
from tests.support import Store

WORKERS = "/admin/django_redis_components/worker/"
#: What a supervisor reports beside the fields of `write_worker`.
REPORT: dict[str, Any] = {
    "supervisor_pid": 4_711,
    "version": "2026.11.3",
    "poller": "standby",
    "memory": 240 << 20,
    "per_minute": 84.2,
    "round_trip": 0.00042,
    "leases": 2,
    "runs": [["task-1", "shop.tasks.send_receipt", "mail", 9.2]],
}


def fill(store: Store) -> None:
    write_poller(store)
    command = ["quiet", "m.keller", now_ms(store), "done", "app-1:aa.2"]
    write_worker(store, "app-1:aa.1", busy=12, **REPORT)
    write_worker(store, "app-1:aa.2", **{**REPORT, "runs": [], "pid": 8, "state": "quiet", "command": command})
    write_worker(store, "app-2:bb.1", seen_s=98, **{**REPORT, "supervisor_pid": 9, "version": "2026.11.2"})


def waiting() -> dict[str, str]:
    found = home().run(read_workers(home())).pending_commands
    return {target: command.verb for target, command in found.items()}
