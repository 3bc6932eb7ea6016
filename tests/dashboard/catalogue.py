"""The Chinese catalog of the package, as makemessages writes it."""

from __future__ import annotations

import re
from pathlib import Path

import django_redis_components

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
