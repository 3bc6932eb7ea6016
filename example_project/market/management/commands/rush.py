"""``manage.py rush``: many concurrent buyers, in each of the three ways of selling."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis.exceptions import ConnectionError as RedisConnectionError

from example_project.market.content.rush import HEADER, WrongSales, rush, verdict
from example_project.market.management.commands.simulate import whole_number


class Command(BaseCommand):
    help = (
        "Let many buyers buy the same items concurrently: with a lock per item, with one lock, and with WATCH. "
        "Prints what each strategy cost and a verdict; exit code 1 unless each item was sold exactly once."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        options = (
            ("--buyers", whole_number(2, 200), 8, "Concurrent buyers, 2 to 200."),
            ("--items", whole_number(1, 1_000), 24, "Items that every buyer tries to buy, 1 to 1000."),
            ("--till-ms", whole_number(0, 10_000), 250, "Duration of a sale in milliseconds, 0 to 10000."),
            ("--seed", whole_number(0, 2**31 - 1), 1, "Seed of the random numbers, 0 to 2147483647."),
        )
        for name, kind, default, text in options:
            parser.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} Default: {default}.")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(HEADER)
        results = []
        try:
            for result in rush(options["buyers"], options["items"], options["till_ms"] / 1_000, options["seed"]):
                results.append(result)
                self.stdout.write(result.row)
            self.stdout.write(verdict(results))
        except RedisConnectionError as exc:
            raise CommandError(f"Redis is not available: {exc}") from None
        except WrongSales as exc:
            raise CommandError(str(exc)) from None
