"""The form widget: a text field that suggests, and a plain text field where no script runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from django import forms
from django.forms.widgets import Script
from django.urls import NoReverseMatch, reverse
from redis.exceptions import RedisError

from django_redis_components.autocomplete.entries import MAX_TEXT_CHARS, Suggestion, check_id
from django_redis_components.autocomplete.registry import InvalidScope, ScopeNeeded, Source, sign_scope, source
from django_redis_components.core.exceptions import ConfigurationError

#: Name of the JSON view's URL.
VIEW = "django_redis_components:autocomplete"
#: What the name of the hidden field with the chosen id has behind the name of the text field.
ID_SUFFIX = "-id"

_STATIC = "django_redis_components"

#: Names of the indexes that widgets were made for; the system check looks at them.
used_indexes: set[str] = set()


class Typed(NamedTuple):
    """What a form brings: the text in the field, and the id that was chosen for it ("" for none)."""

    text: str
    id: str


class AutocompleteInput(forms.Widget):
    """A text field that suggests entries of a registered index.

    Args:
        index: name that the index is registered under.
        scope: which of its parts, for an index with scopes; None where the index finds it by the request.
        attrs: HTML attributes of the text field.
    """

    template_name = "django_redis_components/autocomplete/input.html"

    def __init__(self, index: str, *, scope: object = None, attrs: Mapping[str, Any] | None = None) -> None:
        super().__init__(dict(attrs or {}))
        self.index = index
        self.scope = scope
        used_indexes.add(index)

    @property
    def media(self) -> forms.Media:
        """One stylesheet and one script, both files."""
        return media()

    def value_from_datadict(self, data: Mapping[str, Any], files: object, name: str) -> Typed | None:
        """What the form brings for this field; None if it does not have it."""
        if name not in data:
            return None
        return Typed(str(data[name] or "").strip(), str(data.get(name + ID_SUFFIX) or "").strip())

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        """Context of the template."""
        asked = source(self.index)
        typed = self._typed(asked, value)
        context = super().get_context(name, None, {"maxlength": str(MAX_TEXT_CHARS), **(attrs or {})})
        context["widget"].update(
            value=typed.text,
            chosen=typed.id,
            hidden_name=name + ID_SUFFIX,
            url=_url(self.index),
            scope=self._signed_scope(asked),
            min_length=asked.least_length(),
            recents=asked.has_recents,
        )
        return context

    def _signed_scope(self, asked: Source) -> str:
        if asked.scoped and self.scope not in (None, ""):
            return sign_scope(self.index, self.scope)
        if not asked.finds_scope:
            asked.index(self.scope)  # says what is wrong with the scope
        return ""

    def _typed(self, asked: Source, value: Any) -> Typed:
        """The text and id to show: of a form that came back, of a suggestion, or of an initial id."""
        if value in (None, ""):
            return Typed("", "")
        if isinstance(value, Typed):
            return value
        if isinstance(value, Suggestion):
            return Typed(value.text, value.id)
        try:
            id_ = check_id(value)
        except (TypeError, ValueError):  # no id, such as what a visitor wrote into the URL: a text like any other
            return Typed(str(value).encode("utf-8", "replace").decode()[:MAX_TEXT_CHARS], "")
        try:
            known = asked.index(self.scope).get_many([id_]).get(id_)
        except (RedisError, ScopeNeeded, InvalidScope):
            known = None
        return Typed(known.text if known else id_, id_)


def media() -> forms.Media:
    """What a page with the widget needs."""
    script: Any = Script(f"{_STATIC}/autocomplete.js", defer=True)
    return forms.Media(css={"all": [f"{_STATIC}/autocomplete.css"]}, js=[script])


def _url(index: str) -> str:
    try:
        return reverse(VIEW, args=[index])
    except NoReverseMatch:
        raise ConfigurationError(
            'The autocomplete widget has no view to ask: add path("redis/", include("django_redis_components.urls"))'
            " to the URLconf."
        ) from None
