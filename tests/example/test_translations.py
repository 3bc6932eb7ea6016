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

    found = {text: translations[0] for (_context, text), translations in entries(CATALOGUE).items() if text}
    shown = {text: catalog.gettext(text) for text in found}
    shown |= {text: catalog.ngettext(text, text, 2) for text in found if shown[text] == text}
    assert shown == found, "run: make messages"


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
