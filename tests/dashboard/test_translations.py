"""The Chinese catalog of the package is complete, current and compiled."""

from __future__ import annotations

import ast
import gettext
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import django
import pytest
from django.utils import translation

from tests.dashboard.catalogue import CATALOGUE, PACKAGE, PLACEHOLDER, entries
from tests.support import skip_missing

#: Functions that mark a text, and how many of their first arguments are the context and the text.
FUNCTIONS = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"), 1),
    **dict.fromkeys(("pgettext", "pgettext_lazy", "npgettext", "npgettext_lazy"), 2),
}


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


def compiled_texts(path: Path, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """(context, text) to the translation in a compiled catalog; the text itself if there is none."""
    with path.with_suffix(".mo").open("rb") as compiled:
        catalog = gettext.GNUTranslations(compiled)

    def compiled_text(context: str, text: str) -> str:
        if context:
            found = catalog.pgettext(context, text)
            return found if found != text else catalog.npgettext(context, text, text, 2)
        found = catalog.gettext(text)
        return found if found != text else catalog.ngettext(text, text, 2)

    return {key: compiled_text(*key) for key in keys}


def test_compiled_catalog_is_current() -> None:
    written = {key: translations[0] for key, translations in entries(CATALOGUE).items()}

    assert compiled_texts(CATALOGUE, written) == written, "run: make messages"


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


def marked_texts(source: str) -> Iterator[tuple[str, str]]:
    """Yield (context, text) of each call of a function that marks a constant text."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in FUNCTIONS:
            arguments = call.args[: FUNCTIONS[call.func.id]]
            texts = [str(each.value).replace("\n", "\\n") for each in arguments if isinstance(each, ast.Constant)]
            if len(texts) == FUNCTIONS[call.func.id]:
                yield ("", *texts)[-2], texts[-1]


def test_each_marked_text_is_in_the_catalog() -> None:
    """Texts within f-strings are not: makemessages does not read them."""
    sources = [source for path in PACKAGE.rglob("*.py") if "translation import" in (source := path.read_text())]

    assert {each for source in sources for each in marked_texts(source)} - entries(CATALOGUE).keys() == set()


def test_no_text_is_translated_otherwise_by_django() -> None:
    """Of a text that several apps translate Django shows the translation of the first app: ours need a context."""
    ours = {key: translations[0] for key, translations in entries(CATALOGUE).items()}
    other = {
        (path.parts[-5], key[1], text)
        for path in Path(django.__file__).parent.glob("**/locale/zh_Hans/LC_MESSAGES/django.mo")
        for key, text in compiled_texts(path, ours).items()
        if text not in (key[1], ours[key])
    }

    assert other == set(), "give these a context"


@pytest.mark.parametrize("asked", ["zh-hans", "zh-cn", "zh-hans-cn"])
def test_django_finds_the_folder(asked: str) -> None:
    with translation.override(translation.get_supported_language_variant(asked)):
        assert translation.gettext("Redis operations") == "Redis 运维"
