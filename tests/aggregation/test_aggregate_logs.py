"""`manage.py aggregate_logs`: processes that are killed, exit codes, output."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.management import CommandError, call_command

from django_redis_components.aggregation import LogAggregator, LogEntry
from django_redis_components.core.decompression import zstd_module
from django_redis_components.geoip import IpLookup, IpRange, Place
from tests.aggregation.logs import DAYS, plain_count, write_log
from tests.management.support import command_data, refusal, run_command
from tests.support import Child, Store, eventually
from tests.support.processes import MEASURED, UNMEASURED, Children
from tests.taskqueue.hostile.errors import TextError


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


def visits(name: str = "visits-path") -> LogAggregator:
    return LogAggregator(name)


def counted() -> Counter[tuple[date, str]]:
    return Counter({(day, key): count for day in DAYS for key, count in visits().totals(day).items()})


def start(children: Children, logs: list[Path], processes: int, env: dict[str, str] = UNMEASURED) -> Child:
    """Start the command in a process. Coverage need not measure it: `aggregate` runs the same lines."""
    options = ("--by", "path", "--processes", str(processes), "--json")
    return children.manage("aggregate_logs", *map(str, logs), *options, env=env)


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
    command = start(children, logs, 2, MEASURED)
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
    IpLookup(source="ranges").rebuild([IpRange("8.0.0.0", "8.255.255.255", Place("US"))])
    log = write_log(tmp_path / "access.log", 500)

    result, errors = aggregate(log)

    [file] = result["files"]
    assert file["lines"] + file["bad"] == 500
    assert file["bad"] > 0
    assert re.search(
        rf"access.log: not counted: {file['bad']} lines without a request or an address; the first at",
        errors,
    )
    assert f"access.log: more than half of the lines, {file['unknown']} of {file['lines']}, are from unknown" in errors
    assert visits("visits").totals(*DAYS[::2]).keys() == {"US", "ZZ"}
    assert visits("visits").count("ZZ", *DAYS[::2]) == file["unknown"]


def test_keys_are_fields_or_dotted_paths(redis_server: Store, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 100)

    aggregate(log, "--by", "status")
    aggregate(log, "--by", "path")
    aggregate(log, "--by", "address", "--name", "addresses")
    aggregate(log, "--by", "tests.aggregation.logs.by_path")

    assert LogAggregator("visits-status").totals(*DAYS[::2]).keys() == {"200"}
    assert "/login/" in LogAggregator("visits-path").totals(*DAYS[::2])
    assert "/login/" in LogAggregator("visits-tests.aggregation.logs.by_path").totals(*DAYS[::2])
    assert all(address.count(".") == 3 for address in LogAggregator("addresses").totals(*DAYS[::2]))


def test_paths_are_counted_without_their_queries(redis_server: Store, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    paths = ("/items/7/?token=secret", "/items/7/", "/items/7/?", "?q=1")
    log.write_text("".join(f'8.8.8.8 - - [10/Oct/2026:00:00:01 +0200] "GET {path} HTTP/1.1" 200 1\n' for path in paths))

    aggregate(log, "--by", "path")

    assert visits().totals(DAYS[0]) == {"/items/7/": 3, "-": 1}


def test_paths_without_queries_are_not_added_to_counts_of_whole_paths(redis_server: Store, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 50)
    LogAggregator("visits-path", key=lambda entry: entry.path, key_name="LogEntry.path").add_file(log)

    with pytest.raises(CommandError, match=r"counts by 'LogEntry.path', and not by 'LogEntry.path_without_query'"):
        aggregate(log, "--by", "path")


@pytest.mark.parametrize("processes", [1, 2])
def test_file_that_cannot_be_read_to_its_end_is_exit_code_1(
    processes: int, redis_server: Store, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 20_000)
    torn = tmp_path / "torn.gz"
    torn.write_bytes(gzip.compress(write_log(tmp_path / "other.log", 20_000, 1).read_bytes())[:-500])

    with pytest.raises(CommandError, match=r"torn.gz: the data end before .*The lines before were counted") as raised:
        aggregate(torn, log, "--by", "path", "--processes", processes)

    assert raised.value.returncode == 1
    assert visits().count(None, *DAYS[::2]) > plain_count(log.read_text()).total()


def test_wrong_format_is_reported_and_its_lines_are_counted_by_the_next_run(
    redis_server: Store, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 50)

    with pytest.raises(
        CommandError, match=r"nothing was counted, because more than half of the first 50 lines"
    ) as raised:
        aggregate(log, "--by", "path", "--format", "caddy")
    assert "the format right? It looks like another format, which is read without --format. --accept" in str(
        raised.value
    )

    aggregate(log, "--by", "path")
    assert counted() == plain_count(log.read_text())


def test_single_bad_line_is_no_failure(redis_server: Store, tmp_path: Path) -> None:
    log, new = write_log(tmp_path / "access.log", 50), tmp_path / "new.log"
    new.write_text("junk\n")
    aggregate(log, "--by", "path")
    with log.open("a") as file:
        file.write("junk\n")

    result, errors = aggregate(log, new, "--by", "path")

    assert [(each["bad"], each["uncounted"]) for each in result["files"]] == [(1, 0), (0, 1)]
    assert "new.log: not counted yet: 1 line, of which most are no requests, or have no address" in errors


@pytest.mark.parametrize("processes", [1, 2])
def test_file_with_a_problem_does_not_stop_the_others(processes: int, redis_server: Store, tmp_path: Path) -> None:
    changed, good = write_log(tmp_path / "changed.log", 50), write_log(tmp_path / "good.log", 50, 1)
    aggregate(changed, "--by", "path")
    os.truncate(changed, 1_000)

    with pytest.raises(CommandError) as raised:
        aggregate(tmp_path / "missing.log", changed, good, "--by", "path", "--processes", processes)

    assert raised.value.returncode == 1
    assert re.search(r"missing.log: No such file or directory\. \S+changed.log: The log file", str(raised.value))
    lines = {Path(each.name).name: each.lines for each in visits().files()}
    assert lines["good.log"] == plain_count(good.read_text()).total()


def failing_key(entry: LogEntry) -> str:
    raise ValueError("é" * 1_000)


@pytest.mark.parametrize("processes", [1, 2])
def test_error_of_the_key_function_is_reported_with_its_text(
    processes: int, redis_server: Store, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 50)

    with pytest.raises(CommandError, match=f"access.log: ValueError: {'é' * 1_000}$") as raised:
        aggregate(log, "--by", f"{__name__}.failing_key", "--processes", processes)

    assert raised.value.returncode == 1


def key_with_a_broken_error(entry: LogEntry) -> str:
    raise TextError


@pytest.mark.parametrize("processes", [1, 2])
def test_error_of_the_key_function_without_a_text_is_reported(
    processes: int, redis_server: Store, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "access.log", 50)

    with pytest.raises(CommandError, match=r"access\.log: TextError: <no text: SystemExit>"):
        aggregate(log, "--by", f"{__name__}.key_with_a_broken_error", "--processes", processes)


def test_more_jobs_than_a_pipe_holds_are_counted(
    redis_server: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("log_files", "cursor", "counting"):
        monkeypatch.setattr(f"django_redis_components.aggregation.{module}.SEGMENT_BYTES", 20)
    log = write_log(tmp_path / "access.log", 300)

    result, _ = aggregate(*[log] * 2, "--by", "path", "--processes", "2")

    assert log.stat().st_size / 20 > 1_500
    assert result["files"][0]["lines"] == plain_count(log.read_text()).total()
    assert counted() == plain_count(log.read_text())


def test_zstd_files_are_counted(redis_server: Store, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 300)
    text = log.read_text()
    log.write_bytes(zstd_module().compress(text[:5_000].encode()) + zstd_module().compress(text[5_000:].encode()))

    aggregate(log, "--by", "path")

    assert counted() == plain_count(text)


@pytest.mark.parametrize("processes", [1, 2])
def test_other_key_under_the_same_name_is_refused(processes: int, redis_server: Store, tmp_path: Path) -> None:
    log, other = write_log(tmp_path / "access.log", 50), write_log(tmp_path / "other.log", 50, 1)
    aggregate(log, "--by", "path", "--name", "x")

    for file in (other, log):  # all lines of the second one are marked as counted
        with pytest.raises(
            CommandError,
            match=r"counts by 'LogEntry.path_without_query', and not by 'LogEntry.status'. Nothing was counted.",
        ) as raised:
            aggregate(file, "--by", "status", "--name", "x", "--processes", processes)
        assert raised.value.returncode == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_pipes_and_devices_are_reported_without_waiting(processes: int, redis_server: Store, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.log")
    (tmp_path / "device.log").symlink_to("/dev/null")
    good = write_log(tmp_path / "good.log", 50)

    with pytest.raises(CommandError) as raised:
        aggregate(
            tmp_path / "fifo.log", tmp_path / "device.log", tmp_path, good, "--by", "path", "--processes", processes
        )

    for name in ("fifo.log", "device.log"):
        assert f"{name}: not a regular file, but a pipe or a device." in str(raised.value)
    assert "Is a directory." in str(raised.value)
    assert counted() == plain_count(good.read_text())
    with pytest.raises(CommandError, match="not a regular file, but a pipe or a device"):
        call_command("redis", "aggregation", "recount", "visits-path", str(tmp_path / "fifo.log"))


def test_recount_names_a_file_that_no_installed_package_reads(
    redis_server: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, module, None)
    packed, plain = tmp_path / "access.log.zst", write_log(tmp_path / "access.log", 5)
    packed.write_bytes(b"\x28\xb5\x2f\xfd")
    aggregate(plain, "--by", "path")

    with pytest.raises(CommandError, match=r"access\.log\.zst: Reading zstd files needs the package backports\.zstd"):
        call_command("redis", "aggregation", "recount", "visits-path", str(packed), str(plain))

    [counted_again] = aggregate(plain, "--by", "path")[0]["files"]
    assert counted_again["lines"] > 0


def test_lines_without_an_address_are_refused_by_keys_that_need_one(redis_server: Store, tmp_path: Path) -> None:
    IpLookup(source="ranges").rebuild([IpRange("8.0.0.0", "8.255.255.255", Place("US"))])
    log = tmp_path / "access.log"
    log.write_text(write_log(tmp_path / "x.log", 50).read_text().replace(" - - [", "x - - ["))

    for by in ("country", "city", "address"):
        with pytest.raises(CommandError, match=r"lines are no requests, or have no address that the key needs; is the"):
            aggregate(log, "--by", by)
        assert visits(f"visits-{by}").files() == []
    assert LogAggregator("visits").files() == []
    aggregate(log, "--by", "path")
    assert counted() == plain_count(log.read_text().replace("x - - [", " - - ["))


def test_lines_behind_a_prefix_are_counted_at_their_places(redis_server: Store, tmp_path: Path) -> None:
    IpLookup(source="ranges").rebuild([IpRange("8.0.0.0", "8.255.255.255", Place("US"))])
    log = tmp_path / "access.log"
    request = ' - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1\n'
    before = ["", "Nov 25 10:00:00 web1 nginx: ", "2026-11-25T10:00:00Z stdout F ", "nginx_1 | "]
    addresses = ["8.8.8.8", "8.8.8.8, 10.0.0.1", "8.8.8.8:4711", "::ffff:8.8.8.8", "64:ff9b::808:808"]
    log.write_text("".join(one + other + request for one in before for other in addresses) + f"-{request}")

    result, _ = aggregate(log)

    assert (result["files"][0]["lines"], result["files"][0]["bad"]) == (20, 1)
    assert LogAggregator("visits").totals(DAYS[0]) == {"US": 20}


def test_line_with_an_impossible_time_does_not_end_the_file(redis_server: Store, tmp_path: Path) -> None:
    log, lines = tmp_path / "access.log", []
    for ts in (1791640536, 10**309, 1791640536):
        lines.append(json.dumps({"ts": ts, "status": 200, "request": {"remote_ip": "8.8.8.8", "uri": "/a"}}) + "\n")
    log.write_text("".join(lines))

    aggregate(log, "--by", "path")

    assert counted() == {(DAYS[0], "/a"): 2}


def test_forgotten_files_are_counted_again_and_counts_are_deleted(redis_server: Store, tmp_path: Path) -> None:
    log = write_log(tmp_path / "access.log", 50)
    aggregate(log, "--by", "path")

    assert command_data("redis", "aggregation", "recount", "visits-path", str(log)) == {"to_recount": 1}
    aggregate(log, "--by", "path")
    assert counted().total() == 2 * plain_count(log.read_text()).total()
    words = ("redis", "aggregation", "delete", "visits-path")
    assert refusal(*words) == "Nothing was removed. No terminal to ask for confirmation; pass --yes."
    assert command_data(*words, "--yes") == {"name": "visits-path", "deleted": True}
    assert run_command(*words, "--yes") == '"visits-path" has no counts.\n'

    keys = redis_server.keys()
    assert [key for key in keys if not key.endswith(b":commands")] == []  # the log of the commands stays


@pytest.mark.contract
def test_command_counts_in_processes_on_every_store(store: Store, tmp_path: Path) -> None:
    logs = [write_log(tmp_path / f"{seed}.log", 500, seed) for seed in range(3)]

    aggregate(*logs, "--by", "path", "--processes", "2")
    aggregate(*logs, "--by", "path", "--processes", "2")

    assert counted() == plain_count(*(log.read_text() for log in logs))


@pytest.mark.parametrize(
    ("args", "error", "code"),
    [
        (["x", "--by", "town"], "--by town: expected country, region, city, path,", 2),
        (["x", "--by", "no.such.function"], "No module named 'no'", 2),
        (["x", "--name", "a{b"], "a{b", 2),
        (["/no/file", "--by", "path"], "/no/file: No such file or directory.", 1),
        ([], "the following arguments are required: FILE", 1),
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
