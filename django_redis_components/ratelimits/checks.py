"""What is wrong with the rate limits of the settings, said at start."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning

from django_redis_components.core import conf
from django_redis_components.ratelimits.limiter import Limiter
from django_redis_components.ratelimits.middleware import NAME, RateLimitMiddleware

#: The middleware, as `MIDDLEWARE` names it: by its module, or by the room.
PATHS = {
    f"{RateLimitMiddleware.__module__}.{RateLimitMiddleware.__qualname__}",
    f"{__package__}.{RateLimitMiddleware.__qualname__}",
}
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"


def check_middleware() -> list[CheckMessage]:
    """`RateLimitMiddleware` without rates (drc.W050), with wrong ones (drc.E052), or above the users (drc.E050)."""
    found = list(check_rates())
    middleware = list(django_settings.MIDDLEWARE)
    mine = [place for place, path in enumerate(middleware) if path in PATHS]
    if not mine:
        return found
    chosen = conf.settings().ratelimits
    if not chosen.rates:
        text = "RateLimitMiddleware is installed, and no rates are set: it limits nothing."
        hint = 'Set REDIS_COMPONENTS["RATELIMITS"]["RATES"], to ["100/m"] for example.'
        found.append(Warning(text, hint=hint, id="drc.W050"))
    if chosen.key != "ip" and AUTHENTICATION not in middleware[: mine[0]]:
        text = (
            f'REDIS_COMPONENTS["RATELIMITS"]["KEY"] = {chosen.key!r}, and RateLimitMiddleware does not know the user.'
        )
        hint = f'Move it below {AUTHENTICATION!r} in MIDDLEWARE, or set "KEY" to "ip".'
        found.append(Error(text, hint=hint, id="drc.E050"))
    return found


def check_rates() -> Iterator[CheckMessage]:
    """Rates that the algorithm cannot count, or that stand there twice (drc.E052)."""
    chosen = conf.settings().ratelimits
    if not chosen.rates:
        return
    try:
        Limiter(NAME, chosen.rates, chosen.algorithm, chosen.penalty, chosen.on_error, True, chosen.using)
    except (TypeError, ValueError) as exc:
        yield Error(f'REDIS_COMPONENTS["RATELIMITS"]: {exc}', id="drc.E052")
