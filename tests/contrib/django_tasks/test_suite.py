"""Django's own tests pass against our backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.contrib.django_tasks import suite
from tests.support import Store, skip_missing
from tests.support.processes import Children

#: Fewer tests than this would mean that something of the suite was not found.
LEAST = 65


@pytest.mark.django_db
def test_django_s_own_tests_of_tasks_pass(redis_server: Store, children: Children, tmp_path: Path) -> None:
    version = suite.wanted()
    try:
        folder = suite.prepared(version, tmp_path)
    except suite.NotFetchedError as exc:
        skip_missing(f"the source distribution of Django {version} cannot be downloaded: {exc}")

    child = children.run(
        "-m",
        "tests.contrib.django_tasks.suite",
        str(folder),
        env={"DJANGO_SETTINGS_MODULE": "tests.contrib.django_tasks.suite_site"},
    )
    report: Any = child.result(timeout_s=120)

    assert report["wrong"] == {}, "\n".join(report["wrong"].values())
    assert report["skipped"] == []
    assert sorted(report["excluded"]) == sorted(suite.EXCLUDED)
    assert report["ran"] >= LEAST


def test_missing_suite_is_skipped_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "KEPT", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(suite.NotFetchedError, match=r"No matching distribution found for Django==6\.0\.1"):
        suite.fetched("6.0.1")

    assert list(tmp_path.iterdir()) == []


def test_excluded_tests_have_a_reason() -> None:
    assert all(len(reason) > 20 for reason in suite.EXCLUDED.values())
