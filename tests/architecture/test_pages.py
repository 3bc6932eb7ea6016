"""docs/pages.md names each page once, by its title, with its one job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

DOCS = ROOT / "docs"
TABLE, _, WORDS = (DOCS / "pages.md").read_text().partition("## Find by word")
#: Title, page and job of each row.
ROWS = re.findall(r"^\| \[([^\]]+)\]\(([^)]+)\) \| ([^|]+) \|$", TABLE, re.MULTILINE)
#: Folders whose index stands for their pages.
FOLDERS = ("decisions", "reference/python")


def pages() -> set[str]:
    """Return the pages of the documentation, as links of pages.md name them."""
    found = {path.relative_to(DOCS).as_posix() for end in ("md", "rst") for path in DOCS.rglob(f"*.{end}")}
    inner = {page for page in found if page.startswith(FOLDERS) and Path(page).stem != "index"}
    return found - inner - {"pages.md"}


def text_of(page: str) -> str:
    text = (DOCS / page).read_text()
    included = re.match(r"```\{include\} (\S+)", text)
    return (DOCS / page).parent.joinpath(included[1]).read_text() if included else text


def test_each_page_has_one_row() -> None:
    assert sorted(page for _, page, _ in ROWS) == sorted(pages())


@pytest.mark.parametrize(("title", "page"), [row[:2] for row in ROWS], ids=[row[1] for row in ROWS])
def test_row_has_the_title_of_its_page(title: str, page: str) -> None:
    assert text_of(page).lstrip().removeprefix("# ").splitlines()[0] == title


def test_no_two_pages_have_one_job() -> None:
    jobs = [job for _, _, job in ROWS]

    assert sorted(set(jobs)) == sorted(jobs)


@pytest.mark.parametrize(
    ("word", "page"),
    [
        (word.partition(" (")[0], page)
        for words, page in re.findall(r"^\| ([^|]+) \| \[[^\]]+\]\(([^)]+)\) \|$", WORDS, re.MULTILINE)
        for word in re.split(r", (?![^(]*\))", words)
        if word != "Word"
    ],
)
def test_page_has_the_word_by_which_it_is_found(word: str, page: str) -> None:
    assert re.search(rf"\b{re.escape(word)}", (DOCS / page).read_text(), re.IGNORECASE)
