"""Make the edits of a release: ``python tools/prepare_release.py 1.0.0 --source https://…``.

It changes files only: nothing is committed, tagged or uploaded. The commands that remain are printed, with that of the
tag. ``tools/check_release.py`` compares the result; the procedure is in docs/contributing/releasing.md.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.check_release import VERSION, version_argument

ROOT = Path(__file__).resolve().parents[1]
INIT = "django_redis_components/__init__.py"
#: The pages that state the version, with the text before and behind it.
STATEMENTS = {
    INIT: ('__version__ = "', '"'),
    "README.md": ("**Status: stable, version ", ".**"),
    "README.zh-Hans.md": ("**状态：稳定版，版本 ", "。**"),
    "docs/index.md": ("**Status: stable, version ", ".**"),
    "docs/guides/command-line.md": ("\ndjango-redis-components ", ", Django "),
}
PIP = "```sh\npip install django-redis-components\n```\n\n"
#: What the first release replaces: page, pattern, and text. The version stays until `STATEMENTS` replaces it.
FIRST = (
    (
        "README.md",
        r"\*\*Status: beta, version ([\d.]+), not published on a package index\.\*\* .*? begins with 1\.0\.",
        r"**Status: stable, version \1.** [What a release keeps](docs/reference/stability.md).",
    ),
    (
        "README.md",
        r"From a checkout of this repository, until 1\.0 .*? was installed from a checkout\.",
        f"{PIP}Optional features are extras: `pip install 'django-redis-components[cron]'`.",
    ),
    (
        "README.zh-Hans.md",
        r"\*\*状态：beta，版本 ([\d.]+)，尚未发布到软件包索引。\*\* .*?从 1\.0 开始生效。",
        r"**状态：稳定版，版本 \1。** 参见[兼容性承诺](docs/reference/stability.md)。",
    ),
    (
        "README.zh-Hans.md",
        r"1\.0 发布到软件包索引之前，从本仓库的检出安装：.*?添加附加包。",
        f"{PIP}可选功能是附加包：`pip install 'django-redis-components[cron]'`。",
    ),
    (
        "docs/index.md",
        r"\*\*Status: beta, version ([\d.]+), not published on a package index\.\*\* .*? applies from 1\.0 on\.",
        r"**Status: stable, version \1.** [Stability](reference/stability.md) says what a release keeps.",
    ),
    ("SECURITY.md", r" Until 1\.0 is released, that is the main branch\.", ""),
    ("docs/reference/stability.md", r" It applies from 1\.0 on\.", ""),
    ("docs/guides/upgrades.md", r" It applies from 1\.0 on: until then read the changelog before each upgrade\.", ""),
    ("docs/guides/deployment.md", r" Until 1\.0 is published, build a wheel of the checkout\n.*?prometheus\]`\.", ""),
    ("docs/guides/testing.md", r"Until 1\.0 is published, install the .*? the extra needs\.\n\n", ""),
    ("docs/tutorial.md", r"/path/to/django-redis-components .*? once 1\.0 is published: pip install ", ""),
    ("docs/tutorial.zh-Hans.md", r"/path/to/django-redis-components .*? once 1\.0 is published: pip install ", ""),
    ("pyproject.toml", "Development Status :: 4 - Beta", "Development Status :: 5 - Production/Stable"),
    ("CHANGELOG.md", r"Nothing has been published yet: .*?\n\n", ""),
)
#: The line of pyproject.toml in the place of the addresses.
NO_ADDRESS = r"# \[project\.urls\] [^\n]*\n"


class Unprepared(Exception):
    """The edits cannot be made. Nothing was written."""


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Edit the tree, and print what remains; return the exit code."""
    parser = argparse.ArgumentParser(
        description="Make the edits of a release. Nothing is committed, tagged or uploaded."
    )
    parser.add_argument("version", type=version_argument, help="the version to release, for example 1.0.0")
    parser.add_argument(
        "--date", type=date.fromisoformat, default=datetime.now(UTC).date(), help="YYYY-MM-DD (default: today, in UTC)"
    )
    parser.add_argument("--source", help="address of the repository, for pyproject.toml (default: unchanged)")
    options = parser.parse_args(arguments)
    try:
        edited = edits(root, options.version, options.date, options.source)
        is_first = _stated(root).startswith("0.")
        if is_first:
            _check_environment(root)
    except Unprepared as exc:
        print(exc, file=sys.stderr)
        return 1
    for page, text in edited.items():
        (root / page).write_text(text)
        print(f"edited: {page}")
    if is_first and not _record(root):
        print("The stored data were not recorded. Repeat: python -m tests.stored_data.record", file=sys.stderr)
        return 1
    version = options.version
    print(
        f"\nLook at the changes, then:\n  STRICT=1 make test\n  git commit --all --message 'release {version}'\n"
        f"  python tools/check_release.py {version}\n  git tag --annotate v{version} --message {version}"
    )
    return 0


def edits(root: Path, version: str, day: date, source: str | None = None) -> dict[str, str]:
    """Return the texts of the files that a release changes, by page.

    Raises:
        Unprepared: a file has not the text that an edit replaces, or the version is not above that of the tree.
    """
    old, texts = _stated(root), _Texts(root)
    if _numbers(version) <= max(_numbers(old), (0, 999)):
        raise Unprepared(f"{INIT}: __version__ is {old}: expected a version above it, from 1.0.0 on, not {version}.")
    for page, pattern, text in FIRST if old.startswith("0.") else ():
        texts.replace(page, pattern, text)
    for page, (before, behind) in STATEMENTS.items():
        texts.replace(page, re.escape(f"{before}{old}{behind}"), f"{before}{version}{behind}")
    texts.replace("CHANGELOG.md", r"## \[Unreleased\]\n", f"## [Unreleased]\n\n## [{version}] - {day}\n")
    if source:
        address = source.rstrip("/")
        urls = f'[project.urls]\nSource = "{address}"\nChangelog = "{address}/blob/main/CHANGELOG.md"\n'
        texts.replace("pyproject.toml", NO_ADDRESS, urls)
    return dict(texts)


class _Texts(dict[str, str]):
    """The texts of pages, as far as they were read."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, page: str) -> str:
        self[page] = (self._root / page).read_text()
        return self[page]

    def replace(self, page: str, pattern: str, text: str) -> None:
        """Replace what a page has once."""
        self[page], count = re.subn(pattern, text, self[page], flags=re.DOTALL)
        if count != 1:
            raise Unprepared(f"{page}: expected once, found {count} times: {pattern}")


def _stated(root: Path) -> str:
    [stated] = re.findall(r'^__version__ = "(.+)"$', (root / INIT).read_text(), re.MULTILINE)
    return str(stated)


def _numbers(version: str) -> tuple[int, ...]:
    found = VERSION.fullmatch(version)
    return tuple(map(int, found.groups())) if found else ()


def _check_environment(root: Path) -> None:
    """Raise `Unprepared` if this Python lacks the packages that recording needs."""
    done = subprocess.run(
        [sys.executable, "-c", "import tests.stored_data.record"], cwd=root, capture_output=True, text=True
    )
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise Unprepared(
            f"{sys.executable} cannot record tests/stored_data: {reason}. Run `make install`, and use .venv/bin/python."
        )


def _record(root: Path) -> bool:
    """Record the stored data again: no release has written those of today. Return whether that is done."""
    for path in (root / "tests" / "stored_data").glob("format_*/*.json"):
        path.unlink()
    return subprocess.run([sys.executable, "-m", "tests.stored_data.record"], cwd=root, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
