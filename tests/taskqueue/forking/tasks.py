"""Tasks that fork. Each waits for its children and returns their exit codes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import TaskContext, task
from tests.taskqueue.forking import work


def exit_code(pid: int) -> int:
    """Wait for a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def count(name: str) -> None:
    """Note that something has happened, in whatever process."""
    connections.client().execute(Command("INCR", f"{conf.settings().prefix}:{name}"))


def fork_and(how: str) -> Any:
    """Fork; the child ends as told, the parent returns its exit code."""
    pid = os.fork()
    return exit_code(pid) if pid else work.end(how)


@task
def fork_in_a_thread(how: str) -> Any:
    """In the thread of the task."""
    return fork_and(how)


@task(timeout=(50, 60), takes_context=True, max_attempts=3)
def fork_with_limits_and_context(context: TaskContext, how: str) -> Any:
    """With all that surrounds a run."""
    context.progress(1, 2)
    return fork_and(how)


@task
async def fork_in_a_coroutine(how: str) -> Any:
    """On the event loop."""
    return fork_and(how)


@task
async def fork_in_a_subtask(how: str) -> Any:
    """In an asyncio task that the coroutine has started."""

    async def fork() -> Any:
        await asyncio.sleep(0)
        return fork_and(how)

    return await asyncio.create_task(fork())


@task
async def fork_in_a_thread_of_a_coroutine(how: str) -> Any:
    """Where the ORM of a coroutine runs."""
    return await sync_to_async(fork_and)(how)


@task
async def fork_in_another_thread_of_a_coroutine(how: str) -> Any:
    """In the loop's default executor."""
    return await asyncio.to_thread(fork_and, how)


@task
async def fork_and_await() -> Any:
    """The child awaits something."""
    await asyncio.sleep(0)
    pid = os.fork()
    if not pid:
        await asyncio.sleep(0.01)
        count("awaited")
    return exit_code(pid)


@task
async def fork_and_await_a_future() -> Any:
    """The child awaits what only its parent's loop could end."""
    future = asyncio.get_running_loop().create_future()
    pid = os.fork()
    if not pid:
        await future
    return exit_code(pid)


@task
async def fork_beside_others(others: int) -> Any:
    """Fork while other asyncio tasks are ready to run; how many did run is counted in Redis."""

    async def fork() -> Any:
        return fork_and("return")

    async def other() -> None:
        count("others")

    code, *_ = await asyncio.gather(fork(), *[other() for _ in range(others)])
    return code


@task
def use_redis_in_the_child(times: int) -> Any:
    """Parent and child count at the same time, each over its own connections."""
    count("both")
    pid = os.fork()
    for _ in range(times):
        count("both")
    return exit_code(pid) if pid else None


@task
def look_around_in_the_child() -> Any:
    """Signal handlers of the child, and which of its pipes and sockets the parent has too."""
    count("open a connection")
    reading, writing = os.pipe()
    parents = work.pipes_and_sockets() - {str(Path(f"/proc/self/fd/{fd}").readlink()) for fd in (reading, writing)}
    pid = os.fork()
    if not pid:
        shared = sorted(work.pipes_and_sockets() & parents)
        os.write(writing, f"{work.signal_handlers()}; {shared}".encode())
        return None
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read().decode()
    return [exit_code(pid), text]


@task
def signals_of_a_program(preexec: bool) -> str:
    """Signal handlers of a program that a task starts."""
    argv = [sys.executable, "-c", work.PROGRAM]
    prepare = os.getpid if preexec else None
    done = subprocess.run(argv, preexec_fn=prepare, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@task
def terminate_at_once(times: int) -> list[int]:
    """SIGTERM to children that have just been forked."""
    codes = []
    for _ in range(times):
        pid = os.fork()
        if not pid:
            work.stay()
        os.kill(pid, signal.SIGTERM)
        codes.append(exit_code(pid))
    return sorted(set(codes))


@task
def use_multiprocessing(method: str) -> Any:
    """Processes, a pool and an executor of one start method."""
    context: Any = multiprocessing.get_context(method)
    ended = context.Process(target=work.square, args=(2,))
    ended.start()
    ended.join()
    exits = context.Process(target=work.end, args=("sys.exit",))
    exits.start()
    exits.join()
    terminated = context.Process(target=work.stay, daemon=True)
    terminated.start()
    terminated.terminate()
    terminated.join()
    with context.Pool(2) as pool:
        squares = pool.map(work.square, range(4))
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        more = list(executor.map(work.square, range(4)))
    return [ended.exitcode, exits.exitcode, terminated.exitcode, squares, more]


@task
def leave_a_daemonic_process() -> Any:
    """Whose pid is the result."""
    process = multiprocessing.get_context("fork").Process(target=work.stay, daemon=True)
    process.start()
    return process.pid


@task
def own_pid() -> int:
    """Which process runs tasks."""
    return os.getpid()


@task
def leave_a_process() -> list[int]:
    """Fork, and do not wait."""
    pid = os.fork()
    if not pid:
        work.stay()
    return [pid]
