"""``{% load redis_components %}``: autocomplete without a form, marked search results, counts, calendars and formats.

Django's system checks import this module: a tag imports its component when it is rendered.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from django import template
from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from django_redis_components.core.arguments import short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django import forms

    from django_redis_components.analytics.estimate import Estimate
    from django_redis_components.dashboard.error_text import TracebackPart
    from django_redis_components.dashboard.links import Links
    from django_redis_components.search import SearchPage, TextPart

T = TypeVar("T")

register = template.Library()

#: Where a rendering notes that the stylesheet and the script are in the page.
_SEEN = "django_redis_components.autocomplete.media"
_CALENDAR_SEEN = "django_redis_components.analytics.media"


@register.simple_tag(takes_context=True)
def autocomplete(
    context: template.Context, name: str, index: str, value: Any = None, scope: Any = None, **attrs: Any
) -> SafeString:
    """A text field that suggests: ``{% autocomplete name="to" index="contacts" required=True %}``.

    Args:
        name: of the field; the id of what was chosen is posted as ``<name>-id``.
        index: name that the index is registered under.
        value: an id or a `Suggestion` to begin with.
        scope: which part of an index with scopes.
        attrs: HTML attributes; ``_`` stands for ``-``. ``id`` is ``id_<name>`` by default: give it a label.

    The first one in a page brings the stylesheet and the script, unless ``{% autocomplete_media %}`` did.
    """
    from django_redis_components.autocomplete.widgets import AutocompleteInput, media

    name, index = _text(name), _text(index)
    if not name:
        raise ValueError("name='': expected the name of the field, as in name=\"to\".")
    html_attrs = {"id": f"id_{name}", **{key.rstrip("_").replace("_", "-"): attrs[key] for key in attrs}}
    widget = AutocompleteInput(index, scope=scope)
    return format_html("{}{}", _media_once(context, _SEEN, media()), widget.render(name, value, html_attrs))


@register.simple_tag(takes_context=True)
def autocomplete_media(context: template.Context) -> SafeString:
    """The stylesheet and the script of ``{% autocomplete %}``, for the page's head."""
    from django_redis_components.autocomplete.widgets import media

    return _media_once(context, _SEEN, media())


@register.simple_tag(takes_context=True)
def sign_in_calendar(
    context: template.Context,
    user_id: int | str | UUID | None = "",
    site: str = "",
    year: int | None = None,
    days: Sequence[bool] | None = None,
) -> SafeString:
    """The sign-ins of a user in a year, as an SVG and a table: ``{% sign_in_calendar user.pk site="check-in" %}``.

    Args:
        user_id: the user; mapped ids too.
        site: of the `SignIns`; ``ANALYTICS["SITE"]`` by default.
        year: this year by default.
        days: what `SignIns.ayear` returned, in an async view; then Redis is not asked.

    The first one in a page brings the stylesheet, unless ``{% sign_in_calendar_media %}`` did. If Redis is unavailable,
    the calendar says so. Nothing is shown for None, which is the `pk` of an anonymous user.

    Raises:
        TemplateSyntaxError: neither a user nor `days`.
        TypeError, ValueError: an argument is not accepted.
    """
    from django_redis_components.analytics import rendering

    if user_id is None and days is None:
        return SafeString("")
    if user_id == "" and days is None:
        raise template.TemplateSyntaxError(
            'The tag "sign_in_calendar" has no user, or an empty one: name it, as in {% sign_in_calendar '
            "request.user.pk %}, or pass the days that SignIns.ayear returned, as in {% sign_in_calendar days=days %}."
        )
    calendar = rendering.read_calendar("" if user_id is None else user_id, _text(site), year, days)
    html = render_to_string(rendering.CALENDAR_TEMPLATE, rendering.calendar_context(calendar))
    return format_html("{}{}", _media_once(context, _CALENDAR_SEEN, rendering.media()), html)


@register.simple_tag(takes_context=True)
def sign_in_calendar_media(context: template.Context) -> SafeString:
    """The stylesheet of ``{% sign_in_calendar %}``, for the page's head."""
    from django_redis_components.analytics import rendering

    return _media_once(context, _CALENDAR_SEEN, rendering.media())


@register.simple_tag(takes_context=True)
def page_views(context: template.Context, page: str | None = None, days: int = 1, site: str | None = None) -> int | str:
    """The views of a page: ``{% page_views %}``, ``{% page_views "/items/7/" days=30 as views %}``.

    Args:
        page: its name; the path of the request if None.
        days: how many days, today included; at most 400.
        site: that of ``ANALYTICS`` if None.

    Returns:
        "" if Redis is unavailable, which is logged.

    Raises:
        TemplateSyntaxError: no page is named, and the context has no request.
        TypeError, ValueError: an argument is not accepted.
    """
    from django_redis_components.analytics.page_counts import views_of

    return views_of(_page(context, page), days, _text(site))


@register.simple_tag(takes_context=True)
def page_visitors(
    context: template.Context, page: str | None = None, days: int = 1, site: str | None = None
) -> Estimate | str:
    """The unique visitors of a page, estimated: ``{% page_visitors %}``. See `page_views`.

    Of several days it may be the sum of daily visitors, which the page should say: with
    ``{% page_visitors days=7 as visitors %}`` test ``visitors.is_unique`` (see `Estimate`).
    """
    from django_redis_components.analytics.page_counts import visitors_of

    return visitors_of(_page(context, page), days, _text(site))


@register.simple_tag
def highlight(page: SearchPage, text: str, max_chars: int | None = None) -> SafeString:
    """A text with the words of a search in ``<mark>``: ``{% highlight page item.description max_chars=200 %}``.

    Args:
        page: what `SearchIndex.search` returned.
        max_chars: length of a snippet around the matches; None for the whole text.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    if not hasattr(page, "highlight"):
        raise TypeError(f"page={short_repr(page)}: expected what SearchIndex.search returned.")
    parts = page.highlight(str(text), max_chars)
    return format_html_join("", "{}{}{}", (_marked(part) for part in parts))


def _format(name: str, value: float | None) -> str:
    """Format a number; None is a dash, and what is no number stays as it is, as filters of Django leave it."""
    from django_redis_components.dashboard import formats
    from django_redis_components.dashboard.elements import NO_VALUE

    if value is None:
        return NO_VALUE
    try:
        return str(getattr(formats, name)(value))
    except (TypeError, ValueError, OverflowError):
        return str(value)


@register.filter
def drc_number(value: int | None) -> str:
    """A whole number with thousands separators: ``{{ count|drc_number }}``. None is a dash, here and in the others."""
    return _format("number", value)


@register.filter
def drc_percent(share: float | None) -> str:
    """A ratio as a percentage with two decimal places: ``{{ share|drc_percent }}``."""
    return _format("percent", share)


@register.filter
def drc_age(seconds: float | None) -> str:
    """A duration in its two largest units, "2 h 5 min": ``{{ seconds|drc_age }}``."""
    return _format("age", seconds)


@register.filter
def drc_duration(seconds: float | None) -> str:
    """A short duration with about two digits, "23 ms", "1.4 s": ``{{ seconds|drc_duration }}``."""
    return _format("duration", seconds)


@register.filter
def drc_class(path: object) -> str:
    """The path of a class, without the module of built-in ones: ``{{ exception_class_path|drc_class }}``."""
    from django_redis_components.dashboard.elements import NO_VALUE

    return NO_VALUE if path is None else str(path).removeprefix("builtins.")


@register.filter
def drc_task_class(links: Links | None, name: str) -> str:
    """The URL of the page of a task class, or "": ``{{ links|drc_task_class:task.name }}``."""
    return links.task_class(name) if links else ""


@register.filter
def drc_traceback(text: object) -> SafeString | str:
    """A traceback as HTML, with the lines where it failed marked: ``{{ traceback|drc_traceback }}``.

    Frames of libraries between those of the site are folded.
    """
    from django_redis_components.dashboard.elements import NO_VALUE
    from django_redis_components.dashboard.error_text import traceback_parts

    if text is None:
        return NO_VALUE
    return format_html_join("", "{}", ((_traceback_part(part),) for part in traceback_parts(str(text))))


@register.filter
def drc_moment(at: datetime | None, now: datetime) -> SafeString | str:
    """A time as ``<time>``, without the date if it is today: ``{{ started_at|drc_moment:at }}``. None is a dash."""
    from django_redis_components.dashboard import formats
    from django_redis_components.dashboard.elements import NO_VALUE

    if not isinstance(at, datetime):
        return NO_VALUE if at is None else str(at)
    found = formats.timestamp(at, now)
    return format_html('<time datetime="{}" title="{}">{}</time>', found.iso, found.title, found.text)


def _text(value: T) -> T | str:
    """Return a translation or URL that is made when it is read, as text; other values as they are."""
    return str(value) if isinstance(value, Promise) else value


def _page(context: template.Context, page: str | None) -> str:
    if page is not None:
        return _text(page)
    if "request" not in context:
        raise template.TemplateSyntaxError(
            "The tag has no page and the context has no request: name a page, or add the context processor "
            "django.template.context_processors.request."
        )
    path: str = context["request"].path
    return path


def _traceback_part(part: TracebackPart) -> SafeString:
    marked = [
        format_html('<span class="drc-raised">{}</span>', line) if is_failed else line for line, is_failed in part.lines
    ]
    text = format_html("<pre>{}</pre>", format_html_join("\n", "{}", ((line,) for line in marked)))
    if not part.frames:
        return text
    from django_redis_components.dashboard import formats

    label = ngettext("%(count)s frame of libraries", "%(count)s frames of libraries", part.frames)
    label %= {"count": formats.number(part.frames)}
    return format_html('<details class="drc-frames"><summary>{}</summary>{}</details>', label, text)


def _marked(part: TextPart) -> tuple[SafeString, str, SafeString]:
    start, end = ("<mark>", "</mark>") if part.is_match else ("", "")
    return SafeString(start), part.text, SafeString(end)


def _media_once(context: template.Context, name: str, files: forms.Media) -> SafeString:
    seen = context.render_context.dicts[0]  # shared by the templates that extend and include each other
    if seen.get(name):
        return SafeString("")
    seen[name] = "yes"
    return files.render()
