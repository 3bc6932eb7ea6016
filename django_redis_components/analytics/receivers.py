"""The receiver that counts logins as sign-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_redis_components.analytics import identity
from django_redis_components.analytics.safeguard import SAFEGUARD
from django_redis_components.analytics.signins import SignIns, sign_in_flow
from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run

if TYPE_CHECKING:
    from django.http import HttpRequest


def count_sign_in(*, user: Any, request: HttpRequest | None = None, **_: Any) -> None:
    """Count a sign-in, unless the visitor has opted out. Called for ``user_logged_in``; it never fails a login.

    ``DNT`` and ``Sec-GPC`` do not prevent it: the account identifies the user already.

    Django runs it in a thread for ``alogin``, so it uses the sync client. Keys of users that are not integers are
    mapped.
    """
    if SAFEGUARD.should_count("sign-ins", lambda: conf.settings().analytics.sign_in_on_login):
        with SAFEGUARD.suppress_errors("sign-ins"):
            if request is not None and identity.is_excluded(request):
                return
            analytics = conf.settings().analytics
            client = connections.client_with_timeout(analytics.using, analytics.timeout_s, retries=0)
            sign_ins = SignIns(analytics.site, mapped=not isinstance(user.pk, int))
            run(client, sign_in_flow(sign_ins, user.pk))
