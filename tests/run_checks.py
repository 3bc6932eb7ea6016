"""Run all checks, as ``make test`` does: ``python -m tests.run_checks``. Arguments select steps: ``lint types``.

The step ``coverage`` runs only if it is named, as ``make coverage`` does: it doubles the processor time of the tests.

Every step runs, also after a failure; a table at the end shows the result and the duration of each. ``types`` and
``docs`` run beside the others, whose tests often wait. A test that needs a program which is not installed is skipped
and reported; with ``CI=true`` it fails. A test that fails beside others and passes alone is reported as FLAKY; with
``--strict`` it fails the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.run_pytest import RERUN
from tests.support.axe import install_axe

ROOT = Path(__file__).resolve().parents[1]

#: Directory of the coverage data of all steps and of the processes that they start.
COVERAGE_DIR = ROOT / ".data" / "coverage"

PYTHON = (sys.executable, "-m")
PYTEST = (*PYTHON, "tests.run_pytest", "-q")

#: Tests wait for servers and processes most of their time: four processes used half of two cores, and so did two with
#: browsers.
PARALLEL = ("-n", "6", "--dist", "worksteal")
PARALLEL_BROWSERS = ("-n", "3", "--dist", "loadfile")

#: The slowest tests of a step, at its end.
DURATIONS = "--durations=25"

#: All tests but those of steps of their own.
TESTS = (*PARALLEL, DURATIONS, "tests", "--ignore=tests/architecture", "--ignore=tests/browser")

#: The steps in order: name, commands.
STEPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "format": ((*PYTHON, "ruff", "format", "--check", "."),),
    "lint": ((*PYTHON, "ruff", "check", "."),),
    "architecture": ((*PYTEST, "-n", "2", "--dist", "worksteal", "tests/architecture"),),
    "tests": ((*PYTEST, *TESTS),),
    "browser": ((*PYTEST, *PARALLEL_BROWSERS, DURATIONS, "tests/browser"),),
    "types": ((*PYTHON, "mypy"),),
    "docs": (
        (*PYTHON, "sphinx", "-W", "--keep-going", "-q", "-d", ".data/doctrees", "-b", "html", "docs", ".data/site"),
    ),
    "coverage": (
        (*PYTEST, "--coverage", *TESTS),
        (*PYTHON, "coverage", "combine", "-q"),
        (*PYTHON, "coverage", "report"),
    ),
}

#: Steps that run only if they are named.
OPTIONAL = ("coverage",)

#: Steps of one process each, run one after the other beside the steps before them.
BESIDE = ("types", "docs")

#: Prefix of their commands: they take the processor only where the tests wait.
NICE = ("nice", "-n", "10")

#: Whether a skipped test fails.
IN_CI = os.environ.get("CI", "").lower() == "true"

#: pytest's exit code for "no test was collected".
NOTHING_COLLECTED = 5


@dataclass
class StepResult:
    """The result of a step.

    Attributes:
        last_line: the last line of its output, which is the summary of most tools.
        output: of a step beside others, what it has printed.
        warnings: lines that the table repeats: what was not tested.
    """

    name: str
    passed: bool
    seconds: float
    last_line: str = ""
    output: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    """Run the named steps, or all; return the exit code."""
    names = [argument for argument in arguments if argument != "--strict"]
    unknown = set(names) - set(STEPS)
    if unknown:
        print(f"Unknown step {', '.join(sorted(unknown))}. Steps: {', '.join(STEPS)}.")
        return 2
    if "coverage" in names:
        _delete_coverage_data()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of the many processes would compile the package again
    is_strict = "--strict" in arguments
    started = time.monotonic()
    selected = [name for name in STEPS if (name in names if names else name not in OPTIONAL)]
    results = []
    with ThreadPoolExecutor(1) as pool:
        beside = {name: pool.submit(_run_step, name, is_strict=is_strict) for name in BESIDE if name in selected}
        try:
            for name in selected:
                print(f"\n=== {name}", flush=True)
                result = beside[name].result() if name in beside else _run_step(name, is_strict=is_strict)
                print(*result.output, sep="", end="", flush=True)
                results.append(result)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    _print_table(results, time.monotonic() - started)
    return 0 if all(result.passed for result in results) else 1


def _delete_coverage_data() -> None:
    COVERAGE_DIR.mkdir(parents=True, exist_ok=True)
    for path in COVERAGE_DIR.iterdir():
        path.unlink()


def _run_step(name: str, *, is_strict: bool) -> StepResult:
    started = time.monotonic()
    result = StepResult(name, True, 0.0)
    if name == "browser" and (problem := install_axe()):
        result.warnings.append(f"!!! NOT TESTED: accessibility ({problem})")
        result.passed = not IN_CI
    for command in STEPS[name]:
        is_pytest = "tests.run_pytest" in command
        prefix, options = NICE if name in BESIDE else (), ("--strict",) if is_pytest and is_strict else ()
        write = result.output.append if name in BESIDE else _print
        code = _run_command((*prefix, *command, *options), result, write)
        result.passed &= code == 0 or (code == NOTHING_COLLECTED and is_pytest and not IN_CI)
        if code:
            break
    result.seconds = time.monotonic() - started
    return result


def _print(line: str) -> None:
    print(line, end="", flush=True)


def _run_command(command: tuple[str, ...], result: StepResult, write: Callable[[str], None]) -> int:
    """Run a command, write its output, and keep its warnings and the last line before tests are run again."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        assert process.stdout is not None
        try:
            is_first_run = True
            for line in process.stdout:
                write(line)
                is_first_run &= not line.startswith(RERUN)
                if line.startswith("!!!"):
                    result.warnings.append(line.strip())
                elif line.strip() and is_first_run:
                    result.last_line = line.strip()
        except KeyboardInterrupt:
            process.wait()  # it received the signal too, and is stopping its servers
            raise
    return process.returncode


def _print_table(results: list[StepResult], total_s: float) -> None:
    print("\n" + "=" * 100)
    for result in results:
        verdict = "ok    " if result.passed else "FAILED"
        print(f"{verdict}  {result.name:<13} {result.seconds:7.1f} s   {result.last_line[:68]}")
    print("=" * 100)
    for result in results:
        for line in result.warnings:
            print(line)
    failed = [result.name for result in results if not result.passed]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'All passed'} in {total_s:.0f} s")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
