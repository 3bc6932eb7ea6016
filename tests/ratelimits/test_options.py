"""Every invalid argument and its error message."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.rates import ParsedRate, parse_rate
from django_redis_components.ratelimits import RateLimit, RateLimited, RateLimitError
from django_redis_components.ratelimits import decision as decisions
from tests.support import Store

RATES = "expected a count and a unit, as '10/s', '10/m', '100/h', '3/2h' or '1000/d', or (count, seconds)."
COUNT = "expected an integer from 1 to 1000000."

WRONG: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ((), {}, ValueError, "rates=(): expected 1 to 8 rates, such as '5/m'."),
    (("5/m", "5/60s"), {}, ValueError, "rates=('5/m', '5/60s'): duplicate rate."),
    (("5",), {}, ValueError, f"rate='5': {RATES}"),
    (("5/week",), {}, ValueError, f"rate='5/week': {RATES}"),
    (("5/0h",), {}, ValueError, f"rate='5/0h': {RATES}"),
    (("-5/m",), {}, ValueError, f"rate='-5/m': {RATES}"),
    (("٥/m",), {}, ValueError, f"rate='٥/m': {RATES}"),
    ((5,), {}, TypeError, f"rate=5: {RATES}"),
    ((None,), {}, TypeError, f"rate=None: {RATES}"),
    (("0/m",), {}, ValueError, f"the count of rate=0: {COUNT}"),
    (((0, 60),), {}, ValueError, f"the count of rate=0: {COUNT}"),
    (((1.5, 60),), {}, TypeError, f"the count of rate=1.5: {COUNT}"),
    (("1000001/m",), {}, ValueError, f"the count of rate=1000001: {COUNT}"),
    (((5, 0),), {}, ValueError, "rate[1]=0: expected a number of seconds above 0, or a timedelta."),
    (("5/m",), {"algorithm": "bucket"}, ValueError, "algorithm='bucket': expected one of 'gcra', 'sliding', 'fixed'."),
    (("5/m",), {"algorithm": ["gcra"]}, TypeError, "algorithm=['gcra']: expected one of 'gcra', 'sliding', 'fixed'."),
    (
        ("10001/m",),
        {"algorithm": "sliding"},
        ValueError,
        "rate='10001/m': algorithm='sliding' counts at most 10000.",
    ),
    (("5/m",), {"on_error": "ajar"}, ValueError, "on_error='ajar': expected one of 'open', 'closed'."),
    (("5/m",), {"deny_cache": "no"}, TypeError, "deny_cache='no': expected True or False."),
    (("5/m",), {"penalty": 20}, TypeError, "penalty=20: expected (denials, seconds), such as (20, 600), or None."),
    (
        ("5/m",),
        {"penalty": (0, 60)},
        ValueError,
        "penalty[0]=0: expected an integer from 1 to 10000.",
    ),
    (
        ("5/m",),
        {"penalty": ("20", 60)},
        TypeError,
        "penalty[0]='20': expected an integer from 1 to 10000.",
    ),
    (
        ("5/m",),
        {"penalty": (20, -1)},
        ValueError,
        "penalty[1]=-1: expected a number of seconds above 0, or a timedelta.",
    ),
]


@pytest.mark.parametrize(("rates", "options", "kind", "text"), WRONG, ids=lambda value: str(value)[:30])
def test_invalid_option_raises(
    rates: tuple[Any, ...], options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        RateLimit("api", *rates, **options)


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("", ValueError, "rate limit name is empty: expected 1 to 200 bytes of text."),
        ("a{b}", ValueError, "rate limit name 'a{b}': braces are not accepted; they mark the Cluster slot in keys."),
        (7, TypeError, "rate limit name 7: expected a string, got int."),
    ],
)
def test_invalid_name_raises(name: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        RateLimit(name, "5/m")


@pytest.mark.parametrize("method", ["hit", "peek", "refund"])
@pytest.mark.parametrize(
    ("cost", "kind", "text"),
    [
        (0, ValueError, "cost=0: expected an integer from 1 to 5, the lowest limit."),
        (-1, ValueError, "cost=-1: expected an integer from 1 to 5, the lowest limit."),
        (6, ValueError, "cost=6: expected an integer from 1 to 5, the lowest limit."),
        (1.0, TypeError, "cost=1.0: expected an integer from 1 to 5, the lowest limit."),
        (True, TypeError, "cost=True: expected an integer from 1 to 5, the lowest limit."),
    ],
)
def test_invalid_cost_raises(redis_server: Store, method: str, cost: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        getattr(RateLimit("api", "5/m", "9/h"), method)("ada", cost)


@pytest.mark.parametrize("key", [None, 1.5, True, ("a",)])
def test_invalid_key_raises(redis_server: Store, key: Any) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(f'key={key!r}: expected a string, bytes or an integer.')}$"):
        RateLimit("api", "5/m").hit(key)


def test_invalid_timeout_raises(redis_server: Store) -> None:
    text = "timeout=-1: expected a number of seconds of at least 0, or a timedelta."
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        RateLimit("api", "5/m").hit("ada", timeout=-1)


def test_unknown_connection_alias_raises(redis_server: Store) -> None:
    with pytest.raises(ConfigurationError, match="has no 'nowhere'"):
        RateLimit("api", "5/m", using="nowhere").hit("ada")


@pytest.mark.parametrize(
    ("given", "rate", "text"),
    [
        ("10/s", ParsedRate(10, 1_000_000), "10/s"),
        (" 5 / min ", ParsedRate(5, 60_000_000), "5/m"),
        ("100/hour", ParsedRate(100, 3_600_000_000), "100/h"),
        ("3/2h", ParsedRate(3, 7_200_000_000), "3/2h"),
        ("3/90s", ParsedRate(3, 90_000_000), "3/90s"),
        ("1/24h", ParsedRate(1, 86_400_000_000), "1/d"),
        ((2, 0.25), ParsedRate(2, 250_000), "2/0.25s"),
        ([2, timedelta(minutes=5)], ParsedRate(2, 300_000_000), "2/5m"),
        ((1, 1e-9), ParsedRate(1, 1), "1/1e-06s"),
    ],
)
def test_rate_is_parsed_and_formatted(given: Any, rate: ParsedRate, text: str) -> None:
    assert parse_rate(given) == rate
    assert str(rate) == text


def test_exception_names_the_limit_and_the_wait() -> None:
    rates = (ParsedRate(5, 60_000_000),)
    error = RateLimited("api", decisions.blocked(rates, 12_345_678))
    unavailable = RateLimited("api", decisions.unchecked(rates, 5.0))

    assert str(error) == "Rate limit 'api' is exceeded: try again in 12.3 s."
    assert (error.name, error.retry_after, error.decision.is_blocked) == ("api", 12.345678, True)
    assert isinstance(error, RateLimitError)
    assert str(unavailable) == "Rate limit 'api' cannot be checked, as Redis does not answer: try again in 5 s."
