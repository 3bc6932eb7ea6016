"""Every gate in one command: ``python -m tests.gate`` (that is ``make test``), or only some: ``… lint types``.

All steps run, also after a failure; a table at the end says what each brought and how long it took. What a
machine lacks is skipped in one loud line; with ``CI=true`` it fails instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.axe import install_axe

ROOT = Path(__file__).resolve().parents[1]

#: Where coverage collects what the steps and their children measured.
COVERAGE_DIR = ROOT / ".data" / "coverage"

PYTHON = (sys.executable, "-m")
PYTEST = (*PYTHON, "coverage", "run", "-m", "pytest", "-q")

#: Tests wait most of their time, for servers and processes: three of them at once keep two cores busy.
AT_ONCE = ("-n", "3")

#: Imports everything many times and runs next to nothing: coverage would only slow it down.
UNMEASURED_PYTEST = (*PYTHON, "pytest", "-q")

#: Steps in their order: name, then the commands that make it up.
STEPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "format": ((*PYTHON, "ruff", "format", "--check", "."),),
    "lint": ((*PYTHON, "ruff", "check", "."),),
    "types": ((*PYTHON, "mypy"),),
    "architecture": ((*UNMEASURED_PYTEST, "tests/architecture", "-m", "not docs"),),
    "rooms": ((*PYTEST, *AT_ONCE, "tests", "--ignore=tests/architecture", "-m", "not browser and not docs"),),
    "docs": (
        (*PYTEST, "tests", "-m", "docs"),
        (*PYTHON, "sphinx", "-W", "--keep-going", "-q", "-d", ".data/doctrees", "-b", "html", "docs", ".data/site"),
    ),
    "browser": ((*PYTEST, "tests", "-m", "browser"),),
    "coverage": ((*PYTHON, "coverage", "combine", "-q"), (*PYTHON, "coverage", "report")),
}

#: Where nothing may be skipped.
IN_CI = os.environ.get("CI", "").lower() == "true"

#: pytest's exit code for "no test was collected".
NOTHING_COLLECTED = 5


@dataclass
class Outcome:
    """What a step brought."""

    name: str
    passed: bool
    seconds: float
    last_line: str = ""
    loud: list[str] = field(default_factory=list)


def main(names: list[str]) -> int:
    """Run the named steps, or all; return the exit code."""
    unknown = set(names) - set(STEPS)
    if unknown:
        print(f"Unknown step {', '.join(sorted(unknown))}. There are: {', '.join(STEPS)}.")
        return 2
    chosen = [name for name in STEPS if not names or name in names]
    _empty_coverage()
    outcomes = [_run_step(name) for name in chosen]
    _print_table(outcomes)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


def _empty_coverage() -> None:
    COVERAGE_DIR.mkdir(parents=True, exist_ok=True)
    for old in COVERAGE_DIR.iterdir():
        old.unlink()


def _run_step(name: str) -> Outcome:
    print(f"\n=== {name}", flush=True)
    started = time.monotonic()
    outcome = Outcome(name, True, 0.0)
    if name == "browser" and (problem := install_axe()):
        outcome.loud.append(f"!!! NOT TESTED: accessibility ({problem})")
        outcome.passed = not IN_CI
    for command in STEPS[name]:
        code = _stream(command, outcome)
        outcome.passed &= code == 0 or (code == NOTHING_COLLECTED and "pytest" in command and not IN_CI)
        if code:
            break
    outcome.seconds = time.monotonic() - started
    return outcome


def _stream(command: tuple[str, ...], outcome: Outcome) -> int:
    """Run one command, show its output as it comes, and keep its last and its loud lines."""
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                if line.strip():
                    outcome.last_line = line.strip()
                if line.startswith("!!!"):
                    outcome.loud.append(line.strip())
        except KeyboardInterrupt:
            process.wait()  # it got the signal too, and stops its servers now
            raise
    return process.returncode


def _print_table(outcomes: list[Outcome]) -> None:
    print("\n" + "=" * 100)
    for outcome in outcomes:
        verdict = "ok    " if outcome.passed else "FAILED"
        print(f"{verdict}  {outcome.name:<13} {outcome.seconds:7.1f} s   {outcome.last_line[:68]}")
    print("=" * 100)
    for outcome in outcomes:
        for line in outcome.loud:
            print(line)
    total_s = sum(outcome.seconds for outcome in outcomes)
    failed = [outcome.name for outcome in outcomes if not outcome.passed]
    print(f"{'FAILED: ' + ', '.join(failed) if failed else 'All passed'} in {total_s:.0f} s")


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
