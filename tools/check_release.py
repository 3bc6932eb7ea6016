"""Check that the working tree can be released: ``python tools/check_release.py 1.0.0``. It changes nothing.

Everything that must agree is compared: version, tag, changelog, classifier, pages, fixtures of stored data, address of
the repository. It prints each problem, and the exit code is 1 if there is one. The procedure is in
docs/contributing/releasing.md, and ``tools/prepare_release.py`` makes the edits.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
#: What the pages say before the first release.
UNPUBLISHED = {
    "README.md": "not published on a package index",
    "README.zh-Hans.md": "尚未发布到软件包索引",
    "docs/index.md": "not published on a package index",
    "CHANGELOG.md": "Nothing has been published yet",
    "SECURITY.md": "Until 1.0 is released",
    "docs/tutorial.md": "once 1.0 is published",
    "docs/tutorial.zh-Hans.md": "once 1.0 is published",
    "docs/guides/deployment.md": "Until 1.0 is published",
    "docs/guides/testing.md": "Until 1.0 is published",
    "docs/guides/upgrades.md": "It applies from 1.0 on",
    "docs/reference/stability.md": "It applies from 1.0 on",
}


def main(arguments: list[str] | None = None) -> int:
    """Print the problems; return the exit code."""
    parser = argparse.ArgumentParser(description="Check that the working tree can be released. Nothing is changed.")
    parser.add_argument("version", type=version_argument, help="the version to release, for example 1.0.0")
    version = parser.parse_args(arguments).version
    found = list(problems(ROOT, version))
    for problem in found:
        print(problem)
    print(f"{version} {'cannot' if found else 'can'} be released. Problems: {len(found)}.")
    return 1 if found else 0


def problems(root: Path, version: str) -> Iterator[str]:
    """Yield what prevents the release of a version from a tree."""
    yield from _version_problems(root, version)
    yield from _changelog_problems((root / "CHANGELOG.md").read_text(), version)
    yield from _page_problems(root, version)
    yield from _git_problems(root, version)


def _version_problems(root: Path, version: str) -> Iterator[str]:
    package = (root / "django_redis_components" / "__init__.py").read_text()
    [stated] = re.findall(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    if stated != version:
        yield f"django_redis_components/__init__.py: __version__ is {stated}, not {version}."
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    expected = "4 - Beta" if version.startswith("0.") else "5 - Production/Stable"
    if f"Development Status :: {expected}" not in project["classifiers"]:
        yield f"pyproject.toml: the classifier of {version} is Development Status :: {expected}."
    if "Source" not in project.get("urls", {}):
        yield "pyproject.toml: [project.urls] has no Source: the description on the index has neither links nor images."


def _changelog_problems(text: str, version: str) -> Iterator[str]:
    headings = re.findall(r"^## \[([^\]]+)\](.*)$", text, re.MULTILINE)
    names = [name for name, _ in headings]
    if names[:1] != ["Unreleased"]:
        yield "CHANGELOG.md: the first section is not [Unreleased]."
    if version not in names:
        yield f"CHANGELOG.md: there is no section [{version}]."
        return
    if names.index(version) != 1:
        yield f"CHANGELOG.md: the section [{version}] does not follow [Unreleased]."
    if not re.fullmatch(r" - \d{4}-\d{2}-\d{2}", dict(headings)[version]):
        yield f'CHANGELOG.md: expected the heading "## [{version}] - YYYY-MM-DD".'
    unreleased = text.partition("## [Unreleased]")[2].partition(f"## [{version}]")[0]
    if re.search(r"^- ", unreleased, re.MULTILINE):
        yield "CHANGELOG.md: [Unreleased] still has entries."


def _page_problems(root: Path, version: str) -> Iterator[str]:
    for page, words in UNPUBLISHED.items():
        if words in (root / page).read_text():
            yield f"{page}: still says {words!r}."
    if f"django-redis-components {version}," not in (root / "docs" / "guides" / "command-line.md").read_text():
        yield f"docs/guides/command-line.md: the output of doctor does not show version {version}."
    if version.startswith("0."):
        return
    recorded = {path.read_text().partition('"release": "')[2].partition('"')[0] for path in _stored_data(root)}
    if not recorded or any(release.startswith("0.") for release in recorded):
        problem = "recorded before 1.0. Delete the files" if recorded else "nothing is recorded. Restore the files"
        yield f"tests/stored_data: {problem}, and run python -m tests.stored_data.record."


def _stored_data(root: Path) -> list[Path]:
    return sorted((root / "tests" / "stored_data").glob("format_*/*.json"))


def _git_problems(root: Path, version: str) -> Iterator[str]:
    if _git(root, "status", "--porcelain"):
        yield "The working tree has changes that are not committed."
    tag = f"v{version}"
    tagged, head = _git(root, "rev-parse", "--verify", "--quiet", f"{tag}^{{commit}}"), _git(root, "rev-parse", "HEAD")
    if tagged and tagged != head:
        yield f"The tag {tag} exists, and names another commit ({tagged[:8]})."


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def version_argument(text: str) -> str:
    """Parse a version, for argparse."""
    if not VERSION.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version: expected three numbers, for example 1.0.0.")
    return text


if __name__ == "__main__":
    sys.exit(main())
