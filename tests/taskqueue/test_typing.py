"""Type checkers know the parameters of `enqueue` and the type that `get` returns."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT

SNIPPET = """
from django_redis_components.taskqueue import Batch, BatchCall, TaskContext, TaskResult, task

@task
def plain(number: int, *, text: str = "") -> int: ...

@task(max_attempts=3)
def with_options(number: int) -> str: ...

@task
async def coroutine(number: int) -> bytes: ...

@task(takes_context=True)
def with_context(context: TaskContext, number: int) -> float: ...

@task(batch=Batch(100, wait=1.0))
def in_batches(calls: list[BatchCall]) -> None: ...

@task(batch=Batch(100))
async def in_batches_on_loop(calls: list[BatchCall]) -> None: ...

def any_result(result: TaskResult) -> None: ...

async def reveal() -> None:
    reveal_type(plain.enqueue(1).get())  # int
    reveal_type(plain.using(priority=1).enqueue(1, text="a").return_value)  # int
    reveal_type(await plain.enqueue(1).aget(5))  # int
    reveal_type(plain(1))  # int
    reveal_type(with_options.enqueue_on_commit(1).get())  # str
    reveal_type(with_options.enqueue_many([((1,), {})])[0].get())  # str
    reveal_type((await coroutine.aenqueue(1)).get())  # bytes
    reveal_type(await coroutine(1))  # bytes
    reveal_type(with_context.enqueue(1).get())  # float
    reveal_type(with_context.get_result("id").get())  # float
    reveal_type(in_batches.enqueue(1, text="a").get())  # Any
    reveal_type((await in_batches_on_loop.aenqueue(1)).get())  # Any
    any_result(plain.enqueue(1))

plain.enqueue("one")  # error: arg-type
plain.enqueue(1, txt="a")  # error: call-arg
plain.delay(1)  # error: attr-defined
task(batch=Batch(100))(plain.func)  # error: arg-type
"""


def test_mypy_infers_parameters_and_return_values(tmp_path: Path) -> None:
    path = tmp_path / "snippet.py"
    path.write_text(SNIPPET)
    expected = [match or error for match, error in re.findall(r"reveal_type\(.*# (\w+)|# error: (\S+)", SNIPPET)]

    flags = [
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        "--disable-error-code=empty-body",
        f"--cache-dir={ROOT / '.data' / 'mypy-of-tests'}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *flags, str(path)],
        env=os.environ | {"MYPYPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    found = re.findall(r'Revealed type is "(?:builtins\.)?(\w+)"|\[([a-z-]+)\]', done.stdout)
    assert [match or error for match, error in found] == expected, done.stdout + done.stderr
