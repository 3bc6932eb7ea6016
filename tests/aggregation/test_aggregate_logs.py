"""`manage.py aggregate_logs`: processes that are killed, exit codes, output."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import CommandError, call_command

from django_redis_components.aggregation import IpLookup, IpRange, LogAggregator, Place
from tests.aggregation.logs import DAYS, plain_count, write_log
from tests.support import Child, Store, eventually
from tests.support.processes import Children


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    """Twelve files of 20,000 lines, every third one compressed."""
    folder = tmp_path_factory.mktemp("logs")
    paths = [write_log(folder / f"{seed}.log", 20_000, seed) for seed in range(12)]
    for path in paths[::3]:
        path.write_bytes(gzip.compress(path.read_bytes(), 1))
    return paths


@pytest.fixture(scope="module")
def expected(logs: list[Path]) -> Counter[tuple[date, str]]:
    data = [path.read_bytes() for path in logs]
    return plain_count(*((gzip.decompress(each) if each[:1] == b"\x1f" else each).decode() for each in data))


def visits() -> LogAggregator:
    return LogAggregator("visits")


def counted() -> Counter[tuple[date, str]]:
    return Counter({(day, key): count for day in DAYS for key, count in visits().totals(day).items()})


def start(children: Children, logs: list[Path], processes: int) -> Child:
    return children.manage("aggregate_logs", *map(str, logs), "--by", "path", "--processes", str(processes), "--json")


def aggregate(*args: Any) -> tuple[dict[str, Any], str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("aggregate_logs", *args, "--json", stdout=out, stderr=err)
    return json.loads(out.getvalue()), err.getvalue()


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_command_is_repeated_without_loss_or_double_count(
    processes: int, redis_server: Store, children: Children, logs: list[Path], expected: Counter[tuple[date, str]]
) -> None:
    killed = start(children, logs, processes)
    eventually(lambda: counted().total() > 0)
    os.killpg(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert 0 < counted().total() < expected.total()

    again = start(children, logs, processes)

    assert again.wait() == 0, again.output
    assert counted() == expected


def test_killed_worker_process_is_reported_and_the_next_run_continues(
    redis_server: Store, children: Children, logs: list[Path], expected: Counter[tuple[date, str]]
) -> None:
    command = start(children, logs, 2)
    eventually(lambda: counted().total() > 0)
    psutil.Process(command.pid).children()[0].kill()
    assert command.wait() == 1
    assert "A process ended with exit code -9. Nothing is lost: run the command again." in command.output

    again = start(children, logs, 2)

    assert again.wait() == 0, again.output
    assert counted() == expected


def test_two_commands_at_once_count_each_line_once(
    redis_server: Store, children: Children, logs: list[Path], expected: Counter[tuple[date, str]]
) -> None:
    commands = [start(children, logs, 1) for _ in range(2)]

    reports = []
    for command in commands:
        assert command.wait() == 0, command.output
        [line] = [line for line in command.lines if line.startswith("{")]
        reports.append(sum(file["lines"] for file in json.loads(line)["files"]))

    assert sum(reports) == expected.total()
    assert counted() == expected


def test_large_file_is_divided_among_processes(
    redis_server: Store, children: Children, tmp_path: Path, logs: list[Path]
) -> None:
    log = tmp_path / "large.log"
    text = "".join(path.read_text() for path in logs[1:3]) * 5
    log.write_text(text)

    command = start(children, [log], 2)

    assert command.wait() == 0, command.output
    assert counted() == plain_count(text)


def test_countries_are_counted_by_default_and_bad_lines_reported(redis_server: Store, tmp_path: Path) -> None:
    IpLookup(source="ranges").load([IpRange("8.0.0.0", "8.255.255.255", Place("US"))])
    log = write_log(tmp_path / "access.log", 500)

    result, errors = aggregate(log)

    [file] = result["files"]
    assert file["lines"] + file["bad"] == 500
    assert file["bad"] > 0
    assert re.search(
        rf"access.log: {file['bad']} lines are no requests and are not counted; the first begin at the", errors
    )
    assert visits().totals(*DAYS[::2]).keys() == {"US", "ZZ"}


def test_keys_are_fields_or_dotted_paths(redis_server: Store, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 100)

    aggregate(log, "--by", "status", "--name", "status")
    aggregate(log, "--by", "tests.aggregation.logs.by_path", "--name", "paths")

    assert LogAggregator("status").totals(*DAYS[::2]).keys() == {"200"}
    assert "/login/" in LogAggregator("paths").totals(*DAYS[::2])


@pytest.mark.parametrize("processes", [1, 2])
def test_file_that_cannot_be_read_to_its_end_is_exit_code_1(
    processes: int, redis_server: Store, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 20_000)
    torn = tmp_path / "torn.gz"
    torn.write_bytes(gzip.compress(write_log(tmp_path / "other.log", 20_000, 1).read_bytes())[:-500])

    with pytest.raises(CommandError, match=r"torn.gz: Compressed file ended .*The lines before were counted") as raised:
        aggregate(torn, log, "--by", "path", "--processes", processes)

    assert raised.value.returncode == 1
    assert visits().count(None, *DAYS[::2]) > plain_count(log.read_text()).total()


def test_wrong_format_is_reported(redis_server: Store, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="more than half of the lines are no requests; is the format right"):
        aggregate(write_log(tmp_path / "access.log", 50), "--format", "caddy")


@pytest.mark.parametrize(
    ("args", "error", "code"),
    [
        (["x", "--by", "town"], "--by town: expected country, region, city, path,", 2),
        (["x", "--by", "no.such.function"], "No module named 'no'", 2),
        (["x", "--name", "a{b"], "a{b", 2),
        (["/no/file"], "Cannot read /no/file: No such file or directory.", 1),
    ],
)
def test_arguments_are_checked(args: list[str], error: str, code: int) -> None:
    with pytest.raises(CommandError, match=re.escape(error)) as raised:
        aggregate(*args)

    assert raised.value.returncode == code


@pytest.mark.parametrize("processes", [1, 2])
def test_unavailable_redis_is_exit_code_3(processes: int, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Redis is unavailable") as raised:
        aggregate(write_log(tmp_path / "access.log", 50), "--by", "path", "--processes", processes)

    assert raised.value.returncode == 3
