"""Errors of the parameters of a page, in the active language. Those of other modules are in English."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _


class InvalidParameter(ValueError):
    """Raised for a parameter that a page does not accept. Its text is in the active language."""


def language_of(error: ValueError) -> str:
    """Return the language of the text of an error; "" for that of the page."""
    return "" if isinstance(error, InvalidParameter) else "en"


def not_one_of(name: str, value: str, accepted: Iterable[str]) -> InvalidParameter:
    """Return the error of a value that is none of the accepted ones."""
    facts = {"name": name, "value": repr(value[:40]), "accepted": ", ".join(accepted)}
    return InvalidParameter(_("%(name)s=%(value)s: expected one of %(accepted)s.") % facts)


def too_long(name: str, most: int) -> InvalidParameter:
    """Return the error of a value that has too many characters."""
    return InvalidParameter(_("%(name)s: expected at most %(most)s characters.") % {"name": name, "most": most})


def not_of_a_link(name: str) -> InvalidParameter:
    """Return the error of a value that no link of the page has."""
    return InvalidParameter(_("%(name)s: expected one from a link of this page.") % {"name": name})


def missing(parameters: str) -> InvalidParameter:
    """Return the error of a request without these parameters."""
    return InvalidParameter(_("Required: %(parameters)s.") % {"parameters": parameters})
