"""`manage.py rebuild_search`: indexes the objects of models again. `redis search` compares indexes."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.base import CommandResult, OperatorCommand, add_common
from django_redis_components.management.jobs.rebuilding import USING, add_names, choose, rebuild
from django_redis_components.management.redis.search import indexes_of_models


class Command(OperatorCommand):
    """Index the objects of models again."""

    help = (
        "Replace search indexes by all objects of their models; searches use the old documents meanwhile."
        " `redis search check` compares indexes with the database.\n\n"
        "Exit codes: 0 done; 1 an index was not rebuilt; 2 invalid arguments; 3 Redis is unavailable."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        add_names(parser, "search")
        add_common(parser, using=USING)

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Rebuild each index."""
        return rebuild(choose(indexes_of_models(options["using"]), options["names"]), "documents")
