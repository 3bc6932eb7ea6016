"""The sections of `REDIS_COMPONENTS`: keys, defaults and validation."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

from django_redis_components.core.settings.checks import (
    Check,
    boolean,
    emails,
    fernet_keys,
    http_url,
    http_urls,
    integer,
    line,
    mapping,
    name,
    number,
    one_of,
    optional,
    path,
    paths,
    penalty,
    prefix,
    queue_names,
    queues,
    rates,
    routes,
    seconds,
    shards,
    strings,
    text,
    token,
)
from django_redis_components.core.settings.secrets import Secret
from django_redis_components.core.units import to_seconds

#: Converts a valid value to the type of its field.
Convert = Callable[[Any], Any]


def _option(default: Any, check: Check, convert: Convert | None = None, *, strict: Check | None = None) -> Any:
    """Return a field.

    Args:
        strict: a further check, for the system checks only: a value that fails it affects only the code that uses it.
    """
    metadata = {"check": check, "convert": convert, "strict": strict or (lambda _: None)}
    return dataclasses.field(default=default, metadata=metadata)


def _secret(check: Check) -> Any:
    """Return an optional field whose value neither errors nor `repr` show."""
    metadata = {"check": optional(check), "convert": Secret, "strict": lambda _: None, "is_secret": True}
    return dataclasses.field(default=None, metadata=metadata, repr=False)


def _secrets(check: Check) -> Any:
    """Return a field for a list of texts that neither errors nor `repr` show; empty by default."""
    metadata = {"check": check, "convert": _as_secrets, "strict": lambda _: None, "is_secret": True}
    return dataclasses.field(default=(), metadata=metadata, repr=False)


#: The shards that new tasks of a queue go to: one or several, by name; None: the first one of the site.
Route = str | tuple[str, ...] | None


def _as_routes(value: Any) -> dict[str, Route]:
    if not isinstance(value, Mapping):
        return dict.fromkeys(value)
    return {queue: tuple(route) if isinstance(route, list | tuple) else route for queue, route in value.items()}


def _as_secrets(values: Any) -> tuple[Secret, ...]:
    return tuple(map(Secret, values))


def _as_alias(value: str) -> str:
    """Return the alias of a cache. A URL in its place, which an error will name, may have a password."""
    return Secret(value) if "://" in value or "@" in value else value


def _duration(default: float, *, zero: bool = False) -> Any:
    """Return a field in seconds. The setting may be a timedelta; the field is always a float."""
    return _option(default, seconds(zero=zero), lambda value: to_seconds(value, "value", zero=zero))


@dataclasses.dataclass(frozen=True)
class ConnectionSettings:
    """One entry of `CONNECTIONS`: a cache alias or a URL, with timeouts and retries."""

    #: What an entry must be, for the error message.
    EXPECTED: ClassVar[str] = 'a dict, such as {"URL": "redis://127.0.0.1:6379/1"}'

    #: Alias of a django-redis cache in `CACHES`, whose server is used.
    cache: str | None = _option(None, optional(text), _as_alias)
    #: redis://, rediss://, unix://, redis+sentinel://h:p,h:p/service/db or redis+cluster://h:p,h:p
    url: str | None = _secret(text)
    #: User name for the server, instead of that in the URL.
    username: str | None = _option(None, optional(text))
    #: Password for the server, instead of that in the URL: Django's error reports hide keys with this name, and print
    #: "URL".
    password: str | None = _secret(text)
    #: User name for the Sentinels of a redis+sentinel:// URL.
    sentinel_username: str | None = _option(None, optional(text))
    #: Password for the Sentinels of a redis+sentinel:// URL.
    sentinel_password: str | None = _secret(text)
    #: Timeout of a reply, in seconds. Blocking commands use a shorter one and are repeated.
    socket_timeout_s: float = _duration(5.0)
    #: Timeout of an attempt to connect, in seconds.
    connect_timeout_s: float = _duration(2.0)
    #: Longest wait for what a page can do without, in seconds: suggestions, searches, unread counts, cached values, and
    #: the indexes of a saved object.
    page_timeout_s: float = _duration(1.0)
    #: Retries of an idempotent request after a lost connection.
    retries: int = _option(3, integer(0, 20))
    #: Longest wait of a request for a Cluster slot that is being moved to another node, in seconds.
    slot_migration_timeout_s: float = _duration(60.0, zero=True)

    def problem(self) -> str | None:
        """Return the error of the entry as a whole, or None."""
        if (self.cache is None) == (self.url is None):
            return 'expected either "CACHE" (an alias in CACHES) or "URL", and not both'
        if self.cache is not None and self.login_options():
            return '"USERNAME" and "PASSWORD" belong to "URL"; those of a cache stand in CACHES'
        return None

    def login_options(self) -> dict[str, str]:
        """Return user names and passwords that are keys of their own, by their names in the query of a URL."""
        names = ("username", "password", "sentinel_username", "sentinel_password")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclasses.dataclass(frozen=True)
class TaskQueueSettings:
    """`REDIS_COMPONENTS["TASKQUEUE"]`."""

    #: Lease of a running task, in seconds. After this time without renewal the worker counts as dead.
    lease_s: float = _duration(15.0)
    #: Names of the queues that tasks may be sent to; None: any valid name. A dict also names the shard of each queue,
    #: or a list of those that the queue is spread over; None: the first one.
    queues: Mapping[str, Route] | None = _option(None, optional(queues), _as_routes, strict=optional(queue_names))
    #: Where the site's queue keeps its tasks: names of shards, which are hash tags, and the connection of each. New
    #: tasks go to the first one, unless `QUEUES` names another. None: one shard, {"default": "default"}.
    shards: Mapping[str, str] | None = _option(None, optional(shards), dict)
    #: Whether `enqueue` waits for the commit of the surrounding transaction.
    enqueue_on_commit: bool = _option(False, boolean)
    #: Whether tasks that wait for a commit are stored in the database until they are sent: no outage of Redis and no
    #: crash of the process loses them. The app `contrib.outbox` must be installed. A task's option `outbox` takes
    #: precedence.
    outbox: bool = _option(False, boolean)
    #: Seconds for which failed tasks are kept for inspection and retry.
    failed_ttl_s: float = _duration(7 * 86_400.0)
    #: How many failed tasks a queue keeps; the oldest go first. Unregistered ones are always kept.
    failed_limit: int = _option(10_000, integer(1, 10_000_000))
    #: How many successful tasks a queue lists, the newest ones, and as many cancelled and expired ones; 0: none.
    keep_finished: int = _option(1_000, integer(0, 100_000))
    #: Seconds for which finished tasks are listed. Their results are kept for the tasks' own `result_ttl`.
    finished_ttl_s: float = _duration(86_400.0)
    #: Version of the site's code that workers report; None: the commit of the git repository of the settings module.
    version: str | None = _option(None, optional(text), strict=optional(line))
    #: Seconds that running tasks may take to finish after SIGTERM; then they are returned to the queue.
    grace_s: float = _duration(25.0, zero=True)
    #: Seconds between the soft and the hard time limit of a task that sets only the soft one.
    timeout_grace_s: float = _duration(10.0)
    #: Seconds that a cancelled running task may take to end; then its process is killed.
    cancel_grace_s: float = _duration(10.0, zero=True)
    #: Whether a worker process is restarted after it has interrupted a task in a thread (a soft time limit, `cancel`).
    #: An interruption may leave a lock of a library taken. False: the site has made its tasks safe.
    restart_interrupted: bool = _option(True, boolean)
    #: Whether a task records which task, request or command has enqueued it. It costs 2 to 4 us and 32 bytes for each.
    record_origin: bool = _option(False, boolean)
    #: Whether it records the primary key of the request's user, too.
    record_user: bool = _option(False, boolean)
    #: Dotted path of a JSON codec for further types, such as
    #: "django_redis_components.taskqueue.json_codec.ExtendedJSON"; None: plain JSON only.
    json_codec: str | None = _option(None, optional(text))
    #: Dotted paths of subclasses of `taskqueue.Middleware`, the outermost first.
    middleware: tuple[str, ...] = _option((), strings, tuple)
    #: Options of all tasks whose decorator does not set them, by their names in `@task`.
    defaults: Mapping[str, Any] | None = _option(None, optional(mapping))
    #: Queues of tasks whose decorator sets none: a dict of names or patterns ("shop.tasks.*") to queues, of which the
    #: first that matches counts; or a function of the name, or its dotted path.
    routes: object = _option(None, optional(routes))
    #: Keys that seal the arguments of tasks, as `Fernet.generate_key()` of cryptography returns them, as text. The
    #: first one seals, all open.
    seal_keys: tuple[str, ...] = _secrets(fernet_keys)
    #: The largest body of a task (its arguments as JSON), in bytes.
    max_body_bytes: int = _option(8 * 1024 * 1024, integer(1_024, 512 * 1024 * 1024))
    #: The largest return value of a task (as JSON), in bytes. A server closes the connection when a string is longer
    #: than its proto-max-bulk-len, which looks like an outage. The default is the lowest value of that option.
    max_result_bytes: int = _option(1024 * 1024, integer(1_024, 512 * 1024 * 1024))
    #: The longest traceback stored with a failed run, in bytes. Longer ones are truncated; the message gets a tenth.
    max_error_bytes: int = _option(20_000, integer(1_000, 1024 * 1024))


@dataclasses.dataclass(frozen=True)
class AutocompleteSettings:
    """`REDIS_COMPONENTS["AUTOCOMPLETE"]`."""

    #: Suggestions per response of the JSON view.
    limit: int = _option(10, integer(1, 100))
    #: Characters typed before the first request to the JSON view.
    min_length: int = _option(1, integer(0, 20))
    #: Seconds for which a page with the signed scope of a widget may stay open.
    scope_max_age_s: float = _duration(7 * 86_400.0)


@dataclasses.dataclass(frozen=True)
class AnalyticsSettings:
    """`REDIS_COMPONENTS["ANALYTICS"]`."""

    #: TTL of daily counters and visitors in seconds, from the last write.
    ttl_s: float = _duration(400 * 86_400.0)
    #: The connection of the middleware and of the sign-in on login.
    using: str = _option("default", text)
    #: Longest delay of a login by counting its sign-in, and timeout of a transfer of page views, in seconds.
    timeout_s: float = _duration(0.25)
    #: The site whose page views, visitors and logins are counted.
    site: str = _option("default", text, strict=name)
    #: How visitors are identified: the signed-in user, a first-party cookie, or a hash of address and browser with a
    #: salt that changes each day ("hash" and "hash:day"), week or month.
    visitor_identity: str = _option("hash", one_of("user", "cookie", "hash", "hash:day", "hash:week", "hash:month"))
    #: Dotted path of a function that returns the country of an address, such as
    #: "django_redis_components.geoip.country_of"; None: countries are not counted.
    country: str | None = _option(None, optional(text))
    #: Path prefixes that the middleware does not count.
    exclude_paths: tuple[str, ...] = _option((), strings, tuple, strict=paths)
    #: Parts of further User-Agents that the middleware does not count as visitors, case-insensitive. Those of crawlers,
    #: probes, link previews and HTTP libraries are not counted by default.
    exclude_agents: tuple[str, ...] = _option((), strings, tuple)
    #: Parts of User-Agents that the middleware counts in any case, case-insensitive.
    count_agents: tuple[str, ...] = _option((), strings, tuple)
    #: Number of trusted proxies for analytics; None: `TRUSTED_PROXIES`.
    trusted_proxies: int | None = _option(None, optional(integer(0, 10)))
    #: Whether a login counts as the day's sign-in.
    sign_in_on_login: bool = _option(True, boolean)
    #: Most pages counted by path in a day, a week or a month; further ones are counted as ``__other__``.
    max_pages_per_day: int = _option(10_000, integer(1, 1_000_000))
    #: Most pages whose unique visitors are counted in a day, with up to 12 KB for each.
    visitor_pages_per_day: int = _option(100, integer(0, 100_000))
    #: Largest user id used as a bit offset. The server allocates memory up to the offset.
    max_user_id: int = _option(10_000_000, integer(1, 2**32 - 1))


@dataclasses.dataclass(frozen=True)
class AggregationSettings:
    """`REDIS_COMPONENTS["AGGREGATION"]`."""

    #: TTL of daily counts and of the marks of counted files in seconds, from the last write.
    ttl_s: float = _duration(400 * 86_400.0)


@dataclasses.dataclass(frozen=True)
class GeoIpSettings:
    """`REDIS_COMPONENTS["GEOIP"]`."""

    #: Path of a database file of places (``.mmdb``); None: the ranges that `manage.py load_ip_ranges` has loaded.
    mmdb: str | None = _option(None, optional(path), os.fspath)
    #: The connection of the ranges that `country_of` reads.
    using: str = _option("default", text)


@dataclasses.dataclass(frozen=True)
class RateLimitsSettings:
    """`REDIS_COMPONENTS["RATELIMITS"]`: the options of `RateLimitMiddleware`."""

    #: Limits of requests per visitor.
    rates: tuple[Any, ...] = _option((), rates, tuple)
    #: How visitors are identified: by address, by signed-in user, or by user if signed in and else by address.
    key: str = _option("ip", one_of("ip", "user", "user_or_ip"))
    #: The counting algorithm.
    algorithm: Literal["gcra", "sliding", "fixed"] = _option("gcra", one_of("gcra", "sliding", "fixed"))
    #: (denials, seconds): a visitor with this many denials within this time is blocked for the same time.
    penalty: tuple[int, Any] | None = _option(None, optional(penalty), tuple)
    #: Whether requests are allowed ("open") or denied ("closed") while Redis is unavailable.
    on_error: Literal["open", "closed"] = _option("open", one_of("open", "closed"))
    #: Timeout of a hit of a limit that fails open, in seconds.
    timeout_s: float = _duration(0.5)
    #: Path prefixes that are not limited.
    exclude_paths: tuple[str, ...] = _option((), strings, tuple, strict=paths)
    #: The connection alias.
    using: str = _option("default", text)
    #: Whether allowed and denied hits are counted for the dashboard: one round trip a second in each process with hits.
    count_hits: bool = _option(True, boolean)
    #: How the keys that are denied most are stored for the dashboard: as a hash, or as text.
    denied_keys: str = _option("hash", one_of("hash", "text"))


@dataclasses.dataclass(frozen=True)
class MessagingSettings:
    """`REDIS_COMPONENTS["MESSAGING"]`: limits of one member in the views of chats."""

    #: Limits of the messages that a member sends by the views, to all chats together; (): none.
    send_rates: tuple[Any, ...] = _option(("60/m",), rates, tuple)
    #: Event streams and async long polls of one user that are open in a process at the same time.
    max_streams: int = _option(20, integer(1, 1_000))
    #: Long polls of one user that are open in a process at the same time under WSGI, where each occupies a thread, also
    #: after its page was left, until its time ends.
    max_long_polls: int = _option(10, integer(1, 1_000))


@dataclasses.dataclass(frozen=True)
class DashboardSettings:
    """`REDIS_COMPONENTS["DASHBOARD"]`."""

    #: Whether the dashboard is registered with the default admin site.
    autoregister: bool = _option(True, boolean)
    #: The connection of the queue that is shown.
    using: str = _option("default", text)
    #: Name of the environment, shown on each page.
    environment: str | None = _option(None, optional(text), strict=optional(line))
    #: Name of the visitors that are shown; None: the site of ``ANALYTICS``.
    visitors: str | None = _option(None, optional(text), strict=optional(name))
    #: Name of the sign-ins that are shown; None: the site of ``ANALYTICS``.
    sign_ins: str | None = _option(None, optional(text), strict=optional(name))
    #: Seconds after which a waiting task makes its queue late.
    late_after_s: float = _duration(300.0)
    #: Share of failed among finished tasks of an hour that is a problem. Occasional failures of other services stay
    #: below 5 %; at twice this share the problem is critical.
    failure_rate: float = _option(0.05, number(0.0, 1.0), float)
    #: Retries per finished task in an hour that are a retry storm. Above 1 most runs are wasted.
    retry_rate: float = _option(1.0, number(0.0, 1_000.0), float)
    #: Age of the oldest task from which a queue may be growing, in seconds. Shorter bursts drain by themselves.
    growing_after_s: float = _duration(60.0, zero=True)
    #: Leases lost in an hour that are a problem. A worker that is killed once loses up to one per thread, 8 by default.
    lost_leases: int = _option(10, integer(1, 1_000_000))
    #: Duration after which the pause of a queue with tasks is critical, in seconds. A planned pause ends within 1 h.
    paused_after_s: float = _duration(3_600.0)
    #: Share of maxmemory that is a problem. At 100 % the server rejects new tasks, or evicts keys.
    memory_share: float = _option(0.8, number(0.01, 1.0), float)
    #: Seconds for which a restart of the server is reported: long enough for the on-call person to see its cause.
    restarted_within_s: float = _duration(600.0, zero=True)
    #: Age of the last snapshot that is a problem without an append-only file, in seconds. Redis's own default saves
    #: each change within an hour.
    snapshot_age_s: float = _duration(2 * 3_600.0)
    #: Difference between the clocks of the site and the server that is a problem, in seconds. Due times given as a
    #: datetime are compared with the server's clock.
    clock_offset_s: float = _duration(1.0)
    #: Seconds without an acknowledgment of a replica that are a problem. A replica acknowledges each second.
    replica_lag_s: float = _duration(10.0)
    #: Dotted path of a function that returns the message or the traceback of an error as it may be shown, such as
    #: "shop.privacy.mask_error"; None: as it is.
    mask_error: str | None = _option(None, optional(text))
    #: Dotted path of a function that returns the names of users and chats for their ids, such as "shop.people.names":
    #: ``names(kind, ids)`` gets "user" or "chat" and a list of texts, and returns a mapping; None: ids are shown.
    names: str | None = _option(None, optional(text))
    #: Whether the dashboard refuses all changes.
    read_only: bool = _option(False, boolean)
    #: Whether the worker processes and pollers of a connection watch it: one of them makes the checks that read more
    #: than a page may, remembers since when each problem lasts, and sends notifications.
    watch: bool = _option(True, boolean)


@dataclasses.dataclass(frozen=True)
class NotificationsSettings:
    """`REDIS_COMPONENTS["NOTIFICATIONS"]`: recipients of a message when a problem begins, becomes critical and ends."""

    #: URLs that get a POST with JSON for each of these events.
    webhooks: tuple[str, ...] = _secrets(http_urls)
    #: Incoming webhooks of Slack, Mattermost, Rocket.Chat or another service that accepts ``{"text": …}``.
    slack: tuple[str, ...] = _secrets(http_urls)
    #: E-mail addresses; the mails are sent with Django's settings, from ``DEFAULT_FROM_EMAIL``.
    emails: tuple[str, ...] = _option((), emails, tuple)
    #: The least severity that is announced. A warning is announced after a minute, a critical problem at once. Hung
    #: tasks, growing queues, lock waiters and floods are warnings: with "critical" they are not announced.
    severity: str = _option("warning", one_of("critical", "warning"))
    #: URL of the overview, which the announcements contain; None: they have no link.
    link: str | None = _option(None, optional(http_url))
    #: Seconds that a delivery may take, at most 60; then it is repeated.
    timeout_s: float = _duration(10.0)


@dataclasses.dataclass(frozen=True)
class MonitoringSettings:
    """`REDIS_COMPONENTS["MONITORING"]`: access to the views ``metrics`` and ``healthz``, which are 404 without it."""

    #: Bearer token that requests must send; None: no token is accepted.
    token: str | None = _secret(token)
    #: Whether requests without a token are answered too. ``healthz`` then names the problems and no queues or hosts.
    public: bool = _option(False, boolean)


@dataclasses.dataclass(frozen=True)
class Settings:
    """All of `REDIS_COMPONENTS`."""

    #: First part of every key.
    prefix: str = _option("drc", prefix)
    #: Number of trusted proxies in front of the site: how far from the right the address is read in X-Forwarded-For.
    trusted_proxies: int = _option(0, integer(0, 10))
    #: Whether workers, and callers that wait for locks and semaphores, record events for the dashboard's page Live: one
    #: round trip a second in each process with events.
    live_events: bool = _option(True, boolean)
    #: Whether processes record the names that they use (filters, limits, rankings, …) for the dashboard and commands,
    #: each at most once an hour.
    catalog: bool = _option(True, boolean)
    #: Connection aliases.
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
    aggregation: AggregationSettings = dataclasses.field(
        default_factory=AggregationSettings, metadata={"section": AggregationSettings}
    )
    geoip: GeoIpSettings = dataclasses.field(default_factory=GeoIpSettings, metadata={"section": GeoIpSettings})
    ratelimits: RateLimitsSettings = dataclasses.field(
        default_factory=RateLimitsSettings, metadata={"section": RateLimitsSettings}
    )
    messaging: MessagingSettings = dataclasses.field(
        default_factory=MessagingSettings, metadata={"section": MessagingSettings}
    )
    dashboard: DashboardSettings = dataclasses.field(
        default_factory=DashboardSettings, metadata={"section": DashboardSettings}
    )
    notifications: NotificationsSettings = dataclasses.field(
        default_factory=NotificationsSettings, metadata={"section": NotificationsSettings}
    )
    monitoring: MonitoringSettings = dataclasses.field(
        default_factory=MonitoringSettings, metadata={"section": MonitoringSettings}
    )
