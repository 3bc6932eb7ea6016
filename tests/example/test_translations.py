"""The Chinese catalog of the demo is complete, current and compiled."""

from __future__ import annotations

import gettext
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.dashboard.catalogue import PLACEHOLDER, entries
from tests.support import skip_missing
from tests.support.processes import ROOT

MARKET = ROOT / "example_project" / "market"
CATALOGUE = MARKET / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"


def test_all_messages_are_translated_and_keep_their_placeholders() -> None:
    found = entries(CATALOGUE)

    assert "fuzzy" not in CATALOGUE.read_text()
    assert len(found) > 200
    assert {key for key, translations in found.items() if not all(translations) and key[1]} == set()
    assert [
        text
        for (_context, text), translations in found.items()
        for each in translations
        if sorted(PLACEHOLDER.findall(each)) != sorted(PLACEHOLDER.findall(text))
    ] == []


def test_compiled_catalog_is_current() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as compiled:
        catalog = gettext.GNUTranslations(compiled)

    found = {key: translations[0] for key, translations in entries(CATALOGUE).items() if key[1]}
    shown = {key: catalog.pgettext(*key) if key[0] else catalog.gettext(key[1]) for key in found}
    shown |= {key: catalog.ngettext(key[1], key[1], 2) for key in found if shown[key] == key[1]}
    assert shown == found, "run: make messages"


def test_no_other_app_has_another_translation_of_a_text() -> None:
    """Django merges the catalogs of all apps: without a context, the text of the first one is shown."""
    dashboard = entries(ROOT / "django_redis_components" / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po")
    market = entries(CATALOGUE)

    both = {key for key in market if key[1] and key in dashboard}
    assert {key: market[key] for key in both} == {key: dashboard[key] for key in both}


def test_catalog_matches_the_sources(tmp_path: Path) -> None:
    if shutil.which("xgettext") is None:
        skip_missing("gettext is not installed, so the texts of the sources are not compared: apt-get install gettext")
    copy = shutil.copytree(MARKET, tmp_path / "market", ignore=shutil.ignore_patterns("__pycache__"))

    arguments = ["makemessages", "-l", "zh_Hans", "--no-wrap", "--no-location", "--no-obsolete"]
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments], cwd=copy, env=env, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert set(entries(copy / CATALOGUE.relative_to(MARKET))) == set(entries(CATALOGUE)), "run: make messages"
