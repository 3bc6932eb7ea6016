"""tools/check_release.py names each text that does not fit the version to be released; prepare_release.py mends it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from django_redis_components import __version__
from tests.architecture.sources import ROOT
from tools import check_release, prepare_release

SOURCE = "https://example.org/drc"
DATA = "tests/stored_data/format_1/locks.json"
#: The version that follows that of the tree.
NEXT = "1.0.0" if __version__.startswith("0.") else re.sub(r"\d+$", lambda found: str(int(found[0]) + 1), __version__)
DAY = date(2027, 1, 4)


def has_address() -> bool:
    return "\n[project.urls]\n" in (ROOT / "pyproject.toml").read_text()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree that is ready for the next version, in its own repository."""
    for name in ("pyproject.toml", *check_release.UNPUBLISHED, DATA):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, text in prepare_release.edits(ROOT, NEXT, DAY, None if has_address() else SOURCE).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    replace(tmp_path / DATA, r'"release": ".*"', '"release": "1.0.0"')
    replace(tmp_path / "CHANGELOG.md", rf"## \[{NEXT}\](.*\n)+", f"## [{NEXT}] - 2027-01-04\n")
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
    return list(check_release.problems(tree, NEXT))


def test_tree_that_is_ready_has_no_problems(tree: Path) -> None:
    assert problems(tree) == []
    git(tree, "tag", f"v{NEXT}")
    assert problems(tree) == []


INIT, CHANGELOG = "django_redis_components/__init__.py", "CHANGELOG.md"
STABLE = "5 - Production/Stable"
#: File, what is replaced in it, by what, and the problem.
PROBLEMS = (
    (INIT, NEXT, "0.9.0", f"{INIT}: __version__ is 0.9.0, not {NEXT}."),
    (
        "pyproject.toml", STABLE, "4 - Beta",
        f"pyproject.toml: the classifier of {NEXT} is Development Status :: {STABLE}.",
    ),
    (
        "pyproject.toml", "Source =", "Other =",
        "pyproject.toml: [project.urls] has no Source: the description on the index has neither links nor images.",
    ),
    (CHANGELOG, rf"\[{NEXT}\] - .*", "[0.0.9] - 2027-01-04", f"CHANGELOG.md: there is no section [{NEXT}]."),
    (CHANGELOG, "2027-01-04", "soon", f'CHANGELOG.md: expected the heading "## [{NEXT}] - YYYY-MM-DD".'),
    (CHANGELOG, rf"## \[{NEXT}\]", f"- A thing.\n\n## [{NEXT}]", "CHANGELOG.md: [Unreleased] still has entries."),
    (CHANGELOG, r"## \[Unreleased\]\n", "", "CHANGELOG.md: the first section is not [Unreleased]."),
    (
        CHANGELOG, rf"## \[{NEXT}\]", f"## [9.1.0] - 2027-02-01\n\n## [{NEXT}]",
        f"CHANGELOG.md: the section [{NEXT}] does not follow [Unreleased].",
    ),
    *(
        (page, "^", f"{words}\n", f"{page}: still says {words!r}.") for page, words in check_release.UNPUBLISHED.items()
    ),
    (
        "docs/guides/command-line.md", f"components {NEXT}", "components 0.1.0",
        f"docs/guides/command-line.md: the output of doctor does not show version {NEXT}.",
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
    git(tree, "tag", f"v{NEXT}")
    (tree / "new.txt").write_text("x")
    assert problems(tree) == ["The working tree has changes that are not committed."]

    commit(tree)

    [problem] = problems(tree)
    assert re.fullmatch(rf"The tag v{re.escape(NEXT)} exists, and names another commit \([0-9a-f]{{8}}\)\.", problem)


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


def test_prepared_tree_has_no_problem_but_the_address(tmp_path: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=False, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("The tree is not a repository.")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "--quiet")

    done = subprocess.run(
        [sys.executable, "tools/prepare_release.py", NEXT, "--date", "2027-01-04"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )

    commit(tmp_path)
    found = [] if has_address() else [PROBLEMS[2][3]]
    assert problems(tmp_path) == found
    assert done.stdout.endswith(f"  git tag --annotate v{NEXT} --message {NEXT}\n")
    tags = subprocess.run(["git", "tag"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert tags.stdout == ""


def test_nothing_is_written_if_a_page_has_not_the_text_to_replace(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(tree / "docs/index.md", "version", "edition")
    before = {path: path.read_bytes() for path in tree.rglob("*.md")}

    assert prepare_release.main(["9.0.0"], tree) == 1

    assert capsys.readouterr().err.startswith("docs/index.md: expected once, found 0 times: ")
    assert {path: path.read_bytes() for path in tree.rglob("*.md")} == before


def test_nothing_is_written_by_a_python_that_cannot_record_data(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare_release, "edits", lambda *_: {"docs/index.md": ""})
    monkeypatch.setattr(prepare_release, "_stated", lambda _: "0.1.0")
    before = (tree / "docs/index.md").read_bytes()

    assert prepare_release.main(["9.0.0"], tree) == 1  # a tree without tests.stored_data.record

    assert "cannot record tests/stored_data: ModuleNotFoundError: " in capsys.readouterr().err
    assert (tree / "docs/index.md").read_bytes() == before
    assert (tree / DATA).exists()


def test_data_that_are_not_recorded_are_a_problem(tree: Path) -> None:
    (tree / DATA).unlink()
    commit(tree)

    [problem] = problems(tree)

    assert problem.startswith("tests/stored_data: nothing is recorded. Restore the files, and run ")


def test_version_that_is_not_above_the_one_of_the_tree_is_refused(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prepare_release.main([NEXT], tree) == 1

    assert f"__version__ is {NEXT}: expected a version above it, from 1.0.0 on, not {NEXT}." in capsys.readouterr().err


def test_next_release_edits_the_version_and_the_changelog_only(tree: Path) -> None:
    assert set(prepare_release.edits(tree, "9.0.0", DAY)) == {*prepare_release.STATEMENTS, CHANGELOG}
