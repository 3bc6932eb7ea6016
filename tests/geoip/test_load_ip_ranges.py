"""`manage.py load_ip_ranges`: the formats of files, exit codes and errors."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.geoip import UNKNOWN, IpLookup, Place
from tests.management.support import command_data, refusal, run_command
from tests.support import Store

#: Synthetic files in the formats of the providers.
DBIP_COUNTRY = (
    '8.8.8.0,8.8.8.255,US\n8.8.9.0,8.8.9.255,ZZ\n"90.0.0.0","90.255.255.255","FR"\n2001:4860::,2001:4860:ffff::,US\n'
)
DBIP_CITY = (
    "8.8.8.0,8.8.8.255,NA,US,California,Mountain View,37.4,-122\n"
    "90.0.0.0,90.255.255.255,EU,FR,Île-de-France,Paris,48,2\n"
    "2001:4860::,2001:4860:ffff::,NA,US,California,Mountain View,37.4,-122\n"
)
IP2LOCATION = (
    '"0","16777215","-","-"\n"134744064","134744319","US","United States of America"\n'
    '"1509949440","1526726655","FR","France"\n'
)
IP2LOCATION_CITY = (
    '"0","281470681743359","-","-","-","-"\n'
    '"281470816487424","281470816487679","US","United States of America","California","Mountain View"\n'
    '"281472191692800","281472208470015","FR","France","Île-de-France","Paris"\n'
    '"42541956101370907050197289607612071936","42541956180599069564460627201556021247",'
    '"US","USA","California","Mountain View"\n'
)
IPINFO = (
    "network,country,country_code,continent,continent_code,asn,as_name,as_domain\n"
    "8.8.8.0/24,United States,US,North America,NA,AS15169,Google LLC,google.com\n"
    "90.1.1.1,France,FR,Europe,EU,AS3215,Orange S.A.,orange.com\n"
    "2001:4860::/32,United States,US,North America,NA,AS15169,Google LLC,google.com\n"
)
GEOLITE_BLOCKS_IPV4 = (
    "network,geoname_id,registered_country_geoname_id,represented_country_geoname_id\n"
    "8.8.8.0/24,5375480,6252001,\n8.8.9.0/24,,6252001,\n90.0.0.0/8,2988507,3017382,\n"
)
GEOLITE_BLOCKS_IPV6 = "network,geoname_id\n2001:4860::/32,5375480\n"
GEOLITE_LOCATIONS = (
    "geoname_id,locale_code,continent_code,continent_name,country_iso_code,country_name,subdivision_1_iso_code,"
    "subdivision_1_name,city_name\n"
    '5375480,en,NA,"North America",US,"United States",CA,California,"Mountain View"\n'
    "2988507,en,EU,Europe,FR,France,IDF,Île-de-France,Paris\n"
)
ASKED = ["8.8.8.8", "90.1.1.1", "8.8.9.1", "2001:4860::1"]
CITY_US, CITY_FR = Place("US", "California", "Mountain View"), Place("FR", "Île-de-France", "Paris")


@pytest.fixture
def places(redis_server: Store) -> IpLookup:
    return IpLookup(source="ranges")


def refused(error: str) -> Any:
    return pytest.raises(CommandError, match=re.escape(error))


def write(folder: Path, *contents: str | bytes) -> list[str]:
    paths = []
    for number, content in enumerate(contents):
        path = folder / f"{number}.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(str(path))
    return paths


def load(*args: Any) -> dict[str, Any]:
    out = io.StringIO()
    call_command("load_ip_ranges", *args, "--json", stdout=out, stderr=io.StringIO())
    return dict(json.loads(out.getvalue()))


@pytest.mark.parametrize("is_gzip", [False, True])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (DBIP_COUNTRY, [Place("US"), Place("FR"), UNKNOWN, Place("US")]),
        (DBIP_CITY, [CITY_US, CITY_FR, UNKNOWN, CITY_US]),
        (IP2LOCATION, [Place("US"), Place("FR"), UNKNOWN, UNKNOWN]),
        (IPINFO, [Place("US"), Place("FR"), UNKNOWN, Place("US")]),
        (IP2LOCATION_CITY, [CITY_US, CITY_FR, UNKNOWN, CITY_US]),
        ("\ufeffstart,end,country\n" + DBIP_COUNTRY, None),
    ],
    ids=["dbip-country", "dbip-city", "ip2location-ipv4", "ipinfo", "ip2location-ipv6-city", "unknown-header"],
)
def test_formats_of_providers_are_recognized(
    content: str, expected: list[Place] | None, is_gzip: bool, places: IpLookup, tmp_path: Path
) -> None:
    data = content.encode()
    half = data.index(b"\n") + 1
    paths = write(tmp_path, gzip.compress(data[:half]) + gzip.compress(data[half:]) if is_gzip else data)

    if expected is None:
        with pytest.raises(
            CommandError, match="line 1: unknown columns 'start, end, country': expected a file of DB-IP"
        ):
            load(*paths)
    else:
        load(*paths)
        assert places.lookup_many(ASKED) == expected


def test_blocks_and_locations_of_geolite2_are_joined(places: IpLookup, tmp_path: Path) -> None:
    *blocks, locations = write(tmp_path, GEOLITE_BLOCKS_IPV4, GEOLITE_BLOCKS_IPV6, GEOLITE_LOCATIONS)

    result = load(*blocks, "--locations", locations)

    assert result == {"name": "default", "ranges": 3, "blocks": 2, "source": "0.csv, 1.csv"}
    assert places.lookup_many(ASKED) == [CITY_US, CITY_FR, UNKNOWN, CITY_US]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("8.8.8.0,8.8.8.300,US", "'8.8.8.300' is no IP address."),
        ("9.0.0.0,9.0.0.9,Germany", "'Germany' is no country code of two letters."),
        ("9.0.0.0,9.0.0.9", "too few columns."),
        ("8.8.8.0,8.8.8.255,US", "The range 8.8.8.0 to 8.8.8.255 overlaps an earlier one"),
        ('9.0.0.0,"9.0.0.9"x,US', "',' expected after '\"'."),
    ],
)
def test_line_that_is_not_valid_is_named_and_nothing_changes(
    bad: str, reason: str, places: IpLookup, tmp_path: Path
) -> None:
    load(*write(tmp_path, DBIP_CITY))
    [path] = write(tmp_path, f"8.8.8.0,8.8.8.255,JP\n8.9.0.0,8.9.0.9,JP\n{bad}\n")

    with refused(f"{path}, line 3: {reason}") as raised:
        load(path)

    assert raised.value.returncode == 1
    assert places.lookup("8.8.8.8") == CITY_US


def test_file_whose_name_is_no_text_is_loaded(places: IpLookup, tmp_path: Path) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/ranges\xff.csv")
    Path(path).write_text(DBIP_CITY)

    load(path)

    assert (places.lookup("8.8.8.8"), places.info().source) == (CITY_US, r"ranges\udcff.csv")


def test_damaged_gzip_is_an_error(places: IpLookup, tmp_path: Path) -> None:
    data = bytearray(gzip.compress(DBIP_CITY.encode() * 50))
    data[20:40] = b"\xff" * 20
    [path] = write(tmp_path, bytes(data))

    with refused("0.csv, line 1: Error -3 while decompressing data"):
        load(path)
    with refused("0.csv, line 1: Error -3 while decompressing data"):
        load(path, "--locations", path)


def test_torn_gzip_and_missing_file_are_errors(places: IpLookup, tmp_path: Path) -> None:
    [path] = write(tmp_path, gzip.compress(DBIP_CITY.encode())[:-20])

    with refused("0.csv, line 2: Compressed file ended before"):
        load(path)
    with refused("Cannot read /no/file: No such file or directory."):
        load("/no/file")


@pytest.mark.parametrize(
    ("args", "error", "code"),
    [
        ([], "Error: the following arguments are required: FILE", 1),
        (["x.csv", "--name", "a{b"], "a{b", 2),
    ],
)
def test_arguments_are_checked(args: list[str], error: str, code: int) -> None:
    with refused(error) as raised:
        load(*args)

    assert raised.value.returncode == code


def test_errors_of_locations_of_geolite2_are_named(places: IpLookup, tmp_path: Path) -> None:
    with refused("line 1: the file of blocks of GeoLite2 needs a file of locations"):
        load(*write(tmp_path, GEOLITE_BLOCKS_IPV4))
    with refused("1.csv, line 1: expected the columns geoname_id and country_iso_code."):
        load(*write(tmp_path, GEOLITE_BLOCKS_IPV4, DBIP_CITY)[:1], "--locations", str(tmp_path / "1.csv"))
    with refused("line 2: unknown location '5375480'."):
        load(
            *write(tmp_path, GEOLITE_BLOCKS_IPV4, "geoname_id,country_iso_code\n1,US\n")[:1],
            "--locations",
            str(tmp_path / "1.csv"),
        )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n\n",
        "7.0.0.0,7.0.0.255,ZZ\n7.1.0.0,7.1.0.255,-\n",
        '"0","16777215","-","-"\n',
        IPINFO.partition("\n")[0] + "\n",
        IPINFO.partition("\n")[0],
        gzip.compress(b""),
    ],
    ids=["empty", "blank", "ZZ", "ip2location", "header", "torn-header", "gzip"],
)
@pytest.mark.parametrize("beside", [False, True])
def test_file_without_ranges_is_refused_and_nothing_changes(
    content: str | bytes, beside: bool, places: IpLookup, tmp_path: Path
) -> None:
    load(*write(tmp_path, DBIP_CITY))
    before = places.info()
    good, empty = write(tmp_path, DBIP_COUNTRY, content)

    with refused("1.csv, line ") as raised:
        load(*[good] * beside, empty)

    assert raised.value.returncode == 1
    assert "The file has no ranges with a country: the former ranges stay in use." in str(raised.value)
    assert places.info() == before
    assert places.lookup_many(ASKED) == [CITY_US, CITY_FR, UNKNOWN, CITY_US]


def test_ipv6_file_of_ip2location_has_all_ranges_and_is_loaded_alone(places: IpLookup, tmp_path: Path) -> None:
    ipv4, ipv6 = write(tmp_path, IP2LOCATION, IP2LOCATION_CITY)

    with refused("overlaps an earlier one") as raised:
        load(ipv4, ipv6)
    assert str(raised.value).endswith("A file of IPv6 of IP2Location has the IPv4 ranges too: load it alone.")

    load(ipv6)
    assert places.lookup_many(ASKED) == [CITY_US, CITY_FR, UNKNOWN, CITY_US]


def test_pipe_is_an_error_and_not_waited_for(places: IpLookup, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.csv")

    with refused("fifo.csv: not a regular file, but a pipe or a device."):
        load(str(tmp_path / "fifo.csv"))


def test_ranges_are_removed_and_an_outage_has_its_exit_code(places: IpLookup, tmp_path: Path) -> None:
    load(*write(tmp_path, DBIP_CITY))

    assert refusal("redis", "geoip", "delete").startswith("Nothing was removed.")
    assert command_data("redis", "geoip", "delete", "--yes") == {"name": "default", "deleted": True}
    assert run_command("redis", "geoip", "delete", "--yes") == 'There are no ranges "default".\n'

    assert places.info().ranges == 0


def test_unavailable_redis_is_exit_code_3(tmp_path: Path) -> None:
    with refused("Redis is unavailable") as raised:
        load(*write(tmp_path, DBIP_CITY))

    assert raised.value.returncode == 3
