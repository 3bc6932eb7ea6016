"""``manage.py simulate``: what it writes, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from django_redis_components.aggregation import parse_line
from tests.support.demo import demo_environment
from tests.support.processes import ROOT


def simulate(directory, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "simulate", *args],
        cwd=ROOT,
        env=os.environ | demo_environment(directory) | env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory):
    """A database with tables."""
    directory = tmp_path_factory.mktemp("simulated")
    env = os.environ | demo_environment(directory)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=env, check=True)
    return directory


@pytest.fixture
def market(tables, redis_server):
    """A database with tables, and a server without a worker: what is enqueued stays where it can be counted."""
    raw = redis_server.raw
    yield tables, redis_server.url, raw
    for key in raw.scan_iter(match="market:*", count=1000):
        raw.unlink(key)


def numbers(raw) -> dict[str, int]:
    """Return the three counts of today and yesterday, straight from Redis."""
    today = datetime.now(UTC).date()
    days = [f"{today - timedelta(days=ago):%Y%m%d}" for ago in (0, 1)]
    return {
        "views": sum(int(raw.zscore(f"market:analytics:{{default}}:pv:{day}", "") or 0) for day in days),
        "visitors": raw.pfcount(*(f"market:analytics:{{default}}:uv:{day}" for day in days)),
        "sign-ins": sum(raw.bitcount(f"market:analytics:{{default}}:si:d:{day}") for day in days),
    }


def test_reported_totals_match_redis_and_depend_on_the_seed(market):
    directory, url, raw = market
    plan = ("--days", "2", "--users", "40", "--sales-per-day", "2", "--seed", "7")

    (directory / "access.log").unlink(missing_ok=True)

    first = simulate(directory, *plan, REDIS_URL=url)

    assert first.returncode == 0, first.stderr
    found = numbers(raw)
    assert f"{found['views']} page views" in first.stdout
    assert f"{found['sign-ins']} sign-ins, 4 items listed" in first.stdout
    assert found["visitors"] > 0
    assert raw.zcard("market:analytics:{default}:co") == 1, "cohorts for the dashboard"
    assert raw.exists("market:analytics:{default}:si:r:last") == 1, "retention"

    log = (directory / "access.log").read_text().splitlines()
    assert len(log) == found["views"], "each view is a line of the access log"
    assert None not in [parse_line(line.encode()) for line in log]

    second = simulate(directory, *plan, REDIS_URL=url)

    again = numbers(raw)
    assert again["visitors"] == found["visitors"]
    assert again["sign-ins"] == found["sign-ins"]
    assert "0 members created" in second.stdout


def test_progress_is_shown(market):
    directory, url, _raw = market

    done = simulate(directory, "--days", "3", "--users", "5", "--sales-per-day", "0", REDIS_URL=url)

    assert "3/3" in done.stderr
    assert "0 items listed" in done.stdout


def test_invalid_numbers_are_rejected_with_the_name_of_the_option(tmp_path, children):
    wanted = {
        "--days=0": "argument --days: '0': expected an integer from 1 to 400",
        "--days=401": "argument --days: '401': expected an integer from 1 to 400",
        "--users=many": "argument --users: 'many': expected an integer from 1 to 20000",
        "--users=-3": "argument --users: '-3': expected an integer from 1 to 20000",
        "--sales-per-day=1.5": "argument --sales-per-day: '1.5': expected an integer from 0 to 500",
        "--seed=nan": "argument --seed: 'nan': expected an integer from 0 to 2147483647",
    }
    env = demo_environment(tmp_path)

    errors = children.call("tests.example.acts:errors", "simulate", [[word] for word in wanted], env=env).result()

    assert errors == [f"exit code 2, manage.py simulate: error: {error}" for error in wanted.values()]


def test_help_names_units_and_defaults(tmp_path, children):
    shown = children.call("tests.example.acts:usage", "simulate", env=demo_environment(tmp_path)).result()

    text = " ".join(str(shown).split())
    assert "Number of days up to today, 1 to 400. Default: 30." in text
    assert "Number of members, 1 to 20000; missing members are created. Default: 500." in text


def test_missing_tables_are_reported_with_a_remedy(tmp_path, redis_server):
    done = simulate(tmp_path, REDIS_URL=redis_server.url)

    assert done.returncode == 1
    assert "Create its tables with manage.py demo or manage.py migrate." in done.stderr


def test_an_unavailable_redis_is_reported(tables):
    done = simulate(tables, REDIS_URL="redis://127.0.0.1:1/0")

    assert done.returncode == 1
    assert "Redis is not available" in done.stderr
