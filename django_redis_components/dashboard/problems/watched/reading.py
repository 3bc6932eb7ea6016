"""Make the watched checks."""

from __future__ import annotations

from typing import Any

from redis.exceptions import ConnectionError, TimeoutError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.watched import CHECKS

logger = guarded_logger("django_redis_components.dashboard")


def read_checks(
    client: SyncClient, facts: ProblemFacts, *, of_shard: bool = False, of_connection: bool = False
) -> dict[str, Any]:
    """Return what each check has found. One that fails finds nothing, and does not keep the others from it.

    Args:
        of_shard: whether only the checks are made that each shard has.
        of_connection: whether only those are made that each connection has.

    Raises:
        redis.exceptions.ConnectionError, redis.exceptions.TimeoutError: Redis is unavailable.
    """
    found: dict[str, Any] = {}
    for check in CHECKS:
        if (of_shard and not check.is_of_shard) or (of_connection and not check.is_of_connection):
            continue
        try:
            found[check.name] = run(client, check.read(facts))
        except (ConnectionError, TimeoutError):
            raise
        except Exception as exc:  # noqa: BLE001 - a restricted Redis user, or what another program has written
            logger.log_exception(exc, f"The check {check.name} of the watching process failed.")
    return found
