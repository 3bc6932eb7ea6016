"""All texts state one status: version, maturity, and whether it is published."""

from __future__ import annotations

import re
import tomllib

import pytest

from django_redis_components import __version__
from tests.architecture.sources import ROOT

CLASSIFIERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
#: The pages that say how mature the package is, with the words that begin the statement.
PAGES = {
    "README.md": "**Status: beta, version {version}, not published on a package index.**",
    "README.zh-Hans.md": "**状态：beta，版本 {version}，尚未发布到软件包索引。**",
    "docs/index.md": "**Status: beta, version {version}, not published on a package index.**",
    "CHANGELOG.md": "Nothing has been published yet: the version is {version}, beta.",
}
#: What may be said of a release only.
CLAIMS = re.compile("production-ready|面向生产环境|Production/Stable", re.IGNORECASE)


def is_published() -> bool:
    """Return whether the changelog has a release."""
    return re.search(r"^## \[\d", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE) is not None


def test_classifier_is_that_of_the_version() -> None:
    expected = "4 - Beta" if __version__.startswith("0.") else "5 - Production/Stable"

    assert [each for each in CLASSIFIERS if each.startswith("Development Status")] == [
        f"Development Status :: {expected}"
    ]


@pytest.mark.parametrize("page", PAGES)
def test_page_states_the_status(page: str) -> None:
    text = (ROOT / page).read_text()

    assert (PAGES[page].format(version=__version__) in text) == (not is_published())


@pytest.mark.parametrize("page", [*PAGES, "pyproject.toml", "django_redis_components/__init__.py"])
def test_page_claims_no_more_than_the_version(page: str) -> None:
    assert not (__version__.startswith("0.") and CLAIMS.search((ROOT / page).read_text()))


def test_readmes_install_from_a_checkout_until_there_is_a_release() -> None:
    for page in ("README.md", "README.zh-Hans.md"):
        text = (ROOT / page).read_text()
        assert ("\npip install .\n" in text) == (not is_published())
