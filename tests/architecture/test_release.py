"""tools/check_release.py names each text that does not fit the version to be released."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tools import check_release

FILES = (
    "CHANGELOG.md", "README.md", "README.zh-Hans.md", "SECURITY.md", "pyproject.toml", "docs/index.md",
    "docs/guides/command-line.md", "django_redis_components/__init__.py", "tests/stored_data/format_1/locks.json",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree that is ready for 1.0.0, in its own repository."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    replace(tmp_path / "django_redis_components/__init__.py", r"__version__ = .*", '__version__ = "1.0.0"')
    replace(tmp_path / "pyproject.toml", "4 - Beta", "5 - Production/Stable")
    replace(tmp_path / "pyproject.toml", r"# \[project.urls\] .*", '[project.urls]\nSource = "https://example.org/drc"')
    replace(tmp_path / "docs/guides/command-line.md", r"components \d\.\d\.\d,", "components 1.0.0,")
    replace(tmp_path / "tests/stored_data/format_1/locks.json", r'"release": ".*"', '"release": "1.0.0"')
    replace(tmp_path / "CHANGELOG.md", r"## \[Unreleased\]\n\n.*", "## [Unreleased]\n\n## [1.0.0] - 2027-01-04\n")
    for page, words in check_release.UNPUBLISHED.items():
        replace(tmp_path / page, words, "published")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def replace(path: Path, pattern: str, text: str) -> None:
    path.write_text(re.sub(pattern, text, path.read_text()))


def git(tree: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=tree, check=True)


def commit(tree: Path) -> None:
    git(tree, "add", "-A")
    git(tree, "commit", "--quiet", "--message", "x")


def problems(tree: Path) -> list[str]:
    return list(check_release.problems(tree, "1.0.0"))


def test_tree_that_is_ready_has_no_problems(tree: Path) -> None:
    assert problems(tree) == []
    git(tree, "tag", "v1.0.0")
    assert problems(tree) == []


INIT, CHANGELOG, DATA = "django_redis_components/__init__.py", "CHANGELOG.md", "tests/stored_data/format_1/locks.json"
STABLE = "5 - Production/Stable"
#: File, what is replaced in it, by what, and the problem.
PROBLEMS = (
    (INIT, "1.0.0", "0.9.0", f"{INIT}: __version__ is 0.9.0, not 1.0.0."),
    (
        "pyproject.toml", STABLE, "4 - Beta",
        f"pyproject.toml: the classifier of 1.0.0 is Development Status :: {STABLE}.",
    ),
    (
        "pyproject.toml", "Source =", "Other =",
        "pyproject.toml: [project.urls] has no Source: the description on the index has neither links nor images.",
    ),
    (CHANGELOG, r"\[1.0.0\] - .*", "[1.0.1] - 2027-01-04", "CHANGELOG.md: there is no section [1.0.0]."),
    (CHANGELOG, "2027-01-04", "soon", 'CHANGELOG.md: expected the heading "## [1.0.0] - YYYY-MM-DD".'),
    (CHANGELOG, r"## \[1.0.0\]", "- A thing.\n\n## [1.0.0]", "CHANGELOG.md: [Unreleased] still has entries."),
    (CHANGELOG, r"## \[Unreleased\]\n", "", "CHANGELOG.md: the first section is not [Unreleased]."),
    (
        CHANGELOG, r"## \[1.0.0\]", "## [1.1.0] - 2027-02-01\n\n## [1.0.0]",
        "CHANGELOG.md: the section [1.0.0] does not follow [Unreleased].",
    ),
    (
        "README.md", "published", "not published on a package index",
        "README.md: still says 'not published on a package index'.",
    ),
    (
        "docs/guides/command-line.md", "components 1.0.0", "components 0.1.0",
        "docs/guides/command-line.md: the output of doctor does not show version 1.0.0.",
    ),
    (
        DATA, '"1.0.0"', '"0.1.0"',
        "tests/stored_data: recorded before 1.0. Delete the files, and run python -m tests.stored_data.record.",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("name", "pattern", "text", "problem"), PROBLEMS, ids=[each[3] for each in PROBLEMS])
def test_each_problem_is_named(tree: Path, name: str, pattern: str, text: str, problem: str) -> None:
    replace(tree / name, pattern, text)
    commit(tree)

    assert problem in problems(tree)


def test_uncommitted_changes_and_a_tag_of_another_commit_are_problems(tree: Path) -> None:
    git(tree, "tag", "v1.0.0")
    (tree / "new.txt").write_text("x")
    assert problems(tree) == ["The working tree has changes that are not committed."]

    commit(tree)

    [problem] = problems(tree)
    assert re.fullmatch(r"The tag v1\.0\.0 exists, and names another commit \([0-9a-f]{8}\)\.", problem)


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0rc1", "01.0.0", ""])
def test_wrong_version_is_an_error(version: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        check_release.main([version])

    assert f"{version!r} is not a version: expected three numbers, for example 1.0.0." in capsys.readouterr().err


def test_tree_of_today_is_not_released_by_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_release.main(["9.0.0"]) == 1

    printed = capsys.readouterr().out
    assert "CHANGELOG.md: there is no section [9.0.0]." in printed
    assert printed.splitlines()[-1].startswith("9.0.0 cannot be released. Problems: ")
