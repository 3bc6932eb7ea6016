"""`REDIS_COMPONENTS`: each key, invalid values and misspelled keys."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from django.utils.functional import SimpleLazyObject, lazystr

from django_redis_components import checks
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf, sections
from django_redis_components.core.settings.secrets import Secret

DURATION = "a number of seconds above 0 (ten years at most), or a timedelta"
DURATION_OR_ZERO = "a number of seconds of at least 0 (ten years at most), or a timedelta"
RATES = "a list of up to eight rates, such as '10/s', '100/m', '3/2h', or (count, seconds)"
TEXT = "a string that is not empty"
TOKEN = "None or 16 to 200 printable ASCII characters without spaces"
IDENTITY = "one of 'user', 'cookie', 'hash', 'hash:day', 'hash:week', 'hash:month'"
SEAL_KEY = "0123456789" * 4 + "012="
HOOK = "https://hooks.example.com/redis"
HTTP_URLS = "a list of up to ten URLs, such as 'https://hooks.example.com/redis'"
SHARDS = (
    "None or a dict of 1 to 64 names to aliases of connections, each name of 1 to 32 of the characters"
    " A-Z a-z 0-9 _ . -,"
    ' such as {"default": "default", "b": "redis_b"}'
)
ROUTES = 'None or a dict of task names or patterns to queues, such as {"shop.tasks.*": "shop"}, a function, or its path'
BOOLEAN = "True or False"
NAME = "1 to 200 bytes of text without braces and control characters"
PATHS_EXPECTED = "a list of paths, each beginning with '/'"
LINE = "at most 100 printable characters"


class HiddenInt(int):
    """A number whose `repr` is what an error shows of it."""

    def __repr__(self) -> str:
        return "'***' of type HiddenInt"


#: Path of the key, a good value, what the field then holds, a wrong value, what was expected instead of it.
KEYS: list[tuple[str, Any, Any, Any, str]] = [
    ("PREFIX", "shop-1", "shop-1", "a b", "1 to 64 printable characters without spaces and braces"),
    ("CONNECTIONS.default.CACHE", "pages", "pages", "", f"None or {TEXT}"),
    ("CONNECTIONS.default.URL", "redis://h", Secret("redis://h"), HiddenInt(6379), f"None or {TEXT}"),
    ("CONNECTIONS.default.USERNAME", "shop", "shop", "", f"None or {TEXT}"),
    ("CONNECTIONS.default.PASSWORD", "p@ss", Secret("p@ss"), Secret(""), f"None or {TEXT}"),
    ("CONNECTIONS.default.SENTINEL_PASSWORD", "p@ss", Secret("p@ss"), HiddenInt(7), f"None or {TEXT}"),
    ("CONNECTIONS.default.SENTINEL_USERNAME", "shop", "shop", 7, f"None or {TEXT}"),
    ("CONNECTIONS.default.SOCKET_TIMEOUT", timedelta(seconds=7), 7.0, 0, DURATION),
    ("CONNECTIONS.default.PAGE_TIMEOUT", 0.5, 0.5, 0, DURATION),
    ("CONNECTIONS.default.CONNECT_TIMEOUT", 1, 1.0, "1", DURATION),
    ("CONNECTIONS.default.RETRIES", 0, 0, 21, "an integer from 0 to 20"),
    ("CONNECTIONS.default.SLOT_MIGRATION_TIMEOUT", 0, 0.0, "60", DURATION_OR_ZERO),
    ("TASKQUEUE.LEASE", timedelta(minutes=1), 60.0, -1, DURATION),
    ("TASKQUEUE.QUEUES", ["mail", "high"], {"mail": None, "high": None}, "mail", "None or a list of strings"),
    ("TASKQUEUE.SHARDS", {"a": "default"}, {"a": "default"}, {}, SHARDS),
    ("TASKQUEUE.ENQUEUE_ON_COMMIT", True, True, 1, BOOLEAN),
    ("TASKQUEUE.OUTBOX", True, True, "yes", BOOLEAN),
    ("TASKQUEUE.FAILED_TTL", 60, 60.0, None, DURATION),
    ("TASKQUEUE.FAILED_LIMIT", 5, 5, 0, "an integer from 1 to 10000000"),
    ("TASKQUEUE.KEEP_FINISHED", 0, 0, -1, "an integer from 0 to 100000"),
    ("TASKQUEUE.FINISHED_TTL", 60, 60.0, 0, DURATION),
    ("TASKQUEUE.GRACE", 0, 0.0, -0.5, DURATION_OR_ZERO),
    ("TASKQUEUE.TIMEOUT_GRACE", 5, 5.0, 0, DURATION),
    ("TASKQUEUE.CANCEL_GRACE", 0, 0.0, -1, DURATION_OR_ZERO),
    ("TASKQUEUE.RESTART_INTERRUPTED", False, False, 1, BOOLEAN),
    ("TASKQUEUE.RECORD_ORIGIN", True, True, "yes", BOOLEAN),
    ("TASKQUEUE.RECORD_USER", True, True, 1, BOOLEAN),
    ("TASKQUEUE.MIDDLEWARE", ["shop.Tenant"], ("shop.Tenant",), "shop.Tenant", "a list of strings"),
    ("TASKQUEUE.DEFAULTS", {"max_attempts": 3}, {"max_attempts": 3}, ["max_attempts"], "None or a dict"),
    ("TASKQUEUE.ROUTES", {"shop.*": "shop"}, {"shop.*": "shop"}, {"shop.*": "a{b"}, ROUTES),
    ("TASKQUEUE.JSON_CODEC", "shop.codec", "shop.codec", "", "None or a string that is not empty"),
    (
        *("TASKQUEUE.SEAL_KEYS", [SEAL_KEY], (Secret(SEAL_KEY),), Secret("short")),
        "a list of keys of 32 bytes in URL-safe base64, as Fernet.generate_key() returns, as text",
    ),
    ("TASKQUEUE.MAX_BODY_BYTES", 1024, 1024, True, "an integer from 1024 to 536870912"),
    ("TASKQUEUE.MAX_RESULT_BYTES", 1024, 1024, 1023, "an integer from 1024 to 536870912"),
    ("TASKQUEUE.MAX_ERROR_BYTES", 1000, 1000, 999, "an integer from 1000 to 1048576"),
    ("AUTOCOMPLETE.LIMIT", 100, 100, 101, "an integer from 1 to 100"),
    ("AUTOCOMPLETE.MIN_LENGTH", 0, 0, 1.0, "an integer from 0 to 20"),
    ("AUTOCOMPLETE.SCOPE_MAX_AGE", timedelta(days=1), 86_400.0, 0, DURATION),
    ("LIVE_EVENTS", False, False, "on", BOOLEAN),
    ("CATALOG", False, False, 0, BOOLEAN),
    ("TRUSTED_PROXIES", 1, 1, 11, "an integer from 0 to 10"),
    ("MESSAGING.SEND_RATES", ["5/m", (3, 60)], ("5/m", (3, 60)), ["5 a minute"], RATES),
    ("MESSAGING.MAX_STREAMS", 1, 1, 0, "an integer from 1 to 1000"),
    ("MESSAGING.MAX_LONG_POLLS", 1, 1, 1_001, "an integer from 1 to 1000"),
    ("GEOIP.MMDB", Path("/srv/city.mmdb"), "/srv/city.mmdb", "", "None or the path of a file"),
    ("GEOIP.USING", "places", "places", "", TEXT),
    ("AGGREGATION.TTL", 3600, 3600.0, 0, DURATION),
    ("ANALYTICS.TTL", 3600, 3600.0, 11 * 366 * 86_400, DURATION),
    ("ANALYTICS.USING", "numbers", "numbers", "", TEXT),
    ("ANALYTICS.TIMEOUT", 1, 1.0, 0, DURATION),
    ("ANALYTICS.EXCLUDE_AGENTS", ["bot"], ("bot",), "bot", "a list of strings"),
    ("ANALYTICS.COUNT_AGENTS", ["kiosk"], ("kiosk",), "kiosk", "a list of strings"),
    ("ANALYTICS.SITE", "shop", "shop", "", TEXT),
    ("ANALYTICS.VISITOR_IDENTITY", "user", "user", "ip", IDENTITY),
    ("ANALYTICS.COUNTRY", "shop.places.country", "shop.places.country", 7, f"None or {TEXT}"),
    ("ANALYTICS.VISITOR_PAGES_PER_DAY", 0, 0, -1, "an integer from 0 to 100000"),
    ("ANALYTICS.EXCLUDE_PATHS", ["/admin/"], ("/admin/",), ["/a", ""], "a list of strings"),
    ("ANALYTICS.TRUSTED_PROXIES", 2, 2, -1, "None or an integer from 0 to 10"),
    ("ANALYTICS.SIGN_IN_ON_LOGIN", False, False, "yes", BOOLEAN),
    ("ANALYTICS.MAX_PAGES_PER_DAY", 7, 7, 0, "an integer from 1 to 1000000"),
    ("ANALYTICS.MAX_USER_ID", 7, 7, 2**32, "an integer from 1 to 4294967295"),
    ("RATELIMITS.RATES", ["5/m", (3, 60)], ("5/m", (3, 60)), ["5 a minute"], RATES),
    ("RATELIMITS.KEY", "user", "user", "host", "one of 'ip', 'user', 'user_or_ip'"),
    ("RATELIMITS.ALGORITHM", "sliding", "sliding", "bucket", "one of 'gcra', 'sliding', 'fixed'"),
    ("RATELIMITS.PENALTY", [20, 600], (20, 600), (0, 600), "None or (denials, seconds), such as (20, 600)"),
    ("RATELIMITS.TIMEOUT", 1, 1.0, 0, DURATION),
    ("RATELIMITS.ON_ERROR", "closed", "closed", "ajar", "one of 'open', 'closed'"),
    ("RATELIMITS.EXCLUDE_PATHS", ["/health/"], ("/health/",), "/health/", "a list of strings"),
    ("RATELIMITS.USING", "limits", "limits", "", TEXT),
    ("RATELIMITS.COUNT_HITS", False, False, "no", BOOLEAN),
    ("RATELIMITS.DENIED_KEYS", "text", "text", "plain", "one of 'hash', 'text'"),
    ("DASHBOARD.AUTOREGISTER", False, False, None, BOOLEAN),
    ("DASHBOARD.USING", "tasks", "tasks", None, TEXT),
    ("TASKQUEUE.VERSION", "1.4", "1.4", 14, f"None or {TEXT}"),
    ("DASHBOARD.ENVIRONMENT", "staging", "staging", b"staging", f"None or {TEXT}"),
    ("DASHBOARD.VISITORS", "shop", "shop", "", f"None or {TEXT}"),
    ("DASHBOARD.MASK_ERROR", "shop.privacy.mask", "shop.privacy.mask", 7, f"None or {TEXT}"),
    ("DASHBOARD.NAMES", "shop.people.names", "shop.people.names", "", f"None or {TEXT}"),
    ("DASHBOARD.LATE_AFTER", timedelta(minutes=1), 60.0, 0, DURATION),
    ("DASHBOARD.FAILURE_RATE", 1, 1.0, 5, "a number from 0 to 1"),
    ("DASHBOARD.RETRY_RATE", 0.5, 0.5, "1", "a number from 0 to 1000"),
    ("DASHBOARD.GROWING_AFTER", 0, 0.0, -1, DURATION_OR_ZERO),
    ("DASHBOARD.LOST_LEASES", 1, 1, 0, "an integer from 1 to 1000000"),
    ("DASHBOARD.PAUSED_AFTER", timedelta(minutes=1), 60.0, 0, DURATION),
    ("DASHBOARD.MEMORY_SHARE", 0.9, 0.9, True, "a number from 0.01 to 1"),
    ("DASHBOARD.RESTARTED_WITHIN", 0, 0.0, -1, DURATION_OR_ZERO),
    ("DASHBOARD.SNAPSHOT_AGE", 60, 60.0, 0, DURATION),
    ("DASHBOARD.CLOCK_OFFSET", 2, 2.0, 0, DURATION),
    ("DASHBOARD.REPLICA_LAG", 5, 5.0, 0, DURATION),
    ("DASHBOARD.SIGN_INS", "shop", "shop", 7, f"None or {TEXT}"),
    ("DASHBOARD.READ_ONLY", True, True, "yes", BOOLEAN),
    ("DASHBOARD.WATCH", False, False, None, BOOLEAN),
    ("NOTIFICATIONS.WEBHOOKS", [HOOK], (Secret(HOOK),), Secret("ftp://hooks"), HTTP_URLS),
    ("NOTIFICATIONS.SLACK", [HOOK], (Secret(HOOK),), Secret("ftp://hooks"), HTTP_URLS),
    ("NOTIFICATIONS.EMAILS", ["a@b.c"], ("a@b.c",), ["a"], "a list of up to 50 e-mail addresses"),
    ("NOTIFICATIONS.SEVERITY", "warning", "warning", "all", "one of 'critical', 'warning'"),
    ("NOTIFICATIONS.LINK", HOOK, HOOK, "shop", "None or a URL, such as 'https://www.example.com/admin/'"),
    ("NOTIFICATIONS.TIMEOUT", 5, 5.0, 0, DURATION),
    ("MONITORING.TOKEN", "0123456789abcdef", Secret("0123456789abcdef"), Secret("0123456789abcde"), TOKEN),
    ("MONITORING.PUBLIC", True, True, "yes", BOOLEAN),
]

#: Further wrong values: path of the key, value, what was expected instead of it.
WRONG: list[tuple[str, Any, str]] = [
    ("TASKQUEUE.QUEUES", [], "None or a list of at least one name"),
    (
        "TASKQUEUE.QUEUES",
        {"mail": 1},
        (
            "None or a list of names, or a dict of names to shards, each None, a name or a list of different names,"
            ' such as {"mail": "b", "events": ["default", "b"], "reports": None}'
        ),
    ),
    ("TASKQUEUE.QUEUES", {"a{b": None}, f"None or a list of names, each {NAME}"),
    ("TASKQUEUE.QUEUES", ["mail", "a{b}"], f"None or a list of names, each {NAME}"),
    ("ANALYTICS.SITE", "shop{1}", NAME),
    ("ANALYTICS.SITE", "s" * 201, NAME),
    ("ANALYTICS.SITE", "\udc80", "text that UTF-8 can encode"),
    ("ANALYTICS.EXCLUDE_PATHS", ["admin/"], PATHS_EXPECTED),
    ("RATELIMITS.EXCLUDE_PATHS", ["/a/", "b/"], PATHS_EXPECTED),
    ("DASHBOARD.VISITORS", "shop\n", f"None or {NAME}"),
    ("DASHBOARD.SIGN_INS", "{shop}", f"None or {NAME}"),
    ("DASHBOARD.ENVIRONMENT", "stag\ning", f"None or {LINE}"),
    ("DASHBOARD.ENVIRONMENT", "s" * 101, f"None or {LINE}"),
    ("MONITORING.TOKEN", Secret("a token with spaces"), TOKEN),
]

PATHS = [row[0] for row in KEYS]


def setting(path: str, value: Any) -> dict[str, Any]:
    """`REDIS_COMPONENTS` with one value at a path, and otherwise right."""
    result: dict[str, Any] = {
        "CONNECTIONS": {"default": {} if path.endswith(("URL", "CACHE")) else {"URL": "redis://h"}}
    }
    *sections_, key = path.split(".")
    place = result
    for name in sections_:
        place = place.setdefault(name, {})
    place[key] = value
    return result


def at(path: str) -> Any:
    """Return the field of the checked settings at a path."""
    place: Any = conf.settings()
    for word in path.split("."):
        if isinstance(place, dict):
            place = place[word]
        else:
            place = next(getattr(place, f.name) for f in dataclasses.fields(place) if conf.key_of(f) == word)
    return place


def mistakes(value: Any) -> list[str]:
    with override_settings(REDIS_COMPONENTS=value):
        return conf.validation_errors()


def all_keys(kind: type[Any] = sections.Settings, path: str = "") -> list[str]:
    """Return the paths of all keys."""
    found: list[str] = []
    for field in dataclasses.fields(kind):
        here = f"{path}{conf.key_of(field)}"
        if "section" in field.metadata:
            found += all_keys(field.metadata["section"], f"{here}.")
        elif "table" in field.metadata:
            found += all_keys(field.metadata["table"], f"{here}.default.")
        else:
            found.append(here)
    return found


def test_every_setting_is_in_the_table_of_this_file() -> None:
    assert sorted(set(all_keys()) - set(PATHS)) == []


@pytest.mark.parametrize(("path", "good", "held", "_wrong", "_expected"), KEYS, ids=PATHS)
def test_valid_value_is_converted_to_the_type_of_its_field(
    path: str, good: Any, held: Any, _wrong: Any, _expected: str
) -> None:
    with override_settings(REDIS_COMPONENTS=setting(path, good)):
        assert at(path) == held
        assert type(at(path)) is type(held)


@pytest.mark.parametrize(("path", "wrong", "expected"), WRONG, ids=[repr(row[:2])[:60] for row in WRONG])
def test_system_checks_find_values_that_would_fail_later(path: str, wrong: Any, expected: str) -> None:
    where = "REDIS_COMPONENTS" + "".join(f'["{word}"]' for word in path.split("."))

    assert mistakes(setting(path, wrong)) == [f"{where} = {wrong!r}: expected {expected}."]


@pytest.mark.parametrize(("path", "_good", "_held", "wrong", "expected"), KEYS, ids=PATHS)
def test_error_names_key_value_and_accepted_values(
    path: str, _good: Any, _held: Any, wrong: Any, expected: str
) -> None:
    where = "REDIS_COMPONENTS" + "".join(f'["{word}"]' for word in path.split("."))

    with override_settings(REDIS_COMPONENTS=setting(path, wrong)):
        assert conf.validation_errors() == [f"{where} = {wrong!r}: expected {expected}."]
        with pytest.raises(ConfigurationError) as caught:
            conf.settings()

    assert str(caught.value) == f"{where} = {wrong!r}: expected {expected}."
    assert isinstance(caught.value, ImproperlyConfigured)


@pytest.mark.parametrize("path", PATHS)
def test_error_of_an_unknown_key_suggests_the_nearest_one(path: str) -> None:
    *sections_, key = path.split(".")
    misspelled = key[:1] + key[2:] if len(key) > 3 else key + "S"
    where = "REDIS_COMPONENTS" + "".join(f'["{word}"]' for word in sections_)

    found = mistakes(setting(".".join([*sections_, misspelled]), "x"))

    assert f'{where}["{misspelled}"] is unknown. Did you mean "{key}"?' in found


def test_error_of_a_lower_case_key_suggests_the_upper_case_one() -> None:
    assert mistakes({"prefix": "x"}) == ['REDIS_COMPONENTS["prefix"] is unknown. Did you mean "PREFIX"?']


def test_error_of_a_dissimilar_key_lists_all_keys() -> None:
    assert mistakes({"AUTOCOMPLETE": {"zzz": 1}, 7: 8}) == [
        'REDIS_COMPONENTS["7"] is unknown. Known are ' + ", ".join(sorted(map(str.upper, top_level()))) + ".",
        'REDIS_COMPONENTS["AUTOCOMPLETE"]["zzz"] is unknown. Known are LIMIT, MIN_LENGTH, SCOPE_MAX_AGE.',
    ]


def top_level() -> list[str]:
    return [field.name for field in dataclasses.fields(sections.Settings)]


@pytest.mark.parametrize("value", [None, "redis://user:secret@host"])
def test_setting_must_be_a_dict(value: Any) -> None:
    shown = repr(value).replace("user:secret", "***")

    assert mistakes(value) == [f"REDIS_COMPONENTS = {shown}: expected a dict."]
    assert mistakes({"GEOIP": value}) == [f'REDIS_COMPONENTS["GEOIP"] = {shown}: expected a dict.']
    assert mistakes({"CONNECTIONS": value}) == [f'REDIS_COMPONENTS["CONNECTIONS"] = {shown}: expected a dict.']


def test_value_in_place_of_a_dict_is_shown_if_no_secret_belongs_into_it() -> None:
    assert mistakes({"GEOIP": [7]}) == ['REDIS_COMPONENTS["GEOIP"] = [7]: expected a dict.']
    assert mistakes([7]) == ["REDIS_COMPONENTS = '***': expected a dict."]
    assert mistakes({"MONITORING": {7}}) == ["REDIS_COMPONENTS[\"MONITORING\"] = '***' of type set: expected a dict."]
    assert mistakes({"MONITORING": None}) == ['REDIS_COMPONENTS["MONITORING"] = None: expected a dict.']


def test_error_shows_a_url_without_its_password() -> None:
    assert mistakes({"CONNECTIONS": {"default": "redis://shop:s3cr@t@host:6379/1"}}) == [
        (
            'REDIS_COMPONENTS["CONNECTIONS"]["default"] = \'redis://***@host:6379/1\': '
            'expected a dict, such as {"URL": "redis://127.0.0.1:6379/1"}.'
        )
    ]


@pytest.mark.parametrize(
    "entry",
    [
        {"CACHE": "redis://shop:s3cr t@host"},
        {"URL": "redis://shop:s3cr t\"'@@host", "USERNAME": ""},
        {"URL": "redis://h", "PASSWORD": "s3cr t", "SOCKET_TIMEOUT": 0},
        {"URL": ["redis://shop:s3cr t@host"]},
        {"PASSWORD": "s3cr t"},
        {"CACHE": "default", "PASSWORD": "s3cr t"},
        {"URL": "redis://h", "PASSWORD": b"s3cr t"},
        {"URL": "redis://h", "PASSWORD": {"s3cr t"}},
        {"URL": Path("redis://:s3cr@h")},
        {"URL": "redis://h", "PASSWORD": lazystr("s3cr\udce9")},
    ],
)
def test_no_error_and_no_repr_shows_a_password(entry: dict[str, Any]) -> None:
    token = "s3cr t"
    given = {"CONNECTIONS": {"default": entry}, "MONITORING": {"TOKEN": token}}

    found = mistakes(given)
    with override_settings(REDIS_COMPONENTS=given):
        problems = [str(check.msg) for check in checks.check_connections()]

    assert found
    assert "s3cr" not in str(found + problems)


def test_number_as_a_password_is_not_shown() -> None:
    assert mistakes({"CONNECTIONS": {"default": {"URL": "redis://h", "PASSWORD": 271828}}}) == [
        f'REDIS_COMPONENTS["CONNECTIONS"]["default"]["PASSWORD"] = \'***\' of type int: expected None or {TEXT}.'
    ]


@pytest.mark.parametrize("lazy", [lambda value: SimpleLazyObject(lambda: value), lambda value: lazystr(value)])
def test_lazy_text_is_evaluated_and_has_its_own_type(lazy: Any) -> None:
    connection = {"URL": lazy("redis://h"), "USERNAME": lazy("shop"), "PASSWORD": lazy("pw")}
    given = {"CONNECTIONS": {"default": connection}, "ANALYTICS": {"EXCLUDE_PATHS": [lazy("/a/")]}}

    with override_settings(REDIS_COMPONENTS=given):
        assert conf.validation_errors() == []
        values = [*connections.endpoint("default").options.values(), *conf.settings().analytics.exclude_paths]

    assert values == ["shop", "pw", "/a/"]
    assert [type(value) for value in values] == [str, Secret, str]


def test_lazy_numbers_and_sections_are_evaluated() -> None:
    entry = SimpleLazyObject(lambda: {"URL": "redis://h", "RETRIES": SimpleLazyObject(lambda: 2)})

    with override_settings(REDIS_COMPONENTS={"CONNECTIONS": {"default": entry}}):
        assert conf.settings().connections["default"].retries == 2


def test_error_of_a_lazy_value_shows_what_it_stands_for() -> None:
    assert mistakes({"PREFIX": lazystr("a b")}) == [
        "REDIS_COMPONENTS[\"PREFIX\"] = 'a b': expected 1 to 64 printable characters without spaces and braces."
    ]


def test_repr_of_settings_and_their_parts_shows_no_secret() -> None:
    connection = {
        "URL": "redis+sentinel://shop:s3cret@h/main?sentinel_password=s3cret", "PASSWORD": "s3cret",
        "SENTINEL_PASSWORD": "s3cret",
    }  # fmt: skip
    given = {"CONNECTIONS": {"default": connection}, "MONITORING": {"TOKEN": "s3cret-0123456789"}}

    with override_settings(REDIS_COMPONENTS=given):
        settings, endpoint = conf.settings(), connections.endpoint("default")
        parts = [settings, settings.monitoring, *settings.connections.values(), endpoint, endpoint.settings]
        values = [endpoint.options, endpoint.sentinel_options, settings.monitoring.token, endpoint.settings.url]
        assert "s3cret" not in repr(parts + values)
        assert endpoint.options["password"] == endpoint.sentinel_options["password"] == "s3cret"


def test_login_in_separate_keys_replaces_that_of_the_url() -> None:
    connection = {"URL": "redis://old:older@h", "USERNAME": "shop", "PASSWORD": "p@ss /#?"}

    with override_settings(REDIS_COMPONENTS={"CONNECTIONS": {"default": connection}}):
        assert connections.endpoint("default").options == {"username": "shop", "password": "p@ss /#?"}


def test_texts_of_environment_variables_that_are_not_utf_8_are_refused() -> None:
    password = b"s3cr\xe9t".decode("utf-8", "surrogateescape")  # as os.environ has it

    texts = mistakes({"CONNECTIONS": {"default": {"URL": f"redis://:{password}@h", "PASSWORD": password}}})

    where = 'REDIS_COMPONENTS["CONNECTIONS"]["default"]'
    assert texts == [
        f"{where}[\"{name}\"] = '***': expected None or text that UTF-8 can encode." for name in ("URL", "PASSWORD")
    ]


def test_login_of_a_cache_belongs_to_its_own_setting() -> None:
    assert mistakes({"CONNECTIONS": {"default": {"CACHE": "default", "PASSWORD": "p"}}}) == [
        (
            'REDIS_COMPONENTS["CONNECTIONS"]["default"]: '
            '"USERNAME" and "PASSWORD" belong to "URL"; those of a cache stand in CACHES.'
        )
    ]


def test_url_in_the_key_of_a_cache_is_named() -> None:
    with override_settings(REDIS_COMPONENTS={"CONNECTIONS": {"default": {"CACHE": "redis://u:pw@h"}}}):
        [problem] = checks.check_connections()

    assert problem.msg == (
        'REDIS_COMPONENTS["CONNECTIONS"]["default"]["CACHE"] = \'redis://***@h\': '
        'expected an alias in CACHES. The key of a URL is "URL".'
    )


@pytest.mark.parametrize("entry", [{}, {"URL": None}, {"URL": "redis://h", "CACHE": "default"}])
def test_connection_needs_either_a_cache_or_a_url(entry: dict[str, Any]) -> None:
    assert mistakes({"CONNECTIONS": {"tasks": entry}}) == [
        (
            'REDIS_COMPONENTS["CONNECTIONS"]["tasks"]: '
            'expected either "CACHE" (an alias in CACHES) or "URL", and not both.'
        )
    ]


def test_misspelled_url_key_is_one_error() -> None:
    assert mistakes({"CONNECTIONS": {"tasks": {"ULR": "redis://h"}}}) == [
        'REDIS_COMPONENTS["CONNECTIONS"]["tasks"]["ULR"] is unknown. Did you mean "URL"?'
    ]


def test_empty_connections_are_an_error() -> None:
    assert mistakes({"CONNECTIONS": {}}) == ['REDIS_COMPONENTS["CONNECTIONS"] = {}: expected at least one entry.']


def test_value_that_only_the_strict_check_rejects_does_not_stop_the_site() -> None:
    with override_settings(REDIS_COMPONENTS=setting("ANALYTICS.SITE", "a{b")):
        assert len(conf.validation_errors()) == 1
        assert conf.settings().analytics.site == "a{b"


def test_alias_must_be_a_line_of_text() -> None:
    assert mistakes({"CONNECTIONS": {"a\nb": {"URL": "redis://h"}}}) == [
        f'REDIS_COMPONENTS["CONNECTIONS"] has the key {"a" + chr(10) + "b"!r}: expected {LINE}.'
    ]


@pytest.mark.parametrize("alias", [7, "", None])
def test_alias_must_be_a_string(alias: Any) -> None:
    assert mistakes({"CONNECTIONS": {alias: {"URL": "redis://h"}}}) == [
        f'REDIS_COMPONENTS["CONNECTIONS"] has the key {alias!r}: expected a string that is not empty.'
    ]


def test_all_errors_are_found_and_the_first_is_raised() -> None:
    value = {"PREFIX": "{", "CONNECTIONS": {"default": {"URL": "redis://h", "RETRIES": "3"}}, "TASKQUEUE": {"X": 1}}

    found = mistakes(value)

    assert [text.partition(" ")[0] for text in found] == [
        'REDIS_COMPONENTS["PREFIX"]',
        'REDIS_COMPONENTS["CONNECTIONS"]["default"]["RETRIES"]',
        'REDIS_COMPONENTS["TASKQUEUE"]["X"]',
    ]
    with override_settings(REDIS_COMPONENTS=value), pytest.raises(ConfigurationError) as caught:
        conf.settings()
    assert str(caught.value) == found[0]


@pytest.mark.parametrize("prefix", ["", "x" * 65, "a b", "a{", "}a", "a\n", "a\x00", None, b"drc"])
def test_prefix_that_would_break_keys_is_an_error(prefix: Any) -> None:
    assert len(mistakes({"PREFIX": prefix})) == 1


def test_defaults_apply_without_the_setting(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {}  # to delete it sends no signal
    del settings.REDIS_COMPONENTS

    found = conf.settings()

    assert found == sections.Settings()
    assert found.connections == {"default": sections.ConnectionSettings(cache="default")}
    assert (found.prefix, found.taskqueue.lease_s, found.analytics.ttl_s) == ("drc", 15.0, 400 * 86_400.0)


def test_settings_are_cached_until_they_change(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "one"}
    first = conf.settings()
    assert conf.settings() is first

    settings.REDIS_COMPONENTS = {"PREFIX": "two"}

    assert conf.settings().prefix == "two"
    assert first.prefix == "one"


@pytest.mark.parametrize(("name", "is_relevant"), [("REDIS_COMPONENTS", True), ("CACHES", True), ("TIME_ZONE", False)])
def test_callback_runs_when_a_relevant_setting_changes(settings: Any, name: str, is_relevant: bool) -> None:
    calls: list[str] = []
    conf.on_change(lambda: calls.append(name))

    setattr(settings, name, getattr(settings, name))

    assert bool(calls) is is_relevant
