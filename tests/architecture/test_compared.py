"""Each feature that docs/guides/compared.md says is here has a test, which the page names."""

from __future__ import annotations

import re

import pytest

from tests.architecture.sources import ROOT

PAGE = ROOT / "docs" / "guides" / "compared.md"


def table_of(heading: str) -> list[list[str]]:
    """The cells of the rows of a section's table."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in rows[1:]]


FEATURES = [cells[0] for cells in table_of("Here")]
#: Row of the page -> file and name of its test: "taskqueue/test_names.py::test_name_replaces_the_path".
TESTS = {feature: test.strip("`") for feature, test in table_of("Tests")}


def test_page_names_a_test_of_each_feature() -> None:
    assert list(TESTS) == FEATURES
    assert len(FEATURES) > 40


@pytest.mark.parametrize("feature", TESTS)
def test_test_of_a_feature_exists(feature: str) -> None:
    path, _, name = TESTS[feature].partition("::")

    assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE)
