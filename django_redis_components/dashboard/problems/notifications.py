"""Notifications: e-mail, webhooks and chats announce each problem's start, escalation and end."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings as django_settings
from django.core.mail import EmailMessage
from django.utils.functional import Promise
from django.utils.translation import pgettext, pgettext_lazy

from django_redis_components.core.exception_text import class_name, safe_text
from django_redis_components.core.settings import conf
from django_redis_components.core.text import one_line
from django_redis_components.dashboard.error_text import error_line
from django_redis_components.dashboard.problems.incidents import Announcement

#: A URL in the text of an error.
_URL = re.compile(r"\w+://\S+")
#: How an announcement begins, by its event.
LABELS = {
    "started": pgettext_lazy("how a notification begins", "Problem"),
    "critical": pgettext_lazy("how a notification begins", "Now critical"),
    "resolved": pgettext_lazy("how a notification begins", "Resolved"),
}


def channel_names() -> list[str]:
    """Return the names of the configured channels. They contain no URL, which may be a secret."""
    settings = conf.settings().notifications
    return [
        *(f"webhook {number}" for number in range(1, len(settings.webhooks) + 1)),
        *(f"slack {number}" for number in range(1, len(settings.slack) + 1)),
        *(["e-mail"] if settings.emails else []),
    ]


def deliver(announcement: Announcement, channel: str) -> None:
    """Deliver an announcement by a channel. One that is no longer configured delivers nothing.

    Raises:
        Exception: whatever the mail backend or the web server's answer raises.
    """
    kind, _, number = channel.partition(" ")
    settings = conf.settings().notifications
    urls = {"webhook": settings.webhooks, "slack": settings.slack}.get(kind, ())
    if kind == "e-mail" and settings.emails:
        _send_mail(announcement)
    elif number.isdigit() and int(number) <= len(urls):
        body = {"text": _text(announcement)} if kind == "slack" else payload(announcement)
        _post(urls[int(number) - 1], body)


def error_text(error: BaseException) -> str:
    """Return the class and the text of a delivery's error in one line, masked and without URLs and passwords."""
    text = safe_text(error)
    for secret in _secrets():
        text = text.replace(secret, "…")
    text = one_line(error_line(_URL.sub("…", text)))
    return ": ".join(filter(None, [class_name(type(error)), text]))


def _secrets() -> list[str]:
    """Return what errors must not show: paths and queries of URLs, which have tokens, and the password of e-mail."""
    settings = conf.settings().notifications
    urls = [urlsplit(url) for url in (*settings.webhooks, *settings.slack)]
    parts = [part for url in urls for part in (url.path.rstrip("/"), url.query, url.password)]
    return [part for part in (*parts, *_mail_passwords()) if part]


def _mail_passwords() -> list[str]:
    """Return the passwords of e-mail: of `MAILERS`, and before Django 6.1 of `EMAIL_HOST_PASSWORD`.

    Whatever else these settings contain is skipped: they are the mail backend's, which says what is wrong with them.
    """
    mailers = _django_setting("MAILERS")
    options = [_item(mailer, "OPTIONS") for mailer in mailers.values()] if isinstance(mailers, Mapping) else []
    found = [_django_setting("EMAIL_HOST_PASSWORD"), *(_item(each, "password") for each in options)]
    return [str(password) for password in found if isinstance(password, str | Promise)]


def _django_setting(name: str) -> Any:
    """Return a setting, or None: Django 6.1 deprecates the one of the password, and has none beside `MAILERS`."""
    with contextlib.suppress(Exception, Warning):
        return getattr(django_settings, name, None)
    return None


def _item(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, Mapping) else None


def payload(announcement: Announcement) -> dict[str, Any]:
    """Return what webhooks get."""
    incident, settings = announcement.incident, conf.settings()
    return {
        "event": announcement.event,
        "id": incident.id,
        "code": incident.code,
        "severity": incident.severity,
        "text": incident.text,
        "advice": incident.advice,
        "command": incident.command,
        "queue": incident.queue,
        "started_at": _iso(incident.started_at),
        "resolved_at": _iso(incident.resolved_at),
        "environment": settings.dashboard.environment,
        "url": settings.notifications.link,
    }


def _send_mail(announcement: Announcement) -> None:
    settings = conf.settings().notifications
    subject = one_line(" ".join(_title(announcement).split()))[:200]  # sizes have spaces that break no line
    EmailMessage(subject, _text(announcement), to=list(settings.emails)).send()


def _title(announcement: Announcement) -> str:
    environment = conf.settings().dashboard.environment
    where = f"[{environment}] " if environment else ""
    separator = pgettext("between a label and its value", ": ")
    return f"{where}{LABELS[announcement.event]}{separator}{announcement.incident.text}"


def _text(announcement: Announcement) -> str:
    incident = announcement.incident
    started = _iso(incident.started_at)
    lines = [_title(announcement)]
    if incident.resolved_at is not None:
        lines.append(f"{started} – {_iso(incident.resolved_at)}")
    else:
        lines += [started or "", incident.advice, incident.command]
    return "\n".join(filter(None, [*lines, conf.settings().notifications.link]))


def _post(url: str, body: Mapping[str, Any]) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "django-redis-components"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method="POST")  # noqa: S310 - the setting accepts http(s) only
    with _OPEN(request, timeout=conf.settings().notifications.timeout_s) as response:
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise OSError(f"The server has answered with status {response.status}.")


def _iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect of a POST would send its content as a GET, or to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPEN: Callable[..., Any] = urllib.request.build_opener(_NoRedirect).open
