"""Logs that are not read are refused by the names of their formats; lines without a place are reported."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from django_redis_components.aggregation import LogAggregator, PlaceKey, parse_line
from django_redis_components.aggregation.other_formats import name_of_format
from django_redis_components.geoip import IpLookup, IpRange, Place
from tests.support import Store

REQUEST = '8.8.8.8 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1'
#: Lines as programs write them, and a part of the name of their format.
LINES: list[tuple[bytes, str]] = [
    (b"#Software: Microsoft Internet Information Services 10.0", "IIS"),
    (b"\xef\xbb\xbf#Fields: date time s-ip cs-method", "IIS"),
    (b"2026-10-10 13:55:36 10.0.0.1 GET /a b 443 - 8.8.8.8 Mozilla/5.0+(x) - 200 0 0 31", "IIS"),
    (b"2026-10-10 13:55:36 SITE GET / X-ARR-LOG-ID=1 443 - 8.8.8.8:51234 Mozilla - - x 200 0 0 1 2 3", "Azure"),
    (b"2026-10-10\t13:55:36\tLAX1\t2390282\t8.8.8.8\tGET\td111.cloudfront.net\t/view\t200\t-", "CloudFront"),
    (
        b"Oct 10 13:55:36 lb haproxy[1]: 8.8.8.8:33317 [10/Oct/2026:13:55:36.655] http-in static/srv1 10/0/30",
        "HAProxy",
    ),
    (b'[2026-10-10T13:55:36.310Z] "POST /api HTTP/2" 204 - 154 0 226 100 "8.8.8.8" "x" "cc21" "l" "t"', "Envoy"),
    (b'2026-10-10T13:55:37.1Z stdout F [2026-10-10T13:55:36.3Z] "GET / HTTP/1.1" 200 - via_upstream - "-"', "Istio"),
    (b'2026-10-10T13:55:36+00:00 heroku[router]: at=info method=GET path="/" fwd="8.8.8.8" status=200', "Heroku"),
    (
        b"tls 2.0 2026-10-10T13:55:36 net/lb/c6e77e28c25b2234 g3d4b5e8bb8464cd 8.8.8.8:51341 1.2.3.4:443 5",
        "network load",
    ),
    (b"79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be B [10/Oct/2026:13:55:36 +0000] 8.8.8.8", "S3"),
    (b"1791640536.123    100 8.8.8.8 TCP_MISS/200 4123 GET http://x/ - DIRECT/1.2.3.4 text/html", "Squid"),
    (b"[Sat Oct 10 13:55:36.123 2026] [core:error] [pid 1] [client 8.8.8.8:1] AH00126: Invalid URI", "error log"),
    (b"2026/10/10 13:55:36 [error] 1#1: *1 open() failed, client: 8.8.8.8", "error log"),
    (b'INFO:     8.8.8.8:51234 - "GET / HTTP/1.1" 200 OK', "application server"),
    (b"[pid: 1|app: 0|req: 1/1] 8.8.8.8 () {30 vars in 400 bytes} [Sat Oct 10 13:55:36 2026] GET / =>", "uWSGI"),
    (b'{"httpRequest": {"remoteIp": "8.8.8.8", "status": 200}, "timestamp": "2026-10-10T13:55:36Z"}', "Google"),
    (b'{"ClientIP": "8.8.8.8", "ClientRequestMethod": "GET", "EdgeResponseStatus": 200}', "Cloudflare"),
    (b'{"time": "2026-10-10T13:55:36Z", "properties": {"clientIp": "8.8.8.8", "httpStatusCode": "200"}}', "Azure"),
    (b'{"response_code": 200, "downstream_remote_address": "8.8.8.8:1"}', "Envoy"),
    (b'{"srcIp": "8.8.8.8", "httpStatus": 200}', "JSON with other fields"),
    (REQUEST.encode("utf-16"), "UTF-16"),
    (REQUEST.encode("utf-16-le"), "UTF-16"),
    (REQUEST.encode("utf-16-be").lstrip(b"\0"), "UTF-16"),
    (b"PK\x03\x04\x14\0\0\0", "an archive"),
    (b"\x89PNG\r\n\x1a\n\0", "a binary file"),
    (b"", ""),
    (b"hello", ""),
]


@pytest.mark.parametrize(("line", "name"), LINES, ids=[f"{name}-{number}" for number, (_, name) in enumerate(LINES)])
def test_line_of_another_format_is_no_request_and_has_its_name(line: bytes, name: str) -> None:
    assert parse_line(line) is None
    assert name in name_of_format(line)
    assert bool(name) == bool(name_of_format(line))


@pytest.mark.parametrize("start", [b"{", b" ", b"[", b"\xff", b"2026-10-10 10:10:10 ", b"0", b"a\t", b"[pid"])
def test_long_line_is_looked_at_in_linear_time(start: bytes) -> None:
    name_of_format(start * 60_000)
    parse_line(start * 60_000)


@pytest.fixture
def places(redis_server: Store) -> IpLookup:
    lookup = IpLookup(source="ranges")
    lookup.rebuild([IpRange("8.0.0.0", "8.255.255.255", Place("US"))])
    return lookup


def test_file_of_another_format_is_refused_by_its_name(redis_server: Store, tmp_path: Path) -> None:
    log, visits = tmp_path / "u_ex261010.log", LogAggregator("pages", key=lambda entry: entry.path)
    log.write_text("#Version: 1.0\r\n#Fields: date time s-ip\r\n" + "2026-10-10 13:55:36 10.0.0.1 GET / - 80\r\n" * 20)

    report = visits.add_file(log)

    assert (report.lines, report.uncounted, report.looks_like) == (0, 22, "the W3C format of IIS, Azure or CloudFront")
    log.write_text(f"{REQUEST}\n" * 20)
    chosen = visits.add_file(log, format="caddy")
    assert (chosen.uncounted, chosen.looks_like) == (20, "another format, which is read without --format")
    assert (visits.add_file(log).lines, visits.add_file(log).looks_like) == (20, "")


def test_format_of_long_lines_is_recognized(redis_server: Store, tmp_path: Path) -> None:
    log, pages = tmp_path / "access.log", LogAggregator("pages", key=lambda entry: entry.path)
    line = {"http_user_agent": "x" * 60_000, "remote_addr": "8.8.8.8", "msec": "1791640536", "status": 200}
    log.write_text(f"{json.dumps(line)}\n" * 5)

    report = pages.add_file(log, format="caddy")

    assert (report.uncounted, report.looks_like) == (5, "another format, which is read without --format")


def test_file_in_utf_16_is_refused_by_its_name(places: IpLookup, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    for encoding in ("utf-16", "utf-16-be", "utf-16-le"):
        log.write_bytes(f"{REQUEST}\r\n".encode(encoding) * 20)

        report = LogAggregator("visits", key=PlaceKey("country", places)).add_file(log)

        assert (report.lines, report.looks_like) == (0, "text in UTF-16; convert it to UTF-8")


def test_lines_without_a_place_are_reported(places: IpLookup, tmp_path: Path) -> None:
    log, visits = tmp_path / "access.log", LogAggregator("visits", key=PlaceKey("country", places))
    log.write_text(f"{REQUEST}\n" + f"{REQUEST.replace('8.8.8.8', '10.0.0.1')}\n" * 3)

    assert [(one.lines, one.unknown) for one in (visits.add_file(log), visits.add_file(log))] == [(4, 3), (0, 0)]
    with log.open("a") as file:
        file.write(f"{REQUEST.replace('8.8.8.8', '10.0.0.1')}\n" * 2)
    assert visits.add_file(log).unknown == 2
    assert visits.totals(date(2026, 10, 10)) == {"ZZ": 5, "US": 1}


def test_formats_of_a_file_may_change(redis_server: Store, tmp_path: Path) -> None:
    log, visits = tmp_path / "access.log", LogAggregator("pages", key=lambda entry: entry.path)
    inside = json.dumps({"log": f"{REQUEST}\n", "stream": "stdout"})
    log.write_text(f"\ufeff{REQUEST}\r\n{inside}\nNov 25 10:00:00 web1 nginx: {REQUEST}\n")

    assert (visits.add_file(log).lines, visits.totals(date(2026, 10, 10))) == (3, {"/": 3})
