"""`manage.py rebuild_autocomplete`: rebuilds the indexes of models. `redis autocomplete` compares them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.base import CommandResult, OperatorCommand, add_common
from django_redis_components.management.jobs.rebuilding import USING, add_names, choose, rebuild
from django_redis_components.management.redis.autocomplete import indexes_of_models


class Command(OperatorCommand):
    """Rebuild the indexes of models."""

    help = (
        "Rebuild the indexes of models: each new index replaces the old one in one step, and changes meanwhile are"
        " kept. `redis autocomplete check` compares indexes with the database.\n\n"
        "Exit codes: 0 done; 1 an index was not rebuilt; 2 invalid arguments; 3 Redis is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        add_names(parser, "autocomplete")
        add_common(parser, using=USING)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Rebuild each index."""
        return rebuild(choose(indexes_of_models(options["using"]), options["names"]), "entries")
