"""``manage.py populate``: create members, items and the superuser, unless they exist."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis.exceptions import ConnectionError as RedisConnectionError

from example_project.market.content.opening import Opening


class Command(BaseCommand):
    help = "Populate an empty market with 200 members, 24 items on sale and a superuser. Existing data is not changed."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            created = Opening().run()
        except RedisConnectionError as exc:
            raise CommandError(f"Redis is not available: {exc}") from None
        self.stdout.write(f"Created {created.members} members and {created.items} items.")
