"""The Chinese catalog of the package is complete, current and compiled."""

from __future__ import annotations

import gettext
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.utils import translation

import django_redis_components
from tests.support import skip_missing

PACKAGE = Path(django_redis_components.__file__).parent
CATALOGUE = PACKAGE / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po"

#: What may differ between a text and its translation, but must be in both.
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%s|\{\w+\}")


def entries(path: Path) -> dict[tuple[str, str], list[str]]:
    """(context, text) to translations, in the form that `makemessages --no-wrap` writes."""
    found: dict[tuple[str, str], list[str]] = {}
    for block in path.read_text().split("\n\n")[1:]:
        block = block.replace('\\"', '"')
        context = re.search(r'^msgctxt "(.*)"$', block, re.M)
        text = re.search(r'^msgid "(.*)"$', block, re.M)
        if text:
            found[context[1] if context else "", text[1]] = re.findall(r'^msgstr(?:\[\d\])? "(.*)"$', block, re.M)
    return found


def test_all_messages_are_translated() -> None:
    assert "fuzzy" not in CATALOGUE.read_text()
    assert {key for key, translations in entries(CATALOGUE).items() if not all(translations)} == set()
    assert len(entries(CATALOGUE)) > 100


def test_translations_keep_the_placeholders() -> None:
    assert [
        text
        for (_, text), translations in entries(CATALOGUE).items()
        for each in translations
        if sorted(PLACEHOLDER.findall(each)) != sorted(PLACEHOLDER.findall(text))
    ] == []


def test_compiled_catalog_is_current() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as compiled:
        catalog = gettext.GNUTranslations(compiled)

    def compiled_text(context: str, text: str) -> str:
        if context:
            return catalog.pgettext(context, text)
        found = catalog.gettext(text)
        return found if found != text else catalog.ngettext(text, text, 2)

    written = {key: translations[0] for key, translations in entries(CATALOGUE).items()}
    assert {key: compiled_text(*key) for key in written} == written, "run: make messages"


def test_catalog_matches_the_sources(tmp_path: Path) -> None:
    if shutil.which("xgettext") is None:
        skip_missing("gettext is not installed, so the texts of the sources are not compared: apt-get install gettext")
    copy = shutil.copytree(PACKAGE, tmp_path / "package", ignore=shutil.ignore_patterns("__pycache__"))

    arguments = ["makemessages", "-l", "zh_Hans", "--no-wrap", "--no-location", "--no-obsolete"]
    env = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-m", "django", *arguments], cwd=copy, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr

    fresh = entries(copy / CATALOGUE.relative_to(PACKAGE))
    assert set(fresh) == set(entries(CATALOGUE)), "run: make messages"


@pytest.mark.parametrize("asked", ["zh-hans", "zh-cn", "zh-hans-cn"])
def test_django_finds_the_folder(asked: str) -> None:
    with translation.override(translation.get_supported_language_variant(asked)):
        assert translation.gettext("Redis operations") == "Redis 运维"
