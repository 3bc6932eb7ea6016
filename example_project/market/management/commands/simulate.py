"""``manage.py simulate``: add the data of some weeks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError
from redis.exceptions import ConnectionError as RedisConnectionError

from example_project.market.content.simulation import Plan, Simulation

try:
    from tqdm import tqdm
except ModuleNotFoundError as exc:
    raise ImportError("simulate needs the package tqdm: pip install 'django-redis-components[demo]'.") from exc


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """An argument type: an integer within bounds, and an error that names them."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"{text!r}: expected an integer from {low} to {high}")
        return number

    return parse


class Command(BaseCommand):
    help = (
        "Add page views, visitors, sign-ins, sales, messages and their tasks to the market, up to today. "
        "The tasks are enqueued; the worker of the demo runs them. Running it twice adds views and sales; "
        "visitors and sign-ins of the same seed are counted once."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        options = (
            ("--days", whole_number(1, 400), 30, "Number of days up to today, 1 to 400."),
            ("--users", whole_number(1, 20_000), 500, "Number of members, 1 to 20000; missing members are created."),
            (
                "--sales-per-day",
                whole_number(0, 500),
                4,
                "Items listed per day, 0 to 500; three out of four are bought.",
            ),
            ("--seed", whole_number(0, 2**31 - 1), 1, "Seed of the random numbers, 0 to 2147483647."),
        )
        for name, kind, default, text in options:
            parser.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} Default: {default}.")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = Plan(**{name: options[name] for name in ("days", "users", "seed", "sales_per_day")})
        started = time.monotonic()
        with tqdm(total=plan.days, unit="day", disable=options["verbosity"] == 0) as bar:
            try:
                totals = Simulation(plan, on_day=bar.update).run()
            except RedisConnectionError as exc:
                raise CommandError(f"Redis is not available: {exc}") from None
            except OperationalError as exc:
                raise CommandError(
                    f"Cannot read the database: {exc}. Create its tables with manage.py demo or manage.py migrate."
                ) from None
        if options["verbosity"]:
            self.stdout.write(f"{totals} ({time.monotonic() - started:.1f} s)")
