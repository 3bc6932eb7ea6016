"""Passwords in the wrong place: neither an error of the settings nor a page about it shows them."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import RequestFactory, override_settings
from django.views.debug import ExceptionReporter

from django_redis_components import checks
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf
from django_redis_components.core.settings.secrets import mask_credentials

SECRET = "s3cret-0123456789"
CACHES = {"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}

#: Entries of a connection with a secret where none belongs.
CONNECTIONS: list[dict[str, Any]] = [
    {"CACHE": f"redis://u:{SECRET}@h"},
    {"CACHE": f"redis://h/0?password={SECRET}"},
    {"CACHE": f"rediss://h/0?db=1&ssl_keyfile_password={SECRET}&x=1"},
    {"CACHE": f"u:{SECRET}@h:6379"},
    {"CACHE": f":{SECRET}@h"},
    {"URL": f"u:{SECRET}@h:6379"},
    {"URL": f"redsi://u:{SECRET}@h"},
    {"URL": f"redis://u:{SECRET}/x@h"},
    {"URL": f"redis://h?pasword={SECRET}"},
    {"URL": f"redis://u:{SECRET}@h:port"},
]
#: What may be in the place of a dict with a secret.
LISTS: list[Any] = [[SECRET], (SECRET,), {SECRET}, [{"PASSWORD": SECRET}], [("TOKEN", SECRET)], deque([SECRET])]
#: Wrong values of whole sections, though a secret belongs into them; and of all settings.
SECTIONS: list[Any] = [
    {name: value}
    for name in ("MONITORING", "TASKQUEUE", "NOTIFICATIONS")
    for value in (SECRET, SECRET.encode(), f"redis://h?password={SECRET}", *LISTS)
]
SECTIONS.append({"CONNECTIONS": f"redis://h?password={SECRET}"})
SECTIONS += [given for value in LISTS for given in (value, {"CONNECTIONS": value}, {"CONNECTIONS": {"default": value}})]


def shown_texts(given: Any) -> Iterator[str]:
    """Yield what people see of wrong settings: the checks, errors, and the variables of a debug page."""
    with override_settings(REDIS_COMPONENTS=given):
        yield from (str(each.msg) for each in checks.check_settings() + checks.check_connections())
        try:
            yield repr(conf.settings())
            yield repr(connections.endpoint("default"))
        except ConfigurationError as exc:
            yield str(exc)
            request = RequestFactory().get("/")
            for frame in ExceptionReporter(request, *sys.exc_info()).get_traceback_frames():
                if "django_redis_components/" in frame["filename"]:
                    yield from (f"{name} = {value!r}" for name, value in frame["vars"])


@pytest.mark.parametrize("entry", CONNECTIONS, ids=str)
def test_connection_with_a_secret_in_the_wrong_place_hides_it(entry: dict[str, Any]) -> None:
    texts = list(shown_texts({"CONNECTIONS": {"default": entry}}))

    assert texts
    assert [text for text in texts if SECRET in text] == []


@pytest.mark.parametrize("given", SECTIONS, ids=str)
def test_section_that_is_no_dict_is_hidden(given: Any) -> None:
    texts = list(shown_texts(given))

    assert texts
    assert [text for text in texts if SECRET in text] == []


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("redis://u:p@h/0", "redis://***@h/0"),
        ("redis://u:p w'\"/@x@h", "redis://***@h"),
        ("a//b c@d //e", "a//***@d //e"),
        ("u@h //x", "u@h //x"),
        ("u:p@h:6379", "***@h:6379"),
        ("'u:p@q@h' and x/v:w@i", "'***@h' and x/***@i"),
        ("u@h:1", "u@h:1"),
        ("h?Password=x&db=1&my_token_2=y&db=2", "h?Password=***&db=1&my_token_2=***&db=2"),
        ("h?db=password", "h?db=password"),
    ],
)
def test_credentials_of_urls_are_masked(text: str, masked: str) -> None:
    assert mask_credentials(text) == masked


@pytest.mark.parametrize("part", [":", ":a", "//", "?pas", "@", ":@ "])
def test_credentials_of_a_long_text_are_masked_in_linear_time(part: str) -> None:
    assert SECRET not in mask_credentials(f"u:{SECRET}@h {part * 50_000}")


def test_alias_of_a_cache_is_shown() -> None:
    with override_settings(REDIS_COMPONENTS={"CONNECTIONS": {"default": {"CACHE": "sesions"}}}, CACHES=CACHES):
        [problem] = checks.check_connections()

    assert problem.msg == (
        'REDIS_COMPONENTS["CONNECTIONS"]["default"]["CACHE"] = \'sesions\': no such cache. Caches in CACHES: default.'
    )
