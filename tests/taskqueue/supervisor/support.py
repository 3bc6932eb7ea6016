"""Helpers of the tests of the supervisor."""

from __future__ import annotations

import os
import subprocess
import sys

from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.supervisor.child_pool import ChildPool
from django_redis_components.taskqueue.worker.ipc import PrefetchedLeases
from django_redis_components.taskqueue.worker.options import WorkerOptions


class Process:
    """A child process, and the worker's ends of its pipes."""

    def __init__(self, code: str = "import signal; signal.pause()") -> None:
        self.process = subprocess.Popen([sys.executable, "-c", code])
        heartbeat_read, self.heartbeat = os.pipe()
        self.commands, command_write = os.pipe()
        pool = ChildPool(WorkerOptions(("default", "mail"), threads=3))
        self.child = Child(self.process.pid, "host:1", heartbeat_read, command_write, pool, PrefetchedLeases())

    def write(self, text: str) -> None:
        os.write(self.heartbeat, text.encode())
        self.child.read_heartbeats()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.heartbeat)
        os.close(self.commands)
