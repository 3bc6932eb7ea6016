"""Places of IP addresses: from ranges in Redis and from a database file."""

from __future__ import annotations

import functools
import ipaddress
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError

from django_redis_components.exceptions import RebuildSuperseded
from django_redis_components.geoip import (
    UNKNOWN,
    DatabaseUnavailable,
    InvalidRange,
    IpLookup,
    IpRange,
    Place,
    country,
    country_of,
)
from django_redis_components.geoip.blocks import BLOCK_RANGES, Block, blocks
from django_redis_components.geoip.places import pack, pack_public
from tests.geoip.mmdb import write_mmdb
from tests.support import Proxy, Store, eventually, run_async

US, FR, JP = Place("US", "California", "Mountain View"), Place("FR", "Île-de-France", "Paris"), Place("JP")
#: Gaps: 8.8.9.0 to 9.255.255.255, and between the IPv6 ranges.
RANGES = [
    IpRange("8.8.8.0", "8.8.8.255", US),
    IpRange("90.0.0.0", "90.255.255.255", FR),
    IpRange("2001:4860::", "2001:4860:ffff:ffff:ffff:ffff:ffff:ffff", US),
    IpRange("2a01:cb00::", "2a01:cb00::ffff", FR),
]
JUNK = [
    "",
    "-",
    "unknown",
    "example.org",
    "1.2.3",
    "[::1]",
    "8.8.8.8\0",
    "８.8.8.8",
    "08.8.8.8",
]


@pytest.fixture
def no_dns(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        monkeypatch.setattr(socket, name, functools.partial(_only_the_server, getattr(socket, name)))


def _only_the_server(genuine: Any, host: str, *args: Any, **options: Any) -> Any:
    assert host == "127.0.0.1", f"asked the DNS for {host!r}"
    return genuine(host, *args, **options)


def lookup(**options: Any) -> IpLookup:
    return IpLookup("test", source="ranges", **options)


@pytest.mark.contract
def test_addresses_are_found_in_ranges_of_both_families_and_gaps_are_unknown(store: Store) -> None:
    places = lookup()

    assert places.rebuild(RANGES, source="test.csv") == 4

    info = places.info()
    assert (info.ranges, info.source, info.loaded_at is not None) == (4, "test.csv", True)
    asked = [
        "8.8.8.0",
        "8.8.8.255",
        "8.8.9.0",
        "8.8.7.255",
        "90.7.7.7",
        "2001:4860::8888",
        "2001:4861::",
        "2a01:cb00::1",
    ]
    assert places.lookup_many(asked) == [US, US, UNKNOWN, UNKNOWN, FR, US, UNKNOWN, FR]
    assert places.lookup("::ffff:8.8.8.8") == US
    assert places.lookup(ipaddress.ip_address("8.8.8.8")) == US


ADDRESSES = [
    "8.8.8.8:80", " 8.8.8.8", "::ffff:8.8.8.8", "::ffff:808:808", "[::ffff:8.8.8.8]:80", "64:ff9b::8.8.8.8",
    ipaddress.ip_address("64:ff9b::808:808"), ipaddress.ip_address("::ffff:8.8.8.8"),
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES, ids=str)
def test_address_is_looked_up_in_any_form(address: Any, redis_server: Store, settings: Any, tmp_path: Path) -> None:
    places = lookup()
    places.rebuild([IpRange("8.8.8.0", "8.8.8.255", US)])
    path = write_mmdb(tmp_path / "us.mmdb", {"8.8.8.0/24": {"country": {"iso_code": "US"}}})

    assert places.lookup(address) == US
    assert IpLookup(mmdb=path).lookup(address) == Place("US")
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"GEOIP": {"MMDB": str(path)}}
    assert country_of(address) == "US"


@pytest.mark.parametrize("ranges", [[], [IpRange("8.8.8.0", "8.8.8.255", UNKNOWN)]], ids=["empty", "ZZ"])
def test_load_without_ranges_is_refused_and_nothing_changes(ranges: list[IpRange], redis_server: Store) -> None:
    places = lookup()
    places.rebuild([IpRange("8.8.8.0", "8.8.8.255", US)])
    before = places.info()

    with pytest.raises(InvalidRange, match=r"^There are no ranges with a country. The former ranges stay in use; "):
        places.rebuild(ranges)
    with pytest.raises(InvalidRange):
        run_async(lambda: places.arebuild(ranges))

    assert places.info() == before
    assert places.lookup("8.8.8.8") == US


def test_database_file_without_countries_is_refused(tmp_path: Path) -> None:
    path = write_mmdb(tmp_path / "asn.mmdb", {"8.8.8.0/24": {"autonomous_system_organization": "Google"}})

    with pytest.raises(DatabaseUnavailable, match=r"asn.mmdb' cannot be read: it has no countries: its type is 'Test-"):
        IpLookup(mmdb=path).lookup("8.8.8.8")


def test_database_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.mmdb")

    with pytest.raises(DatabaseUnavailable, match="not a regular file, but a pipe or a device"):
        IpLookup(mmdb=tmp_path / "fifo.mmdb").lookup("8.8.8.8")


def test_private_addresses_are_unknown_also_if_a_range_has_them(redis_server: Store) -> None:
    places = lookup()
    places.rebuild([IpRange("0.0.0.0", "255.255.255.255", US), IpRange("::1:0:0:0", "ffff::", US)])

    private = ["10.0.0.1", "127.0.0.1", "192.168.1.1", "172.31.0.1", "100.64.0.1", "fe80::1", "fd00::1", "::1"]

    assert places.lookup_many([*private, "8.8.8.8"]) == [UNKNOWN] * len(private) + [US]
    assert Place("ZZ", "", "") == UNKNOWN


@pytest.mark.parametrize("junk", [*JUNK, None, 7, b"8.8.8.8"], ids=repr)
def test_text_that_is_no_address_is_unknown_and_not_resolved(
    junk: Any, redis_server: Store, no_dns: None, tmp_path: Path
) -> None:
    places = lookup()
    places.rebuild([IpRange("0.0.0.0", "255.255.255.255", US)])
    path = write_mmdb(tmp_path / "all.mmdb", {"0.0.0.0/1": {"country": {"iso_code": "US"}}})

    assert places.lookup_many([junk]) == [UNKNOWN]
    assert IpLookup(mmdb=path).lookup(junk) == UNKNOWN
    assert country_of(junk) == "ZZ"


@given(st.ip_addresses())
def test_private_addresses_of_the_standard_library_are_unknown(address: Any) -> None:
    if address.is_private and not getattr(address, "ipv4_mapped", None):
        assert pack_public(address) is None
    assert pack_public(str(address)) == pack_public(address)


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    places = lookup()

    async def scene() -> list[Any]:
        assert await places.arebuild(iter(RANGES)) == 4
        found = [await places.alookup("8.8.8.8"), await places.alookup_many(["90.0.0.1", "9.9.9.9"])]
        found.append((await places.ainfo()).ranges)
        assert (await places.adelete(), await places.adelete()) == (True, False)
        return [*found, (await places.ainfo()).ranges, await places.alookup("8.8.8.8")]

    assert run_async(scene) == [US, [FR, UNKNOWN], 4, 0, UNKNOWN]
    assert store.keys() == []


@pytest.mark.contract
def test_new_load_replaces_all_ranges_and_leaves_no_keys_behind(store: Store) -> None:
    places = lookup()
    places.rebuild(many_ranges(20_000))
    before = store.keys()

    places.rebuild(RANGES)

    assert places.lookup("8.8.8.8") == US
    assert places.info().ranges == 4
    keys = store.keys()
    assert len(keys) == len(before) == 3
    assert sorted(store.raw.ttl(key) for key in keys)[:2] == [-1, -1]
    assert 590 < store.raw.ttl(f"{store.prefix}:geoip:{{test}}:built") <= 600


def test_large_load_answers_like_a_linear_search(redis_server: Store) -> None:
    places, ranges = lookup(), list(many_ranges(5_000))
    places.rebuild(ranges)
    rng = random.Random(1)
    asked = [str(ipaddress.IPv4Address(rng.randrange(11 << 24, 12 << 24))) for _ in range(300)]

    expected = [next((each.place for each in ranges if each.start <= ip <= each.end), UNKNOWN) for ip in numbers(asked)]

    assert places.lookup_many(asked) == expected
    assert len(set(expected)) == 4


def many_ranges(count: int) -> Iterator[IpRange]:
    """Ranges of 256 to 768 addresses with gaps between them."""
    rng, at = random.Random(0), 11 << 24
    for _ in range(count):
        size = rng.choice([256, 512, 768])
        yield IpRange(ipaddress.IPv4Address(at), ipaddress.IPv4Address(at + size - 1), rng.choice([US, FR, JP]))
        at += size + rng.choice([0, 0, 256])


def numbers(texts: list[str]) -> list[Any]:
    return [ipaddress.ip_address(text) for text in texts]


def test_readers_see_the_former_ranges_until_a_load_is_complete(redis_server: Store) -> None:
    places = lookup()
    places.rebuild(RANGES)
    seen = []

    def ranges() -> Iterator[IpRange]:
        for number, each in enumerate(many_ranges(20_000)):
            if number % 7_000 == 0:
                seen.append(places.lookup_many(["8.8.8.8", "11.0.0.0"]))
            yield each

    places.rebuild(ranges())

    assert seen == [[US, UNKNOWN]] * 3
    assert places.lookup_many(["8.8.8.8", "11.0.0.0"])[0] == UNKNOWN


def test_error_in_a_load_leaves_the_former_ranges_only(redis_server: Store) -> None:
    places = lookup()
    places.rebuild(RANGES)
    before = redis_server.keys()

    def broken() -> Iterator[IpRange]:
        yield from many_ranges(10_000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        places.rebuild(broken())

    assert places.lookup("8.8.8.8") == US
    assert redis_server.keys() == before


def test_later_load_supersedes_an_earlier_one(redis_server: Store) -> None:
    places = lookup()

    def earlier() -> Iterator[IpRange]:
        yield from many_ranges(10_000)
        loaded = [key for key in redis_server.keys() if redis_server.raw.ttl(key) != -1]  # noqa: SIM118 - no dict
        assert [0 < redis_server.raw.ttl(key) <= 900 for key in loaded] == [True, True]
        places.rebuild(RANGES)

    with pytest.raises(RebuildSuperseded):
        places.rebuild(earlier())

    assert (places.info().ranges, places.lookup("8.8.8.8"), len(redis_server.keys())) == (4, US, 3)


def test_load_whose_blocks_were_removed_raises_and_changes_nothing(redis_server: Store) -> None:
    places = lookup()
    places.rebuild(RANGES)
    before = set(redis_server.keys())

    def evicted() -> Iterator[IpRange]:
        yield from many_ranges(10_000)
        redis_server.raw.unlink(*(key for key in set(redis_server.keys()) - before if not key.endswith(b":build")))

    with pytest.raises(RebuildSuperseded, match=r"rebuild of ranges 'test' was discarded: .* removed its keys\.$"):
        places.rebuild(evicted())

    assert places.lookup("8.8.8.8") == US


def test_load_survives_lost_replies(proxy: Proxy, redis_server: Store) -> None:
    places = lookup(using="proxied")
    places.rebuild(many_ranges(9_000))
    proxy.drop_next_reply(after=b"{test}", times=3)

    ranges = places.rebuild(RANGES)

    assert proxy.dropped == 3
    assert (ranges, places.lookup("90.0.0.1"), len(redis_server.keys())) == (4, FR, 3)


@pytest.mark.parametrize(
    ("ranges", "error"),
    [
        ([IpRange("8.8.8.8", "x", US)], "'x' is no IP address."),
        ([IpRange("example.org", "8.8.8.8", US)], "'example.org' is no IP address."),
        ([IpRange("8.8.8.8", "8.8.8.7", US)], "The range ends at 8.8.8.7, before its start 8.8.8.8."),
        ([IpRange("8.8.8.8", "2001::", US)], "The range 8.8.8.8 to 2001:: is partly IPv4 and partly IPv6."),
        (
            [IpRange("1.0.0.0", "1.0.0.9", US), IpRange("1.0.0.9", "1.0.1.0", FR)],
            "The range 1.0.0.9 to 1.0.1.0 overlaps",
        ),
        (
            [IpRange("9.0.0.0", "9.0.0.9", US), IpRange("8.0.0.0", "9.0.0.0", FR)],
            "The range 8.0.0.0 to 9.0.0.0 overlaps an earlier one, or is not in order",
        ),
    ],
)
def test_ranges_that_are_not_valid_are_refused(redis_server: Store, ranges: list[IpRange], error: str) -> None:
    with pytest.raises(InvalidRange, match=f"^{error}"):
        lookup().rebuild(ranges)

    assert lookup().info().ranges == 0


def test_ipv6_before_ipv4_and_neighbors_of_one_place_are_accepted(redis_server: Store) -> None:
    joined = [IpRange(f"20.0.{n}.0", f"20.0.{n}.255", JP) for n in range(256)]

    count = lookup().rebuild([*RANGES[2:], *RANGES[:2], *joined[:0], IpRange("7.0.0.0", "7.0.0.9", FR)])
    assert count == 5
    assert lookup().lookup_many(["7.0.0.1", "90.0.0.1", "2a01:cb00::"]) == [FR, FR, FR]

    assert lookup().rebuild(joined) == 1


def test_block_keeps_names_without_separators() -> None:
    [(data, count)] = blocks([IpRange("8.8.8.8", "8.8.8.8", Place("US", "a\tb\nc", "x" * 300))])

    assert count == 1
    assert Block(data).place(pack("8.8.8.8") or b"") == Place("US", "a b c", "x" * 100)


def test_memory_of_a_range_of_a_country_is_small() -> None:
    found = list(blocks(many_ranges(6_400)))

    assert max(count for _, count in found) == BLOCK_RANGES
    assert sum(len(data) for data, _ in found) / sum(count for _, count in found) < 12


def test_missing_ranges_are_reported_once(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    places = lookup()

    assert [places.lookup("8.8.8.8"), places.lookup("8.8.4.4")] == [UNKNOWN, UNKNOWN]
    [record] = caplog.records
    assert record.getMessage() == (
        "No ranges 'test' are loaded: all places are unknown. Load them by manage.py load_ip_ranges, or set"
        ' REDIS_COMPONENTS["GEOIP"]["MMDB"].'
    )


RECORDS = {
    "8.8.8.0/24": {
        "country": {"iso_code": "US", "names": {"en": "United States"}},
        "subdivisions": [{"iso_code": "CA", "names": {"en": "California"}}],
        "city": {"names": {"en": "Mountain View"}},
    },
    "90.0.0.0/8": {"country_code": "FR", "country": "France", "region": "Île-de-France", "city": "Paris"},
    "2001:4860::/32": {"country": {"iso_code": "US"}},
    "91.0.0.0/8": {"continent": {"code": "EU"}},
}


def test_database_file_is_read_without_redis(tmp_path: Path, no_dns: None) -> None:
    places = IpLookup(mmdb=write_mmdb(tmp_path / "city.mmdb", RECORDS))

    asked = ["8.8.8.8", "90.1.1.1", "2001:4860::8888", "91.0.0.1", "9.9.9.9", "10.0.0.1"]

    assert places.lookup_many(asked) == [US, FR, Place("US"), UNKNOWN, UNKNOWN, UNKNOWN]
    mapped = ["::ffff:8.8.8.8", ipaddress.IPv6Address("::ffff:90.1.1.1"), "::ffff:10.0.0.1"]
    assert places.lookup_many(mapped) == [US, FR, UNKNOWN]
    assert places.lookup(mapped[0]) == US
    assert run_async(lambda: places.alookup("8.8.8.8")) == US


def test_replaced_database_file_is_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.geoip.mmdb.CHECK_EVERY_S", 0)
    path = write_mmdb(tmp_path / "city.mmdb", RECORDS)
    places = IpLookup(mmdb=path)
    assert places.lookup("8.8.8.8") == US

    write_mmdb(tmp_path / "new.mmdb", {"8.8.8.0/24": {"country": {"iso_code": "JP"}}}).rename(path)
    assert places.lookup("8.8.8.8") == JP

    path.unlink()
    assert places.lookup("8.8.8.8") == JP


@pytest.mark.parametrize("content", [None, b"junk"])
def test_missing_or_damaged_database_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "city.mmdb"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(DatabaseUnavailable, match=r"The database of places '.*city.mmdb' cannot be read: "):
        IpLookup(mmdb=path).lookup("8.8.8.8")


def test_damaged_records_of_a_database_file_are_an_error_that_names_it(tmp_path: Path) -> None:
    path = write_mmdb(tmp_path / "city.mmdb", RECORDS)
    data = bytearray(path.read_bytes())
    start = data.index(b"iso_code") - 20
    data[start : start + 200] = b"\xff" * 200
    path.write_bytes(data)

    with pytest.raises(DatabaseUnavailable, match=r"The database of places '.*city.mmdb' cannot be read: "):
        IpLookup(mmdb=path).lookup_many(["8.8.8.8", "90.1.1.1", "2001:4860::1"])


@pytest.mark.contract
def test_ranges_are_read_outside_of_the_event_loop(store: Store) -> None:
    threads = set()

    def ranges() -> Iterator[IpRange]:
        threads.add(threading.current_thread())
        yield IpRange("8.0.0.0", "8.0.0.255", Place("US"))

    async def scene() -> None:
        assert await IpLookup(source="ranges").arebuild(ranges()) == 1
        assert threading.current_thread() not in threads

    run_async(scene)


def test_country_of_uses_the_file_of_the_settings(tmp_path: Path, settings: Any) -> None:
    path = write_mmdb(tmp_path / "city.mmdb", RECORDS)
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"GEOIP": {"MMDB": path}}

    assert [country_of(ip) for ip in ("8.8.8.8", "90.1.1.1", "9.9.9.9", "junk")] == ["US", "FR", "ZZ", "ZZ"]
    assert repr(IpLookup()) == f"<IpLookup {str(path)!r}>"
    assert repr(IpLookup(source="ranges")) == "<IpLookup 'default'>"


def test_country_of_remembers_countries_from_redis(redis_server: Store) -> None:
    IpLookup(source="ranges").rebuild(RANGES)
    commands = redis_server.raw.info("commandstats")["cmdstat_evalsha"]["calls"]

    assert [country_of("8.8.8.8") for _ in range(10)] == ["US"] * 10

    assert redis_server.raw.info("commandstats")["cmdstat_evalsha"]["calls"] - commands <= 2


def test_country_of_is_unknown_and_quick_while_redis_is_away(proxy: Proxy, settings: Any) -> None:
    IpLookup(source="ranges").rebuild(RANGES)
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"GEOIP": {"USING": "proxied"}}
    proxy.stop_accepting()

    assert [country_of(f"8.8.8.{n}") for n in range(100)] == ["ZZ"] * 100

    with pytest.raises(ConnectionError):
        lookup(using="proxied").lookup("8.8.8.8")


def test_country_of_is_remembered_for_longer_while_redis_is_away(
    proxy: Proxy, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    IpLookup(source="ranges").rebuild(RANGES)
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"GEOIP": {"USING": "proxied"}}
    eventually(lambda: country_of("8.8.8.8") == "US")
    now = time.monotonic() + country.CACHE_TTL_S
    monkeypatch.setattr(country, "time", SimpleNamespace(monotonic=lambda: now))
    proxy.stop_accepting()
    proxy.cut()

    assert [country_of(ip) for ip in ("8.8.8.8", "8.8.8.9", "8.8.8.8")] == ["US", "ZZ", "US"]


def test_countries_that_were_looked_up_longest_ago_are_forgotten(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(country, "CACHE_SIZE", 1)
    IpLookup(source="ranges").rebuild(RANGES)
    for ip in ("8.8.8.1", "8.8.8.2"):
        eventually(lambda ip=ip: country_of(ip) == "US")
    redis_server.delete_keys()

    assert [country_of(ip) for ip in ("8.8.8.2", "8.8.8.1")] == ["US", "ZZ"]


def test_arguments_and_settings_are_checked(settings: Any) -> None:
    with pytest.raises(ValueError, match=r"source='dns': expected one of 'auto', 'mmdb', 'ranges'."):
        IpLookup(source="dns")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"mmdb='x': expected none with source='ranges'."):
        IpLookup(mmdb="x", source="ranges")
    with pytest.raises(ValueError, match='source="mmdb": expected a path in mmdb or in REDIS_COMPONENTS'):
        IpLookup(source="mmdb").lookup("8.8.8.8")
    settings.REDIS_COMPONENTS = {"GEOIP": {"MMDB": 7}}
    with pytest.raises(Exception, match=r'REDIS_COMPONENTS\["GEOIP"\]\["MMDB"\] = 7: expected None or the path'):
        IpLookup().lookup("8.8.8.8")
