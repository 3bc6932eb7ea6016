"""Keep a worker and a poller running."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import Child, Children
from tests.taskqueue.chaos.work import trace
from tests.taskqueue.support import kill_processes


class ProcessManager:
    """Starts a worker and a poller, and replaces them when they die."""

    def __init__(
        self, children: Children, worker_points: list[list[object]], poller_points: list[list[object]]
    ) -> None:
        self._children = children
        self._plans = {"worker": (4, worker_points), "poller": (poller_points,)}
        self._running: dict[str, Child] = {}

    def keep_alive(self) -> None:
        for role, plan in self._plans.items():
            child = self._running.get(role)
            if child is None or child.returncode is not None:
                self._running[role] = self._children.call(f"tests.taskqueue.chaos.work:{role}", *plan)

    def worker_processes(self) -> list[int]:
        """Return the pids of the processes that run tasks: the children of the supervisor."""
        pid = self._running["worker"].pid
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]

    def kill_supervisor(self) -> None:
        pids = self.worker_processes()
        for pid in pids:
            trace("death", "outside", pid)
        self._running["worker"].kill()
        kill_processes(pids)
