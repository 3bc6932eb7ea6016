"""The documentation as a site: its numbers have a source, pages have the words of the field, translations keep step."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

DOCS = ROOT / "docs"

#: Words of the field that occur on a page, by page.
WORDS = {
    "components/analytics.md": ["active users", "leaderboard", "funnel", "retention"],
    "components/autocomplete.md": ["typeahead"],
    "components/bloom.md": ["false positive", "false negative"],
    "components/expiry.md": ["cache stampede"],
    "components/flows.md": ["workflow"],
    "components/locks.md": ["distributed lock", "mutex"],
    "components/messaging.md": ["inbox", "notification"],
    "components/outbox.md": ["transactional outbox"],
    "components/periodic-tasks.md": ["cron job"],
    "components/ratelimits.md": ["throttling", "brute force"],
    "components/search.md": ["full-text", "faceted"],
    "components/taskqueue.md": ["dead letter", "back-pressure"],
    "components/workers.md": ["gracefully"],
    "guides/security.md": ["GDPR"],
    "index.md": ["background jobs", "full-text", "typeahead", "leaderboard", "active users", "inbox", "mutex"],
}

#: Pages and their translations.
TRANSLATIONS = {
    "README.md": "README.zh-Hans.md",
    "docs/tutorial.md": "docs/tutorial.zh-Hans.md",
}

_BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S)
_COMMENT = re.compile(r"(^|  +)#(?!:).*$", re.M)


def headings(path: Path) -> list[int]:
    """Return the level of each heading of a page."""
    return [len(marks) for marks in re.findall(r"^(#+) ", _BLOCK.sub("", path.read_text()), re.M)]


def blocks(path: Path) -> list[tuple[str, str]]:
    """Return kind and code of each block of a page, without the comments, which are translated."""
    return [(found["kind"], _COMMENT.sub("", found["code"])) for found in _BLOCK.finditer(path.read_text())]


@pytest.mark.parametrize("page", WORDS)
def test_page_has_the_words_that_people_search_for(page: str) -> None:
    text = " ".join((DOCS / page).read_text().lower().split())

    assert [word for word in WORDS[page] if word.lower() not in text] == []


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_translation_has_the_headings_and_the_code_of_the_page(page: str) -> None:
    translated = ROOT / TRANSLATIONS[page]

    assert headings(translated) == headings(ROOT / page)
    assert blocks(translated) == blocks(ROOT / page)


@pytest.mark.parametrize("page", TRANSLATIONS)
def test_page_and_translation_link_to_each_other(page: str) -> None:
    translated = ROOT / TRANSLATIONS[page]

    assert f"]({translated.name})" in (ROOT / page).read_text()
    assert f"]({Path(page).name})" in translated.read_text()


def test_numbers_of_the_landing_page_are_results_of_the_benchmarks() -> None:
    table = (DOCS / "index.md").read_text().partition("## Numbers")[2].partition("## When")[0]
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text()

    rows = [row.split("|")[2:4] for row in re.findall(r"^\|.*\|$", table, re.M)[2:]]
    numbers = re.findall(r"\d[\d,.]*\d", " ".join(cell for row in rows for cell in row))
    assert len(numbers) > 12
    assert [
        number for number in numbers if not re.search(rf"(?<![\d,.]){re.escape(number)}(?![\d,]|\.\d)", results)
    ] == []


def test_cells_of_a_table_have_the_heading_of_their_column(tmp_path: Path) -> None:
    source, built = tmp_path / "source", tmp_path / "built"
    source.mkdir()
    (source / "index.rst").write_text(
        "Page\n====\n\n====  ======  ===\nName  *Type*  Use\n====  ======  ===\none   int     all\n====  ======  ===\n"
    )
    (source / "conf.py").write_text(
        f"import sys\nsys.path.append({str(DOCS / '_extensions')!r})\nextensions = ['cell_labels']\n"
        "html_theme = 'basic'\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(source), str(built)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r'<td[^>]* data-label="([^"]*)"', (built / "index.html").read_text()) == ["Name", "Type", "Use"]
    assert not re.search(r"<th[^>]* data-label", (built / "index.html").read_text())
