"""System checks of the rate limit settings."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning

from django_redis_components.core.names import dotted_path
from django_redis_components.core.settings import conf
from django_redis_components.ratelimits.limiter import Limiter
from django_redis_components.ratelimits.middleware import NAME, RateLimitMiddleware

#: Import paths of the middleware that `MIDDLEWARE` may use.
PATHS = {
    dotted_path(RateLimitMiddleware),
    f"{__package__}.{RateLimitMiddleware.__qualname__}",
}
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"


def check_middleware() -> list[CheckMessage]:
    """Report a middleware without rates (drc.W050), with invalid ones (drc.E052), or above the users (drc.E050)."""
    messages = list(check_rates())
    middleware = list(settings.MIDDLEWARE)
    positions = [position for position, path in enumerate(middleware) if path in PATHS]
    if not positions:
        return messages
    options = conf.settings().ratelimits
    if not options.rates:
        problem = "RateLimitMiddleware is installed without rates: it limits nothing."
        hint = 'Set REDIS_COMPONENTS["RATELIMITS"]["RATES"], for example to ["100/m"].'
        messages.append(Warning(problem, hint=hint, id="drc.W050"))
    if options.key != "ip" and AUTHENTICATION not in middleware[: positions[0]]:
        problem = (
            f'REDIS_COMPONENTS["RATELIMITS"]["KEY"] = {options.key!r} needs the user, '
            "but RateLimitMiddleware runs before authentication."
        )
        hint = f'Move it below {AUTHENTICATION!r} in MIDDLEWARE, or set "KEY" to "ip".'
        messages.append(Error(problem, hint=hint, id="drc.E050"))
    return messages


def check_rates() -> Iterator[CheckMessage]:
    """Report rates that the algorithm does not accept, and duplicates (drc.E052)."""
    options = conf.settings().ratelimits
    if not options.rates:
        return
    try:
        Limiter(
            NAME,
            options.rates,
            algorithm=options.algorithm,
            penalty=options.penalty,
            on_error=options.on_error,
            deny_cache=True,
            using=options.using,
        )
    except (TypeError, ValueError) as exc:
        yield Error(f'REDIS_COMPONENTS["RATELIMITS"]: {exc}', id="drc.E052")
