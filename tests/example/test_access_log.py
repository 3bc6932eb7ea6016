"""The access log of the demo: its lines, whose address they have, and its rotation."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from django.utils import timezone

from django_redis_components.aggregation import LogEntry, parse_line
from example_project import access_log
from example_project.access_log import AccessLogMiddleware, visitor_address


@pytest.fixture
def logged(settings, caplog):
    """Returns the lines that the middleware writes for a request."""
    settings.UNCOUNTED_PATHS = ["/static/", "/favicon.ico"]
    caplog.set_level(logging.INFO, "example_project.access")

    def lines(path: str, response: HttpResponse | None = None, **environ: str) -> list[str]:
        caplog.clear()
        request = RequestFactory().get(path, **environ)
        AccessLogMiddleware(lambda _: HttpResponse("twelve bytes") if response is None else response)(request)
        return [record.getMessage() for record in caplog.records]

    return lines


def test_a_line_is_that_of_the_combined_format(logged):
    [line] = logged("/items/7/?q=a%20b", HTTP_USER_AGENT="Mozilla/5.0", HTTP_REFERER="https://forum.example.org/")

    assert line.startswith("127.0.0.1 - - [")
    assert line.endswith('"GET /items/7/?q=a%20b HTTP/1.1" 200 12 "https://forum.example.org/" "Mozilla/5.0"')
    today = timezone.localdate()
    wanted = (today, "127.0.0.1", 200, "GET", "/items/7/?q=a%20b", "https://forum.example.org/", "Mozilla/5.0")
    assert parse_line(line.encode()) == LogEntry(*wanted)


def test_a_time_has_the_english_name_of_the_month_and_the_time_zone(caplog):
    caplog.set_level(logging.INFO, "example_project.access")

    access_log.write("192.0.2.1", datetime(2026, 3, 5, 9, 8, 7, tzinfo=UTC), "GET / HTTP/1.1", status=404, size="-")

    assert caplog.messages == ['192.0.2.1 - - [05/Mar/2026:09:08:07 +0000] "GET / HTTP/1.1" 404 - "-" "-"']


@pytest.mark.parametrize(
    "text",
    ['" 200 1 "', "\\", '\\"', "line\nbreak\r", "\0\x1b[31m", "żółw 乌龟", '"' * 100_000, "\\" * 499, "x" * 499 + '"'],
)
def test_hostile_headers_do_not_break_the_line(logged, text):
    [line] = logged("/", HTTP_USER_AGENT=text, HTTP_REFERER=text)

    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 8_192
    entry = parse_line(line.encode())
    assert entry is not None
    assert (entry.address, entry.status, entry.path) == ("127.0.0.1", 200, "/")


def test_long_paths_and_streamed_responses_are_logged(logged):
    [long] = logged("/search/?q=" + '"' * 5_000)
    [streamed] = logged("/", StreamingHttpResponse([b"a", b"b"]))

    assert parse_line(long.encode()) is not None
    assert len(long) < 8_192
    assert ' 200 - "' in streamed


def test_files_of_the_page_are_not_logged(logged):
    assert logged("/static/market/market.css") == []
    assert logged("/favicon.ico") == []


@pytest.mark.parametrize(
    ("remote", "header", "address"),
    [
        ("127.0.0.1", "192.88.99.7", "192.88.99.7"),
        ("::1", "10.0.0.1, 192.88.99.7", "192.88.99.7"),
        ("127.0.0.1", "4000:1:0::1", "4000:1::1"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", 'x" - - [', "127.0.0.1"),
        ("127.0.0.1", 'fe80::1%a" b', "fe80::1"),
        ("203.0.113.9", "192.88.99.7", "203.0.113.9"),
        ("", "192.88.99.7", "-"),
    ],
)
def test_the_header_counts_in_requests_from_this_machine_only(remote, header, address):
    headers = {} if header is None else {"X-Forwarded-For": header}

    assert visitor_address(RequestFactory().get("/", REMOTE_ADDR=remote, headers=headers)) == address


def test_a_large_log_is_renamed_and_the_oldest_file_replaced(tmp_path: Path):
    log = tmp_path / "access.log"
    rotated = []

    for number in range(6):
        log.write_text(f"line {number}\n")
        rotated.append(access_log.rotate(log, max_bytes=7))

    assert rotated == [True] * 6
    assert not log.exists()
    assert [path.name for path in access_log.files(log)] == ["access.log.1", "access.log.2", "access.log.3"]
    assert [path.read_text() for path in access_log.files(log)] == ["line 5\n", "line 4\n", "line 3\n"]


def test_a_small_or_missing_log_is_not_rotated(tmp_path: Path):
    log = tmp_path / "access.log"

    assert not access_log.rotate(log, max_bytes=7)
    log.write_text("line\n")
    assert not access_log.rotate(log, max_bytes=7)
    assert access_log.files(log) == [log]
