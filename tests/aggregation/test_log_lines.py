"""Lines of access logs in each format, and junk."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redis_components.aggregation import LogEntry, parse_line
from django_redis_components.aggregation.log_lines import parser_for

DAY = date(2026, 10, 10)
COMMON = '8.8.8.8 - frank [10/Oct/2026:13:55:36 +0000] "GET /a?b HTTP/1.1" 200 2326'
NGINX = {
    "remote_addr": "8.8.8.8", "time_iso8601": "2026-10-10T13:55:36+00:00", "request": "GET /a?b HTTP/1.1",
    "status": "200", "http_referer": "-", "http_user_agent": "x",
}  # fmt: skip
CADDY = {
    "level": "info", "ts": 1791640536.5, "logger": "http.log.access", "status": 200, "request": {
        "remote_ip": "10.0.0.1", "client_ip": "8.8.8.8", "method": "GET", "uri": "/a?b",
        "headers": {"User-Agent": ["x"], "Referer": ["-"]},
    },
}  # fmt: skip
CADDY_WITHOUT_IP = {"method": "GET", "uri": "/a?b", "headers": {"User-Agent": ["x"], "Referer": ["-"]}}
TRAEFIK = {
    "ClientAddr": "10.0.0.1:4711", "ClientHost": "8.8.8.8", "DownstreamStatus": 200, "OriginStatus": 0,
    "RequestMethod": "GET", "RequestPath": "/a?b", "StartUTC": "2026-10-10T13:55:36.123456789Z", "level": "info",
    "time": "2026-10-10T15:55:36+02:00", "request_Referer": "-", "request_User-Agent": "x",
}  # fmt: skip
ALB = (
    "https 2026-10-10T13:55:36.186641Z app/shop/50dc6c495c0c9188 8.8.8.8:2817 10.0.0.1:80 0.086 -1 -1 200 - 0 57"
    ' "GET https://www.example.com:443/a?b HTTP/1.1" "x" ECDHE-RSA-AES128 TLSv1.2 arn:aws:elasticloadbalancing'
    ' "Root=1-58337281" "www.example.com" "arn:aws:acm" 1'
    ' 2026-10-10T13:55:36.0Z "forward" "-" "-" "-" "-" "-" "-" TID_1'
)
ELB = (
    "2026-10-10T13:55:36.943958Z shop 8.8.8.8:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29"
    ' "GET http://www.example.com:80/a?b HTTP/1.1" "x" - -'
)
COMBINED = COMMON + ' "-" "x"'
FULL = LogEntry(DAY, "8.8.8.8", 200, "GET", "/a?b", "-", "x")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (COMMON, FULL._replace(referrer="", agent="")),
        (COMMON + ' "-" "x"', FULL),
        (COMMON + ' "-" "x"\r', FULL),
        (COMMON + ' "-" "x" 0.003 more', FULL),
        (COMMON.replace("8.8.8.8", "2001:4860::8888") + ' "-" "x"', FULL._replace(address="2001:4860::8888")),
        (COMMON.replace("frank", "frank [x] y") + ' "-" "a \\"b\\" \\\\"', FULL._replace(agent='a \\"b\\" \\\\')),
        (COMMON.replace("GET /a?b HTTP/1.1", "") + ' "-" "x"', FULL._replace(method="", path="")),
        (COMMON.replace("200 2326", "304 -") + ' "-" "x"', FULL._replace(status=304)),
        (f'www.example.com:443 {COMMON} "-" "x"', FULL),
        (
            f'www.example.com:443 {COMMON.replace("8.8.8.8", "2001:db8::1")} "-" "x"',
            FULL._replace(address="2001:db8::1"),
        ),
        (f'www.example.com:443 {COMMON.replace("8.8.8.8", "::1")} "-" "x"', FULL._replace(address="::1")),
        (
            COMMON.replace("8.8.8.8 -", "host.example.com -"),
            FULL._replace(address="host.example.com", referrer="", agent=""),
        ),
        (COMBINED.replace("36 +0000", "36.123456 +0000"), FULL),
        (COMBINED.replace("10/Oct/2026:13:55:36 +0000", "2026-10-10T13:55:36+00:00"), FULL),
        (COMBINED.replace("10/Oct/2026:13:55:36 +0000", "2026-10-10T13:55:36.123Z"), FULL),
        (ALB, FULL._replace(referrer="")),
        (ELB, FULL._replace(referrer="")),
        (ALB.replace("8.8.8.8:", "[2001:4860::8888]:"), FULL._replace(referrer="", address="2001:4860::8888")),
        (
            ALB.replace("/a?b HTTP", "/ HTTP").replace("200 -", "502 502"),
            FULL._replace(referrer="", status=502, path="/"),
        ),
        (
            ALB.replace("https://www.example.com:443/a?b", "/a?to=https://example.org/"),
            FULL._replace(referrer="", path="/a?to=https://example.org/"),
        ),
        (ALB.replace("443/a?b", "443?b/c"), FULL._replace(referrer="", path="?b/c")),
        (json.dumps(TRAEFIK), FULL),
        (json.dumps(TRAEFIK | {"ClientHost": "8.8.8.8, 10.0.0.1", "DownstreamStatus": 499}), FULL._replace(status=499)),
        (json.dumps(TRAEFIK | {"StartUTC": None, "ClientHost": "", "ClientAddr": "8.8.8.8:1"}), FULL),
        (json.dumps(NGINX), FULL),
        (json.dumps(NGINX | {"time_iso8601": "", "msec": "1791640536.123"}), FULL),
        (json.dumps(NGINX | {"time_iso8601": None, "time_local": "10/Oct/2026:13:55:36 +0000"}), FULL),
        (json.dumps(NGINX | {"request_uri": "/b", "status": 404}), FULL._replace(path="/b", status=404)),
        (json.dumps(NGINX | {"remote_addr": "8.8.8.8:4711"}), FULL),
        (json.dumps(NGINX | {"remote_addr": "8.8.8.8, 10.0.0.1"}), FULL),
        (json.dumps(NGINX | {"remote_addr": "unix:"}), FULL._replace(address="unix:")),
        (json.dumps(NGINX | {"logger": "http.log.error"}), FULL),
        (json.dumps(CADDY), FULL),
        (json.dumps(CADDY | {"status": 0}), FULL._replace(status=0)),
        (json.dumps(CADDY | {"request": CADDY_WITHOUT_IP | {"remote_addr": "8.8.8.8:4711"}}), FULL),
        (
            json.dumps(CADDY | {"request": CADDY_WITHOUT_IP | {"remote_addr": "[2001:4860::8888]:4711"}}),
            FULL._replace(address="2001:4860::8888"),
        ),
        (json.dumps(CADDY | {"ts": "2026-10-10T13:55:36.123Z"}), FULL),
        (json.dumps(CADDY | {"ts": "2026/10/10 13:55:36"}), FULL),
        (json.dumps(CADDY | {"ts": "2026/10/10 13:55:36.123456789"}), FULL),
        (json.dumps(CADDY | {"ts": 1791640536123.5}), FULL),
        (json.dumps(CADDY | {"ts": 1791640536123456789}), FULL),
        (json.dumps(NGINX | {"time_iso8601": "", "timestamp": "1791640536123456"}), FULL),
    ],
)
def test_formats_are_recognized(line: str, expected: LogEntry) -> None:
    assert parse_line(line.encode()) == expected


@pytest.mark.parametrize(
    ("time", "day"),
    [
        ("10/Oct/2026:22:30:00 +0000", 11),
        ("10/Oct/2026:23:30:00 +0200", 10),
        ("11/Oct/2026:06:30:00 +0900", 10),
        ("10/Oct/2026:16:30:00 -0700", 11),
    ],
)
def test_day_is_local(time: str, day: int, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Paris"

    entry = parse_line(COMMON.replace("10/Oct/2026:13:55:36 +0000", time).encode())

    assert entry is not None
    assert entry.day == date(2026, 10, day)


@pytest.mark.parametrize(
    "junk",
    [
        b"", b"\0" * 100, b"\xff\xfe", b"{", b"{}", b"[1]", b"null", b'{"request": {}}', b'{"request": []}',
        b"{" * 10_000,
        COMMON.replace("Oct", "Okt").encode(), COMMON.replace("10/", "40/").encode(), COMMON[:-12].encode(),
        COMMON.replace('"GET', "GET").encode(), COMMON.replace("+0000", "+9999").encode(),
        json.dumps(CADDY | {"ts": "x-1"}).encode(), json.dumps(CADDY | {"ts": 1e300}).encode(),
        json.dumps(CADDY | {"ts": float("nan")}).encode(), json.dumps(CADDY | {"ts": 10**308}).encode(),
        json.dumps(CADDY | {"ts": 10**309}).encode(), json.dumps(NGINX | {"time_iso8601": 10**400}).encode(),
        json.dumps(NGINX | {"time_iso8601": "2026-" + "1" * 60_000}).encode(),
        json.dumps(CADDY | {"logger": "http.log.error"}).encode(),
        json.dumps(CADDY | {"logger": "http.log.error.log0"}).encode(), json.dumps(CADDY | {"status": 1}).encode(),
        json.dumps(CADDY | {"ts": True, "status": True}).encode(),
        json.dumps(NGINX | {"status": "2000"}).encode(), json.dumps(NGINX | {"remote_addr": 7}).encode(),
        json.dumps(NGINX | {"time_iso8601": "2026-99-99"}).encode(),
        json.dumps(CADDY | {"request": {"headers": 7}}).encode(),
        json.dumps(TRAEFIK | {"DownstreamStatus": None}).encode(), json.dumps(TRAEFIK | {"ClientHost": 7}).encode(),
        ALB.replace("200 -", "- -").encode(), ALB.replace("8.8.8.8:2817", "-").encode(), ALB[:90].encode(),
        ALB.replace("2026-10-10", "2026-13-10").encode(),
    ],
    ids=lambda junk: repr(junk[:40]),
)  # fmt: skip
def test_junk_is_no_request(junk: bytes) -> None:
    assert parse_line(junk) is None


@pytest.mark.parametrize(
    "before",
    [
        "\ufeff",
        "<190>Nov 25 10:00:00 web1 nginx: ",
        "Nov 25 10:00:00 web1 nginx: ",
        "Nov  5 10:00:00 web1 nginx[4711]: ",
        "Nov 25 10:00:00 nginx: ",
        "Nov 25 10:00:00 10.0.0.5 nginx: ",
        "2026-11-25T10:00:00.123456+01:00 web1 nginx: ",
        "<190>1 2026-11-25T10:00:00.123Z web1 nginx 4711 - - ",
        '<190>1 2026-11-25T10:00:00Z web1 nginx 4711 access [meta sequenceId="29"] \ufeff',
        "2026-11-25T10:00:00.123456789Z stdout F ",
        "2026-11-25T10:00:00.123456789Z ",
        "nginx_1  | ",
        "nginx-1  | 2026-11-25T10:00:00.123456789Z ",
        "\x1b[36mnginx_1    |\x1b[0m ",
        "[pod/web-6d4b75cb6d-x2x2x/nginx] ",
        "2026-11-25T10:00:00.123456+00:00 app[web.1]: ",
        "Nov 25 10:00:00 web1 apache: www.example.com:443 ",
        "10.0.0.5:443 ",
    ],
)
def test_what_syslog_and_containers_write_before_a_line_is_skipped(before: str) -> None:
    assert parse_line((before + COMBINED).encode()) == FULL
    assert parse_line((before + COMBINED.replace("8.8.8.8", "2001:4860::8888")).encode()) == FULL._replace(
        address="2001:4860::8888"
    )
    assert parse_line((before + json.dumps(NGINX)).encode()) == FULL
    assert parser_for("nginx-json")((before + json.dumps(NGINX)).encode()) == FULL
    assert parse_line((before + json.dumps(CADDY)).encode()) == FULL


@pytest.mark.parametrize(
    "inner", [COMBINED, json.dumps(NGINX), json.dumps(CADDY), "Nov 25 10:00:00 a nginx: " + COMBINED]
)
@pytest.mark.parametrize("field", ["log", "MESSAGE", "message"])
def test_line_inside_of_json_is_read(field: str, inner: str) -> None:
    line = {field: inner + "\n", "stream": "stdout", "time": "2026-11-25T10:00:00.123456789Z"}

    assert parse_line(json.dumps(line).encode()) == FULL


@pytest.mark.parametrize(
    ("first", "address"),
    [
        ("8.8.8.8, 10.0.0.1", "8.8.8.8"),
        ("8.8.8.8,10.0.0.1", "8.8.8.8"),
        ("8.8.8.8, 9.9.9.9, 10.0.0.1", "8.8.8.8"),
        ("8.8.8.8:51234, 10.0.0.1:443", "8.8.8.8"),
        ("2001:4860::8888, 10.0.0.1", "2001:4860::8888"),
        ('"8.8.8.8, 10.0.0.1"', "8.8.8.8"),
        ("8.8.8.8:51234", "8.8.8.8"),
        ("[2001:4860::8888]:51234", "2001:4860::8888"),
        ("[2001:4860::8888]", "2001:4860::8888"),
        ("2001:4860::8888%eth0", "2001:4860::8888"),
        ("::ffff:8.8.8.8", "8.8.8.8"),
        ("64:ff9b::808:808", "8.8.8.8"),
        ("unknown, 10.0.0.1", "unknown"),
        ("unix:", "unix:"),
        ("-", "-"),
    ],
)
@pytest.mark.parametrize("before", ["", "Nov 25 10:00:00 web1 nginx: ", "www.example.com:443 "])
def test_address_is_read_as_proxies_write_it(before: str, first: str, address: str) -> None:
    assert parse_line((before + COMBINED.replace("8.8.8.8", first)).encode()) == FULL._replace(address=address)


@pytest.mark.parametrize(
    ("head", "address"),
    [
        ("8.8.8.8 10.0.0.1 - -", "8.8.8.8"),
        ("8.8.8.8, 9.9.9.9 10.0.0.1 - -", "8.8.8.8"),
        ('"8.8.8.8, 10.0.0.2" "10.0.0.1" - -', "8.8.8.8"),
        ("2001:4860::8888 fd00::1 - -", "2001:4860::8888"),
        ("9.9.9.9 8.8.8.8 - -", "8.8.8.8"),
        ("10.0.0.2 10.0.0.1 - -", "10.0.0.1"),
        ("- 10.0.0.1 - -", "10.0.0.1"),
        ("9.9.9.9:443 10.0.0.1 - -", "10.0.0.1"),
        ("Nov 25 10:00:00 9.9.9.9 nginx: 10.0.0.1 - -", "10.0.0.1"),
    ],
)
def test_address_that_a_private_proxy_has_forwarded_is_read(head: str, address: str) -> None:
    line = COMBINED.replace("8.8.8.8 - frank", head)

    assert parse_line(line.encode()) == FULL._replace(address=address)


def test_user_cannot_choose_the_address() -> None:
    line = COMBINED.replace("frank", "frank 9.9.9.9 - -")

    assert parse_line(line.encode()) == FULL


def test_user_of_many_words_behind_a_prefix_is_no_address() -> None:
    line = "Nov 25 10:00:00 web1 nginx: " + COMBINED.replace("frank", "frank van der Meer")

    assert parse_line(line.encode()) == FULL


@given(st.binary() | st.text().map(str.encode) | st.text().map(lambda text: (COMMON + text).encode()))
def test_any_bytes_are_parsed_without_an_error(line: bytes) -> None:
    parse_line(line)


_VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(10**400) | st.lists(st.integers())
)


@given(st.sampled_from(sorted(NGINX)), st.sampled_from([*CADDY, *CADDY["request"]]), _VALUES)
def test_any_value_of_a_field_is_parsed_without_an_error(nginx: str, caddy: str, value: object) -> None:
    parse_line(json.dumps(NGINX | {nginx: value}).encode())
    parse_line(json.dumps(CADDY | {caddy: value}).encode())
    parse_line(json.dumps(CADDY | {"request": CADDY["request"] | {caddy: value}}).encode())


def test_format_that_was_chosen_refuses_other_lines() -> None:
    lines = {
        "combined": COMBINED, "nginx-json": json.dumps(NGINX), "caddy": json.dumps(CADDY),
        "traefik": json.dumps(TRAEFIK), "alb": ALB,
    }  # fmt: skip

    for name, parse in ((name, parser_for(name)) for name in lines):  # type: ignore[arg-type]
        assert [other for other, line in lines.items() if parse(line.encode())] == [name]
    with pytest.raises(ValueError, match=r"format='w3c': expected one of 'auto', 'common', 'combined', 'vhost"):
        parser_for("w3c")  # type: ignore[arg-type]


def test_long_line_is_parsed_in_linear_time() -> None:
    assert parse_line((COMMON + ' "' + "\\\\" * 30_000).encode()) is not None
    assert parse_line(('8.8.8.8 - - [10/Oct/2026:13:55:36 +0000] "' + "a" * 60_000).encode()) is None
    path = "a" * 60_000
    assert parse_line(ALB.replace("https://www.example.com:443/a?b", path).encode()) == FULL._replace(
        referrer="", path=path
    )
