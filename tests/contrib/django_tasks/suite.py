"""Django's own tests of its Tasks framework, from its source distribution, against our backend.

They are fetched when they are to run and kept in ``.data/``; nothing of them is part of this repository. Two
things in them are changed: the dotted paths of the backends become those of `shims`, and for the backport the
names that it spells differently. ``python -m tests.contrib.django_tasks.suite <folder>`` runs them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parents[3]
#: Where fetched tests are kept.
KEPT = ROOT / ".data" / "django-tests"
#: The backport has no tests in its distribution; those of this Django are its twins.
FOR_BACKPORT = "6.0.*"

SHIMS = {
    "django.tasks.backends.dummy.DummyBackend": "tests.contrib.django_tasks.shims.RememberingBackend",
    "django.tasks.backends.immediate.ImmediateBackend": "tests.contrib.django_tasks.shims.InlineBackend",
}
#: How the backport spells what Django's tests name.
BACKPORT_NAMES = {
    r"\bdjango\.tasks\b": "django_tasks",
    r"\bInvalidTask\b": "InvalidTaskError",
    r"\bInvalidTaskBackend\b": "InvalidTaskBackendError",
    r"does not support async Tasks": "does not support async tasks",
}

OTHER_CLASS = "asks for an instance of the framework's own backend class"
CAN_DO = "asks that the immediate backend refuses what ours supports"
#: Tests that do not run, by name, with the reason. Each is a statement about another backend.
EXCLUDED = {
    "test_tasks.TaskTestCase.test_using_correct_backend": OTHER_CLASS,
    "test_tasks.TaskTestCase.test_get_backend": OTHER_CLASS,
    "test_dummy_backend.DummyBackendTestCase.test_using_correct_backend": OTHER_CLASS,
    "test_immediate_backend.ImmediateBackendTestCase.test_using_correct_backend": OTHER_CLASS,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": CAN_DO,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": CAN_DO,
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": CAN_DO,
    "test_immediate_backend.ImmediateBackendTestCase.test_throws_keyboard_interrupt": (
        "the task runs in the caller's thread there; in a worker KeyboardInterrupt is an error of the task like"
        " any other (test_worker.py says so)"
    ),
}
if sys.version_info < (3, 12):
    EXCLUDED["test_custom_backend.CustomBackendTestCase.test_no_enqueue"] = (
        "compares Python's own words about an abstract class, which were others before 3.12; our backend is not in it"
    )


class NotFetchedError(Exception):
    """The source distribution could not be downloaded."""


def wanted() -> str:
    """The version whose tests belong to the installed framework."""
    return django.get_version() if django.VERSION >= (6, 0) else FOR_BACKPORT


def prepared(version: str, into: Path) -> Path:
    """A folder with a package `tasks`, ready to run against our backend."""
    shutil.copytree(fetched(version), into / "tasks")
    for path in (into / "tasks").glob("*.py"):
        path.write_text(_adapted(path.read_text()))
    return into


def fetched(version: str) -> Path:
    """Django's ``tests/tasks`` of that version, downloaded once."""
    kept = KEPT / version.replace("*", "x") / "tasks"
    if not kept.is_dir():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as scratch:
            _unpack(_download(version, Path(scratch)), Path(scratch))
            kept.parent.mkdir(exist_ok=True)
            next(Path(scratch).glob("*/tests/tasks")).rename(kept)
    return kept


def _download(version: str, into: Path) -> Path:
    options = ("--no-deps", "--no-binary", "django", "--no-build-isolation", "--ignore-requires-python")
    command = (sys.executable, "-m", "pip", "download", "--quiet", *options, "--dest", str(into), f"Django=={version}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise NotFetchedError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")
    return next(into.glob("*.tar.gz"))


def _unpack(archive: Path, into: Path) -> None:
    with tarfile.open(archive) as tar:
        members = [member for member in tar if "/tests/tasks/" in member.name]
        tar.extractall(into, members, filter="data")


def _adapted(text: str) -> str:
    for theirs, ours in SHIMS.items():
        text = text.replace(f'"{theirs}"', f'"{ours}"')
    if django.VERSION < (6, 0):
        for pattern, name in BACKPORT_NAMES.items():
            text = re.sub(pattern, name, text)
    return text


def main(folder: str) -> None:
    """Run the tests of a folder that `prepared` made; print the outcome as one line of JSON."""
    sys.path.insert(0, folder)
    django.setup()
    from django.test.runner import DiscoverRunner

    names = sorted(path.stem for path in Path(folder, "tasks").glob("test_*.py"))
    found = list(_cases(unittest.defaultTestLoader.loadTestsFromNames([f"tasks.{name}" for name in names])))
    chosen = [case for case in found if _name(case) not in EXCLUDED]
    runner = DiscoverRunner(verbosity=0, interactive=False)
    runner.setup_test_environment()
    databases = runner.setup_databases()
    result = unittest.TextTestRunner(verbosity=1).run(unittest.TestSuite(chosen))
    runner.teardown_databases(databases)
    wrong = {_name(case): text for case, text in [*result.failures, *result.errors]}
    excluded = [_name(case) for case in found if _name(case) in EXCLUDED]
    skipped = [_name(case) for case, _ in result.skipped]
    report = {"ran": result.testsRun, "wrong": wrong, "excluded": excluded, "skipped": skipped}
    print("done " + json.dumps(report), flush=True)


def _cases(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    return [case for item in suite for case in (_cases(item) if isinstance(item, unittest.TestSuite) else [item])]


def _name(case: object) -> str:
    """Module, class and method; of a subtest, those of its test."""
    return getattr(case, "test_case", case).id().removeprefix("tasks.")


if __name__ == "__main__":
    main(sys.argv[1])
