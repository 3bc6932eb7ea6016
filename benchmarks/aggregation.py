"""Log files counted in two processes, one of them killed, beside reading the file alone; look-ups beside maxminddb.

    python -m benchmarks.aggregation [--lines 2000000] [--processes 2] [--lookups 5000] [--ranges 300000]

Writes synthetic files to a temporary directory: a log of the combined format, ranges of countries, and the same as a
database file. Prints the lines per second of reading the lines of the file, of counting it by country in one process
and in several, and of a plain loop in Python with the same regular expression for the format; whether the totals are
equal after all processes were killed in the middle and the command was run again; the memory of a range; and the median
time of a look-up. Exits with 1 if totals or countries are wrong. ``REDIS_URL`` names another server.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from benchmarks.locks import set_up
from example_project.localserver import LocalServer

ROOT = Path(__file__).resolve().parents[1]
#: Days of the log.
DAYS = [date(2026, 10, day) for day in range(1, 11)]
COUNTRIES = ("US", "FR", "DE", "JP", "BR", "IN", "NG", "AU")
#: First address of the ranges, and addresses of a range. Every eighth range is a gap.
FIRST, SIZE = int(IPv4Address("11.0.0.0")), 256
#: Different visitors of the log.
VISITORS = 20_000


def main() -> None:
    """Measure, and print the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=2_000_000, help="of the log (default: 2000000)")
    parser.add_argument("--processes", type=int, default=2, help="that count it (default: 2)")
    parser.add_argument("--lookups", type=int, default=5_000, help="of each row (default: 5000)")
    parser.add_argument("--ranges", type=int, default=300_000, help="of countries (default: 300000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        if url := os.environ.get("REDIS_URL"):
            is_right = measure(url, Path(directory), options)
        else:
            with LocalServer(directory=Path(directory)) as server:
                is_right = measure(server.url, Path(directory), options)
    if not is_right:
        sys.exit("Totals or countries are wrong.")


def measure(url: str, folder: Path, options: argparse.Namespace) -> bool:
    """Print all rows; return whether all countries and totals are right."""
    set_up(url)
    is_right = measure_lookups(folder, options)
    log = write_log(folder / "access.log", options)
    return measure_log(url, log, options) and is_right


def measure_lookups(folder: Path, options: argparse.Namespace) -> bool:
    """Load ranges, and look addresses up in each source; return whether all countries are right."""
    import maxminddb

    from django_redis_components.geoip import IpLookup, country_of

    ranges, client = IpLookup(source="ranges"), raw_client()
    before = client.info("memory")["used_memory"]
    started_at = time.perf_counter()
    ranges.rebuild(country_ranges(options.ranges))
    info = ranges.info()
    took_s = time.perf_counter() - started_at
    used = client.info("memory")["used_memory"] - before
    print(f"load {info.ranges:,} ranges: {took_s:.1f} s, {used / info.ranges:.1f} bytes a range in Redis")
    path = write_mmdb_of(folder, min(options.ranges, 20_000))
    reader, file = maxminddb.open_database(str(path)), IpLookup(mmdb=path)
    rng = random.Random(1)
    ips = [str(IPv4Address(FIRST + rng.randrange(options.ranges * SIZE))) for _ in range(options.lookups)]
    rows: dict[str, Callable[[str], Any]] = {
        "maxminddb itself": reader.get,
        "IpLookup, database file": file.lookup,
        "IpLookup, ranges in Redis": ranges.lookup,
        "country_of, remembered": country_of,
        "PING": lambda _: client.ping(),
    }
    for name, call in rows.items():
        asked = ips if "remembered" not in name else ips[:100] * (len(ips) // 100 + 1)
        print(f"{name:28} p50 {p50_us(call, asked):8.2f} us")
    started_at = time.perf_counter()
    found = ranges.lookup_many(ips)
    took_s = time.perf_counter() - started_at
    print(f"{'lookup_many, ranges':28}     {took_s / len(ips) * 1e6:8.2f} us an address")
    wrong = sum(place.country != expected(ip, options.ranges) for ip, place in zip(ips, found, strict=True))
    print(f"wrong countries: {wrong} of {len(ips):,}")
    return wrong == 0


def p50_us(call: Callable[[str], Any], ips: list[str]) -> float:
    """Return the median time of a call in microseconds."""
    times = []
    for ip in ips:
        started_at = time.perf_counter()
        call(ip)
        times.append(time.perf_counter() - started_at)
    return statistics.median(times) * 1e6


def measure_log(url: str, log: Path, options: argparse.Namespace) -> bool:
    """Count a log in each way; return whether all totals are equal."""
    from django_redis_components.aggregation import LogAggregator, PlaceKey
    from django_redis_components.geoip import IpLookup

    size_mb = log.stat().st_size / 1e6
    print(f"\nlog of {options.lines:,} lines, {size_mb:.0f} MB")
    read_s = timed(lambda: read_lines(log))
    print(f"{'read the lines alone':28} {options.lines / read_s:12,.0f} lines/s")
    plain_s, plain = timed_value(lambda: plain_count(log, options))
    print(f"{'plain loop, country':28} {options.lines / plain_s:12,.0f} lines/s")
    one = LogAggregator("one", key=PlaceKey("country", IpLookup()))
    one_s = timed(lambda: one.add_file(log))
    results = [totals(one) == plain]
    print(f"{'one process, ranges':28} {options.lines / one_s:12,.0f} lines/s   totals equal: {results[0]}")
    for name, kill in (("several", False), ("killed", True)):
        seconds = command_s(url, log, name, options, kill=kill)
        again = LogAggregator(name)
        results.append(totals(again) == plain)
        row = f"{options.processes} processes" + (", killed, run again" if kill else "")
        print(f"{row:28} {options.lines / seconds:12,.0f} lines/s   totals equal: {results[-1]}")
    return all(results)


def command_s(url: str, log: Path, name: str, options: argparse.Namespace, *, kill: bool) -> float:
    """Run the command; kill it in the middle and run it again. Return the seconds of all runs, with start-up."""
    argv = [sys.executable, "-m", "benchmarks.aggregation_command", url, str(log), name, str(options.processes)]
    started_at = time.perf_counter()
    if kill:
        from django_redis_components.aggregation import LogAggregator

        killed = subprocess.Popen(argv, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL)
        while LogAggregator(name).count(None, DAYS[0], DAYS[-1]) < options.lines / 3 and killed.poll() is None:
            time.sleep(0.01)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        counted = LogAggregator(name).count(None, DAYS[0], DAYS[-1])
        print(f"killed after {counted:,} of {options.lines:,} lines")
    subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started_at


def totals(aggregator: Any) -> Counter[tuple[date, str]]:
    """Return all counts of an aggregator."""
    return Counter({(day, key): count for day in DAYS for key, count in aggregator.totals(day).items()})


def country_ranges(count: int) -> Iterator[Any]:
    """Yield ranges of countries, with gaps."""
    from django_redis_components.geoip import IpRange, Place

    for number in range(count):
        start = FIRST + number * SIZE
        if country := country_at(number):
            yield IpRange(IPv4Address(start), IPv4Address(start + SIZE - 1), Place(country))


def country_at(number: int) -> str:
    """Return the country of a range; "" for a gap. Neighbors differ."""
    return "" if number % 8 == 7 else COUNTRIES[(number * 5 + number // 8) % len(COUNTRIES)]


def expected(ip: str, ranges: int) -> str:
    """Return the country of an address."""
    number = (int(IPv4Address(ip)) - FIRST) // SIZE
    return (country_at(number) if number < ranges else "") or "ZZ"


def write_mmdb_of(folder: Path, count: int) -> Path:
    """Write a database file of the first ranges."""
    from tests.geoip.mmdb import write_mmdb

    networks = {
        f"{IPv4Address(FIRST + number * SIZE)}/24": {"country": {"iso_code": country_at(number)}}
        for number in range(count)
        if country_at(number)
    }
    return write_mmdb(folder / "countries.mmdb", networks)


def write_log(path: Path, options: argparse.Namespace) -> Path:
    """Write a log of the combined format, with a bad line in a thousand."""
    rng = random.Random(0)
    ips = [str(IPv4Address(FIRST + rng.randrange(options.ranges * SIZE))) for _ in range(VISITORS)]
    agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36"
    with path.open("w") as file:
        for number in range(options.lines):
            if number % 1_000 == 999:
                file.write("junk\n")
                continue
            day = DAYS[number * len(DAYS) // options.lines]
            file.write(
                f"{rng.choice(ips)} - - [{day:%d/%b/%Y}:12:{number % 60:02}:00 +0000]"
                f' "GET /items/{number % 977}/ HTTP/1.1" 200 {number} "-" "{agent}"\n'
            )
    return path


def read_lines(log: Path) -> int:
    """Read the lines of a file."""
    with log.open("rb") as file:
        return sum(1 for _ in file)


def plain_count(log: Path, options: argparse.Namespace) -> Counter[tuple[date, str]]:
    """Count countries by day in a plain loop, without the package."""
    pattern = re.compile(rb'([\d.]+) - - \[(\d\d)/Oct/2026:[^]]*\] "[^"]*" \d+ \d+ "[^"]*" "[^"]*"')
    addresses: Counter[tuple[bytes, bytes]] = Counter()
    with log.open("rb") as file:
        for line in file:
            if match := pattern.match(line):
                addresses[match[2], match[1]] += 1
    found: Counter[tuple[date, str]] = Counter()
    for (day, ip), count in addresses.items():
        found[date(2026, 10, int(day)), expected(ip.decode(), options.ranges)] += count
    return found


def raw_client() -> Any:
    """Return a plain client of the server."""
    import redis
    from django.conf import settings

    return redis.Redis.from_url(settings.REDIS_COMPONENTS["CONNECTIONS"]["default"]["URL"])


def timed(call: Callable[[], Any]) -> float:
    """Return the seconds of a call."""
    return timed_value(call)[0]


def timed_value(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds of a call, and its value."""
    started_at = time.perf_counter()
    value = call()
    return time.perf_counter() - started_at, value


if __name__ == "__main__":
    main()
