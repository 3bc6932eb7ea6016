"""The sections of `REDIS_COMPONENTS` as data: names, defaults, and what each value may be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django_redis_components.core.names import MAX_NAME_BYTES, validate_name
from django_redis_components.core.rates import parse_rate
from django_redis_components.core.units import to_seconds

#: Returns None when the value is right, else what would have been accepted.
Check = Callable[[Any], str | None]
#: Turns a value that was checked into the type of its field.
Convert = Callable[[Any], Any]


def _option(default: Any, check: Check, convert: Convert | None = None, *, strict: Check | None = None) -> Any:
    """A field.

    Args:
        strict: what system checks ask for as well. A value that fails it breaks only what uses it, not the site.
    """
    metadata = {"check": check, "convert": convert, "strict": strict or (lambda _: None)}
    return dataclasses.field(default=default, metadata=metadata)


def _duration(default: float, *, zero: bool = False) -> Any:
    """A field in seconds. The site may write a timedelta; the field is always a float."""
    return _option(default, seconds(zero=zero), lambda value: to_seconds(value, "value", zero=zero))


def seconds(*, zero: bool = False) -> Check:
    """A duration in seconds (or a timedelta)."""

    def check(value: Any) -> str | None:
        try:
            to_seconds(value, "value", zero=zero)
        except (TypeError, ValueError):
            return f"a number of seconds {'of at least 0' if zero else 'above 0'} (ten years at most), or a timedelta"
        return None

    return check


def integer(low: int, high: int) -> Check:
    """A whole number within bounds."""

    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"

    return check


def one_of(*choices: str) -> Check:
    """One of a few words."""
    return lambda value: None if value in choices else "one of " + ", ".join(map(repr, choices))


def boolean(value: Any) -> str | None:
    """True or False."""
    return None if isinstance(value, bool) else "True or False"


def text(value: Any) -> str | None:
    """A string that is not empty."""
    return None if isinstance(value, str) and value else "a string that is not empty"


def name(value: Any) -> str | None:
    """A name that becomes part of keys."""
    problem = text(value)
    if problem is None:
        try:
            validate_name(value)
        except ValueError:
            problem = f"1 to {MAX_NAME_BYTES} bytes of text without braces and control characters"
    return problem


def line(value: Any) -> str | None:
    """A short text for people."""
    fits = isinstance(value, str) and len(value) <= 100 and value.isprintable()
    return text(value) or (None if fits else "at most 100 printable characters")


def optional(check: Check) -> Check:
    """None, or what `check` accepts."""

    def both(value: Any) -> str | None:
        problem = None if value is None else check(value)
        return f"None or {problem}" if problem else None

    return both


def strings(value: Any) -> str | None:
    """A list or tuple of strings."""
    fits = isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
    return None if fits else "a list of strings"


def names(value: Any) -> str | None:
    """A list or tuple of names."""
    problem = strings(value)
    if problem is None and not value:
        problem = "a list of at least one name"
    return problem or next((f"a list of names, each {wrong}" for wrong in map(name, value) if wrong), None)


def paths(value: Any) -> str | None:
    """A list or tuple of beginnings of paths."""
    fits = strings(value) is None and all(path.startswith("/") for path in value)
    return strings(value) or (None if fits else "a list of paths, each beginning with '/'")


def rates(value: Any) -> str | None:
    """Up to eight rates."""
    try:
        fits = isinstance(value, list | tuple) and len([parse_rate(rate) for rate in value]) <= 8
    except (TypeError, ValueError):
        fits = False
    return None if fits else "a list of up to eight rates, such as '10/s', '100/m', '3/2h', or (count, seconds)"


def penalty(value: Any) -> str | None:
    """Denials and seconds."""
    fits = isinstance(value, list | tuple) and len(value) == 2 and not integer(1, 10_000)(value[0])
    return None if fits and not seconds()(value[1]) else "(denials, seconds), such as (20, 600)"


def prefix(value: Any) -> str | None:
    """A key prefix: short, and without what has a meaning in keys."""
    fits = isinstance(value, str) and 0 < len(value) <= 64 and value.isprintable() and not set(value) & set("{} ")
    return None if fits else "1 to 64 printable characters without spaces and braces"


@dataclasses.dataclass(frozen=True)
class ConnectionSettings:
    """One entry of `CONNECTIONS`: a cache alias or a URL, and how patient its clients are."""

    #: What an entry is, for the error about one that is something else.
    EXPECTED: ClassVar[str] = 'a dict, such as {"URL": "redis://127.0.0.1:6379/1"}'

    #: Alias in `CACHES` whose server is used (a django-redis cache).
    cache: str | None = _option(None, optional(text))
    #: redis://, rediss://, unix://, redis+sentinel://h:p,h:p/service/db or redis+cluster://h:p,h:p
    url: str | None = _option(None, optional(text))
    #: Seconds until a reply is given up. Blocking waits are cut into slices below it.
    socket_timeout_s: float = _duration(5.0)
    #: Seconds until an attempt to connect is given up.
    connect_timeout_s: float = _duration(2.0)
    #: How often what is safe to repeat is sent again after a lost connection.
    retries: int = _option(3, integer(0, 20))
    #: Seconds that a request waits while the Cluster slot of its keys is being moved to another node.
    slot_migration_timeout_s: float = _duration(60.0, zero=True)

    def problem(self) -> str | None:
        """What is wrong with the entry as a whole, or None."""
        if (self.cache is None) == (self.url is None):
            return 'expected either "CACHE" (an alias in CACHES) or "URL", and not both'
        return None


@dataclasses.dataclass(frozen=True)
class TaskQueueSettings:
    """`REDIS_COMPONENTS["TASKQUEUE"]`."""

    #: Seconds that a lease of a running task lives without renewal; a dead worker is noticed then.
    lease_s: float = _duration(15.0)
    #: Names of the queues that tasks may be sent to; None accepts any valid name.
    queues: tuple[str, ...] | None = _option(None, optional(strings), tuple, strict=optional(names))
    #: Whether `enqueue` waits for the commit of the surrounding transaction.
    enqueue_on_commit: bool = _option(False, boolean)
    #: Seconds for which failed tasks are kept for inspection and retry.
    failed_ttl_s: float = _duration(7 * 86_400.0)
    #: How many failed tasks a queue keeps; the oldest go first. Unregistered ones are kept until somebody decides.
    failed_limit: int = _option(10_000, integer(1, 10_000_000))
    #: Seconds that SIGTERM gives running tasks to finish before they go back to the queue.
    grace_s: float = _duration(25.0, zero=True)
    #: Seconds between the soft time limit of a task that names only this one, and the hard limit.
    timeout_grace_s: float = _duration(10.0)
    #: Seconds that a running task that is cancelled has to end by itself, before its process is ended.
    cancel_grace_s: float = _duration(10.0, zero=True)
    #: The largest body of one task (arguments as JSON), in bytes.
    max_body_bytes: int = _option(8 * 1024 * 1024, integer(1_024, 512 * 1024 * 1024))
    #: The largest return value of one task (as JSON), in bytes. A server closes the connection on a longer string than
    #: its proto-max-bulk-len, which looks like an outage; no server can be set to less than this default.
    max_result_bytes: int = _option(1024 * 1024, integer(1_024, 512 * 1024 * 1024))
    #: The longest traceback that is kept with a failed run, in bytes; the message gets a tenth. Longer ones are cut.
    max_error_bytes: int = _option(20_000, integer(1_000, 1024 * 1024))


@dataclasses.dataclass(frozen=True)
class AutocompleteSettings:
    """`REDIS_COMPONENTS["AUTOCOMPLETE"]`."""

    #: Suggestions in one answer of the JSON view.
    limit: int = _option(10, integer(1, 100))
    #: Characters before the JSON view is asked.
    min_length: int = _option(1, integer(0, 20))


@dataclasses.dataclass(frozen=True)
class AnalyticsSettings:
    """`REDIS_COMPONENTS["ANALYTICS"]`."""

    #: Seconds that daily counters and visitors live, counted from each write.
    ttl_s: float = _duration(400 * 86_400.0)
    #: The connection of what counts by itself: the middleware, and sign-in on login.
    using: str = _option("default", text)
    #: Seconds that counting by itself may keep a page or a login waiting; what takes longer is not counted.
    timeout_s: float = _duration(0.25)
    #: The site whose page views, visitors and logins are counted.
    site: str = _option("default", text, strict=name)
    #: Who is one visitor: the signed-in user, a first-party cookie, or a salted hash of address and browser.
    visitor_identity: str = _option("hash", one_of("user", "cookie", "hash"))
    #: Paths that the middleware does not count, as prefixes.
    exclude_paths: tuple[str, ...] = _option((), strings, tuple, strict=paths)
    #: Parts of a User-Agent, in any case, whose requests the middleware does not count.
    ignore_agents: tuple[str, ...] = _option(
        ("bot", "crawl", "spider", "slurp", "facebookexternalhit", "curl/", "wget/", "python-", "go-http-client"),
        strings,
        tuple,
    )
    #: Number of trusted proxies, where analytics shall count otherwise than `TRUSTED_PROXIES`; None: as there.
    trusted_proxies: int | None = _option(None, optional(integer(0, 10)))
    #: Whether logging in counts as the day's sign-in.
    sign_in_on_login: bool = _option(True, boolean)
    #: Different pages counted by name in a day; further ones count under ``__other__``.
    max_pages_per_day: int = _option(10_000, integer(1, 1_000_000))
    #: Largest user id that may be a bit's offset; a larger one would make the server allocate that much.
    max_user_id: int = _option(10_000_000, integer(1, 2**32 - 1))


@dataclasses.dataclass(frozen=True)
class RateLimitsSettings:
    """`REDIS_COMPONENTS["RATELIMITS"]`: what `RateLimitMiddleware` does."""

    #: How many requests each visitor may make.
    rates: tuple[Any, ...] = _option((), rates, tuple)
    #: Who is one visitor: an address, a signed-in user, or the user if there is one and else the address.
    key: str = _option("ip", one_of("ip", "user", "user_or_ip"))
    #: How it is counted.
    algorithm: str = _option("gcra", one_of("gcra", "sliding", "fixed"))
    #: So many denials within so many seconds block for as long.
    penalty: tuple[int, Any] | None = _option(None, optional(penalty), tuple)
    #: What happens to requests while Redis is away.
    on_error: str = _option("open", one_of("open", "closed"))
    #: Seconds until a hit of any limit that fails open goes on without an answer.
    timeout_s: float = _duration(0.5)
    #: Paths that are not limited, as prefixes.
    exclude_paths: tuple[str, ...] = _option((), strings, tuple, strict=paths)
    #: Our connection alias.
    using: str = _option("default", text)


@dataclasses.dataclass(frozen=True)
class DashboardSettings:
    """`REDIS_COMPONENTS["DASHBOARD"]`."""

    #: Whether the dashboard registers itself with the default admin site.
    autoregister: bool = _option(True, boolean)
    #: The connection whose queue is shown.
    using: str = _option("default", text)
    #: Name of this environment, shown on each page.
    environment: str | None = _option(None, optional(text), strict=optional(line))
    #: Name of the visitors that are shown; None: the site of ``ANALYTICS``.
    visitors: str | None = _option(None, optional(text), strict=optional(name))
    #: Name of the sign-ins that are shown; None: the site of ``ANALYTICS``.
    sign_ins: str | None = _option(None, optional(text), strict=optional(name))
    #: Seconds that a task may wait before its queue counts as late.
    late_after_s: float = _duration(300.0)


@dataclasses.dataclass(frozen=True)
class Settings:
    """`REDIS_COMPONENTS` as a whole."""

    #: First part of every key.
    prefix: str = _option("drc", prefix)
    #: Number of trusted proxies in front of the site; a visitor's address is read that far from the right.
    trusted_proxies: int = _option(0, integer(0, 10))
    #: Our connection aliases.
    connections: Mapping[str, ConnectionSettings] = dataclasses.field(
        default_factory=lambda: {"default": ConnectionSettings(cache="default")},
        metadata={"table": ConnectionSettings},
    )
    taskqueue: TaskQueueSettings = dataclasses.field(
        default_factory=TaskQueueSettings, metadata={"section": TaskQueueSettings}
    )
    autocomplete: AutocompleteSettings = dataclasses.field(
        default_factory=AutocompleteSettings, metadata={"section": AutocompleteSettings}
    )
    analytics: AnalyticsSettings = dataclasses.field(
        default_factory=AnalyticsSettings, metadata={"section": AnalyticsSettings}
    )
    ratelimits: RateLimitsSettings = dataclasses.field(
        default_factory=RateLimitsSettings, metadata={"section": RateLimitsSettings}
    )
    dashboard: DashboardSettings = dataclasses.field(
        default_factory=DashboardSettings, metadata={"section": DashboardSettings}
    )
