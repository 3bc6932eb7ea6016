"""Run pytest, and run each failed test again alone: ``python -m tests.run_pytest [--strict] [--coverage] ARGS``.

Before a parallel run the test modules are imported once: on a fresh checkout each of its processes would compile all of
them, at the same time and three times as long as it takes to collect them. This module is the plugin for that.

The tests of a parallel run share the processors with each other. A test that fails there and passes alone is reported
as ``FLAKY``: a bug of the test or of the product, but seldom of the change that is being tested. The exit code is 0 if
each failed test passes alone, with ``--strict`` only if none failed. Other arguments are pytest's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

#: More failed tests than this are a broken product: none of them is run again.
MAX_RERUNS = 10

#: Start of the text before a test is run again.
RERUN = "--- again, alone: "

#: pytest's exit code for "tests were run, and some failed".
TESTS_FAILED = 1


def main(arguments: list[str]) -> int:
    """Run the tests; return the exit code of pytest, or 0 if each failed test passes alone."""
    is_strict, is_measured = (option in arguments for option in ("--strict", "--coverage"))
    arguments = [argument for argument in arguments if argument not in ("--strict", "--coverage")]
    cache = Path(".data").resolve() / f"pytest-{sys.version_info[0]}.{sys.version_info[1]}"
    failures = cache / "v" / "cache" / "lastfailed"
    failures.unlink(missing_ok=True)
    if "-n" in arguments:
        _compile([Path(argument) for argument in arguments if Path(argument).exists()])
    code = _run([*arguments, "-o", f"cache_dir={cache}"], is_measured=is_measured)
    failed = sorted(json.loads(failures.read_text())) if failures.is_file() else []
    if code != TESTS_FAILED or not 0 < len(failed) <= MAX_RERUNS:
        return code
    options = [argument for argument in arguments if argument == "--one-store"]
    flaky = [name for name in failed if _passes_alone(name, options)]
    for name in failed:
        print(f"!!! {'FLAKY (failed, then passed alone)' if name in flaky else 'FAILED twice'}: {name}")
    return code if is_strict or flaky != failed else 0


def pytest_pycollect_makeitem() -> list[object]:
    """Find no tests in a module: pytest has compiled it by then."""
    return []


def _compile(paths: list[Path]) -> None:
    """Let pytest compile the test modules of these paths, on each processor a share of them."""
    modules = [module for path in paths for module in ([path] if path.is_file() else path.rglob("test_*.py"))]
    count = min(os.cpu_count() or 1, len(modules))
    cache = Path(".data").resolve() / "pytest-compiled"
    command = [sys.executable, "-m", "pytest", "-p", "tests.run_pytest", "--collect-only", "-q"]
    command += ["-o", f"cache_dir={cache}"]
    shares = [
        subprocess.Popen([*command, *modules[start::count]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for start in range(count)
    ]
    for share in shares:
        share.wait()  # what cannot be collected is reported by the run that follows


def _passes_alone(name: str, options: list[str]) -> bool:
    print(f"\n{RERUN}{name}", flush=True)
    cache = Path(".data").resolve() / "pytest-again"
    return _run(["-q", "-p", "no:xdist", "-o", f"cache_dir={cache}", *options, name], is_measured=False) == 0


def _run(arguments: list[str], *, is_measured: bool) -> int:
    measured = ("coverage", "run", "-m") if is_measured else ()
    command = [sys.executable, "-m", *measured, "pytest", *arguments]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
