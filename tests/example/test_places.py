"""The page of visitors' places: what it shows is what ``aggregate_logs`` has counted of the demo's access log."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import eventually
from tests.support.demo import Demo, Visitor, demo_environment
from tests.support.processes import ROOT, Children


@pytest.fixture(autouse=True)
def _first_visit(demo: Demo) -> None:
    """The log exists from the first request on."""
    demo.visitor().get("/")


def aggregate(demo: Demo) -> subprocess.CompletedProcess[str]:
    """Run the command of the page. The periodic task of the demo may have counted the lines before."""
    command = [
        sys.executable,
        "manage.py",
        "aggregate_logs",
        *map(str, demo.directory.glob("access.log*")),
        "--by=city",
        "--name=visits",
    ]
    env = os.environ | demo_environment(demo.directory)
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def page(demo: Demo, level: str = "city") -> str:
    reply = demo.visitor().get(f"/places/?by={level}")
    assert reply.status == 200
    return reply.text


def requests(text: str) -> dict[str, int]:
    """The requests of the last days by place, and their sum."""
    rows = re.findall(
        r'<th scope="row">([^<]*)</th><td class="number">\d+</td><td class="number">(\d+)</td><td class="number">\d+ %',
        text,
    )
    [total] = re.findall(r"(\d+) in 7 days", text)
    return {place: int(count) for place, count in rows} | {"all": int(total)}


def bad_lines(text: str) -> int:
    return int(re.findall(r"<dt>Bad lines</dt><dd><b>(\d+)</b>", text)[0])


def growth(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}


def made_up_lines(demo: Demo) -> int:
    return len(re.findall(r"^(?:192\.88\.99|4000:)", (demo.directory / "access.log").read_text(), re.MULTILINE))


def visit(demo: Demo, address: str, times: int) -> None:
    for _ in range(times):
        assert Visitor(demo.base, address=address).get("/").status == 200


def test_counts_are_those_of_the_requests_and_no_line_is_counted_twice(demo: Demo) -> None:
    assert aggregate(demo).returncode == 0
    before = requests(page(demo))

    visit(demo, "192.88.99.7", 3)
    visit(demo, "192.88.99.201", 2)
    visit(demo, "4000:2::1", 1)
    done = [aggregate(demo), aggregate(demo)]

    assert [each.returncode for each in done] == [0, 0], done
    made_up = {"Paris, Île-de-France, FR": 3, "Osaka, Osaka, JP": 2, "Montréal, Quebec, CA": 1}
    # The page itself was requested from 127.0.0.1, which has no place.
    assert growth(before, requests(page(demo))) == made_up | {"Unknown": 1, "all": 7}


def test_regions_and_countries_are_sums_of_cities(demo: Demo) -> None:
    visit(demo, "192.88.99.7", 1)
    visit(demo, "192.88.99.70", 1)
    aggregate(demo)

    cities, regions, countries = (requests(page(demo, level)) for level in ("city", "region", "country"))

    assert regions["Île-de-France, FR"] == cities["Paris, Île-de-France, FR"]
    assert countries["FR"] == cities["Paris, Île-de-France, FR"] + cities["Lyon, Auvergne-Rhône-Alpes, FR"]
    assert requests(page(demo, "nothing")).keys() == countries.keys()


def test_bad_lines_and_unknown_addresses_are_shown(demo: Demo) -> None:
    aggregate(demo)
    before = page(demo)

    with (demo.directory / "access.log").open("a") as log:
        log.write("this is no request\n")
    visit(demo, "192.88.99.250", 2)  # in no range
    visit(demo, "192.0.2.1", 1)  # for documentation
    done = aggregate(demo)

    after = page(demo)
    assert done.returncode == 0, done
    assert bad_lines(after) == bad_lines(before) + 1
    assert growth(requests(before), requests(after)) == {"Unknown": 4, "all": 4}
    assert "The places are made up: 11 ranges of addresses that belong to no network" in after
    assert re.search(r'<dt>Last counted</dt><dd><b><time datetime="\d{4}-', after)


def test_the_task_succeeds_if_all_new_lines_are_bad(demo: Demo, children: Children) -> None:
    aggregate(demo)
    before = bad_lines(page(demo))
    aggregate(demo)

    with (demo.directory / "access.log").open("a") as log:
        log.write("this is no request\n" * 3)
    children.call("tests.example.acts:aggregate_access_log", env=demo_environment(demo.directory)).result()

    assert bad_lines(page(demo)) == before + 3


def test_a_renamed_log_is_continued_and_not_counted_again(demo: Demo) -> None:
    visit(demo, "192.88.99.210", 2)
    aggregate(demo)
    before = requests(page(demo))

    log: Path = demo.directory / "access.log"
    visit(demo, "192.88.99.210", 1)
    log.replace(log.with_name("access.log.1"))
    visit(demo, "192.88.99.210", 1)
    aggregate(demo)

    assert log.read_text().count("192.88.99.210") == 1
    assert growth(before, requests(page(demo))) == {"Osaka, Osaka, JP": 2, "Unknown": 1, "all": 3}


def test_made_up_visitors_are_sent_and_counted_by_a_task(demo: Demo) -> None:
    aggregate(demo)
    before, already, visitor = requests(page(demo)), made_up_lines(demo), demo.visitor()
    visitor.get("/places/")

    reply = visitor.post("/places/")

    assert (reply.status, reply.headers["Location"]) == (302, "/places/")
    assert "40 made-up visitors are on their way." in visitor.get("/places/").text

    def sent() -> None:
        assert made_up_lines(demo) == already + 40

    def counted() -> None:
        after = requests(page(demo))
        assert after["all"] - after["Unknown"] > before["all"] - before["Unknown"]

    eventually(sent)
    eventually(counted)


def test_other_methods_are_refused(demo: Demo) -> None:
    assert demo.visitor().post("/places/").status == 403  # without the token
