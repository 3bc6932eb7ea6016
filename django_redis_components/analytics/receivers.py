"""Signing in by logging in."""

from __future__ import annotations

from typing import Any

from django_redis_components.analytics.guard import GUARD
from django_redis_components.analytics.signins import SignIns
from django_redis_components.core import conf


def connect() -> None:
    """Have each login counted as its user's sign-in of the day. Called once, when the apps are ready."""
    from django.contrib.auth.signals import user_logged_in

    user_logged_in.connect(count_sign_in, dispatch_uid="django_redis_components.analytics.sign_in")


def count_sign_in(*, user: Any, **_: Any) -> None:
    """Receiver of ``user_logged_in``. A login never fails on it, nor waits again and again for a Redis that is away.

    Django runs it in a thread when the login is asynchronous (``alogin``), so it uses the synchronous door.
    """
    analytics = conf.settings().analytics
    if analytics.sign_in_on_login and GUARD.open():
        with GUARD.attempt("sign-ins"):
            SignIns(analytics.site, using=analytics.using).sign_in(user.pk)
