"""The receiver that counts logins as sign-ins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from django_redis_components.analytics import identity
from django_redis_components.analytics.dates import local_date
from django_redis_components.analytics.missed_sign_ins import MISSED, SignIn
from django_redis_components.analytics.safeguard import SAFEGUARD
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf

if TYPE_CHECKING:
    from django.http import HttpRequest


def count_sign_in(*, user: Any, request: HttpRequest | None = None, **_: Any) -> None:
    """Count a sign-in, unless the visitor has opted out. Called for ``user_logged_in``; it never fails a login.

    While Redis is slow or unavailable, the sign-in is kept in the process and counted later.

    ``DNT`` and ``Sec-GPC`` do not prevent it: the account identifies the user already.

    Django runs it in a thread for ``alogin``, so it uses the sync client. Keys of users that are not integers are
    mapped.
    """
    sign_in = None
    with SAFEGUARD.log_errors("sign-ins"):
        analytics = conf.settings().analytics
        if analytics.sign_in_on_login and not (request is not None and identity.is_excluded(request)):
            sign_in = SignIn(analytics.using, analytics.site, user.pk, local_date())
    if sign_in is None:
        return
    if not SAFEGUARD.allows_attempt():
        MISSED.record(sign_in)
        return
    with SAFEGUARD.suppress_errors("sign-ins"):
        client = connections.client_with_timeout(analytics.using, analytics.timeout_s, retries=0)
        try:
            run(client, sign_in.flow())
        except RedisError:
            MISSED.record(sign_in)
            raise
