"""``manage.py populate``: create members, items and the superuser, unless they exist; with sample data on request."""

from __future__ import annotations

import argparse
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis.exceptions import ConnectionError as RedisConnectionError

from example_project.market.content.opening import Opening
from example_project.market.content.sample import history


class Command(BaseCommand):
    help = "Populate an empty market with 200 members, 24 items on sale and a superuser. Existing data is not changed."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--sample-data",
            action="store_true",
            help="Also write invented visitors, tasks, failures and chats, for the pages of the dashboard. "
            "Nothing is written unless the database and Redis are empty.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        started = time.monotonic()
        try:
            is_first = options["sample_data"] and history.is_empty()
            created = Opening().run()
            self.stdout.write(f"Created {created.members} members and {created.items} items.")
            if is_first:
                history.write(self.stdout.write)
                self.stdout.write(f"Wrote the sample data ({time.monotonic() - started:.0f} s).")
        except RedisConnectionError as exc:
            raise CommandError(f"Redis is not available: {exc}") from None
