"""``manage.py populate``: members, things to sell and the superuser, once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from redis.exceptions import ConnectionError as RedisConnectionError

from example_project.market.content.opening import Opening


class Command(BaseCommand):
    help = "Fills an empty market: 200 members, 24 things to sell, a superuser. Does nothing to what is there."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            created = Opening().run()
        except RedisConnectionError as exc:
            raise CommandError(f"The Redis server does not answer: {exc}") from None
        self.stdout.write(f"{created.members} members and {created.items} things were new")
