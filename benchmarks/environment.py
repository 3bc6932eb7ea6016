"""The environment of the comparison, created once in ``.data/bench``: every queue on one Python and one Django.

``venv`` contains the packages of the extra ``bench``, installed one by one, so that a failure affects
one peer only; ``node`` contains BullMQ. A failed installation is recorded with the last line of pip's or npm's
output, and listed in the report. ``python -m benchmarks --install`` tries again.

All peers are measured with the redis-py version that this package requires, given to pip as a constraint: a peer
that requires an older one is not installed, and no run starts without the version (`require_our_redis`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.localserver import LocalServer

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".data" / "bench"
NODE = HOME / "node"
#: What could not be installed: requirement -> last word.
REFUSED = HOME / "refused.json"
NPM_PACKAGES = ("bullmq@6", "ioredis@6")


def python() -> str:
    """The Python of the environment."""
    return str(HOME / "venv" / "bin" / "python")


def prepare(base_python: str, again: bool = False) -> None:
    """Make the environment if it is not there, or again; and see that our redis-py is in it."""
    if again or not REFUSED.exists():
        _install(base_python)
    require_our_redis(versions())


def require_our_redis(found: dict[str, str]) -> None:
    """Refuse to measure ours with a redis-py that it does not support.

    Raises:
        SystemExit: it is older, or there is none.
    """
    least = _least_redis()
    if _numbers(found.get("redis", "0")) < _numbers(least):
        raise SystemExit(
            f"The environment in {HOME} has redis-py {found.get('redis', '(none)')}, and this package needs {least}: "
            "what it measures would be wrong. Make it again: python -m benchmarks --install."
        )


def _install(base_python: str) -> None:
    HOME.mkdir(parents=True, exist_ok=True)
    subprocess.run([base_python, "-m", "venv", "--clear", str(HOME / "venv")], check=True)
    constraints = HOME / "constraints.txt"
    constraints.write_text(f"redis>={_least_redis()}\n")
    refused = {}
    for requirements in [["-e", f"{ROOT}[demo]", "Django>=6.1,<6.2"], *([line] for line in _peers())]:
        print("installing", *requirements, flush=True)
        pip = [python(), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(constraints)]
        words = _run([*pip, *requirements])
        if words is not None:
            refused[requirements[-1]] = words
    words = _install_node()
    if words is not None:
        refused["bullmq"] = words
    REFUSED.write_text(json.dumps(refused, indent=1))


def refused() -> dict[str, str]:
    """What could not be installed, and why."""
    return dict(json.loads(REFUSED.read_text())) if REFUSED.exists() else {}


def versions() -> dict[str, str]:
    """What is installed, by name."""
    listed = subprocess.run([python(), "-m", "pip", "list", "--format=json"], capture_output=True, text=True)
    found = {entry["name"].lower(): entry["version"] for entry in json.loads(listed.stdout or "[]")}
    for name in ("bullmq", "ioredis"):
        package = NODE / "node_modules" / name / "package.json"
        if package.exists():
            found[name] = json.loads(package.read_text())["version"]
    return found


def variables(url: str, notes_url: str, peer: str) -> dict[str, str]:
    """The environment variables of a peer's processes."""
    return os.environ | {
        "BENCH_REDIS_URL": url,
        "BENCH_NOTES_URL": notes_url,
        "BENCH_PEER": peer,
        "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
        "PYTHONPATH": str(ROOT),
        "NODE_PATH": str(NODE / "node_modules"),
    }


def _peers() -> list[str]:
    return list(_project()["optional-dependencies"]["bench"])


def _least_redis() -> str:
    """The oldest redis-py that pyproject.toml accepts."""
    found = re.search(r"^redis\[hiredis\]>=([\d.]+)", "\n".join(_project()["dependencies"]), re.MULTILINE)
    if found is None:
        raise SystemExit("pyproject.toml names no redis[hiredis]>=… among its dependencies.")
    return found[1]


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _install_node() -> str | None:
    if shutil.which("npm") is None:
        return "npm is not installed"
    NODE.mkdir(exist_ok=True)
    (NODE / "package.json").write_text('{"private": true}\n')
    return _run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(NODE), *NPM_PACKAGES])


def _run(command: list[str]) -> str | None:
    """None when it went well, else its last line."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode == 0:
        return None
    errors = [line for line in lines if line.lower().startswith(("error", "npm error"))]
    return (errors or lines or [f"exit code {done.returncode}"])[-1]


def default_python() -> str:
    """The newest Python at hand that every peer accepts: from pyenv, or from the path."""
    for version in ("3.13", "3.12"):
        managed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for name in (*map(str, managed[-1:]), f"python{version}"):
            if subprocess.run(["/usr/bin/env", name, "--version"], capture_output=True).returncode == 0:
                return name
    return sys.executable


@contextlib.contextmanager
def server_url() -> Iterator[str]:
    """Start an embedded server for the block, unless ``REDIS_URL`` names one."""
    if url := os.environ.get("REDIS_URL"):
        yield url
        return
    with tempfile.TemporaryDirectory() as directory, LocalServer(directory=Path(directory)) as server:
        yield server.url
