"""Signing in by logging in."""

from __future__ import annotations

from typing import Any

from django_redis_components.analytics.safeguard import GUARD
from django_redis_components.analytics.signins import SignIns
from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run


def connect() -> None:
    """Have each login counted as its user's sign-in of the day. Called once, when the apps are ready."""
    from django.contrib.auth.signals import user_logged_in

    user_logged_in.connect(count_sign_in, dispatch_uid="django_redis_components.analytics.sign_in")


def count_sign_in(*, user: Any, **_: Any) -> None:
    """Receiver of ``user_logged_in``. A login never fails on it, nor waits again and again for a Redis that is away.

    Django runs it in a thread when the login is asynchronous (``alogin``), so it uses the synchronous door.
    """
    if GUARD.wants("sign-ins", lambda: conf.settings().analytics.sign_in_on_login):
        with GUARD.attempt("sign-ins"):
            analytics = conf.settings().analytics
            client = connections.client_with_timeout(analytics.using, analytics.timeout_s, retries=0)
            run(client, SignIns(analytics.site).sign_in_flow(user.pk))
