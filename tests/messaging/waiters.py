"""Waits in threads, and the channels that are subscribed meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from django_redis_components.messaging import Subscription
from tests.support import Store
from tests.support.waiting import TIMEOUT_S


class Waiter:
    """Runs a wait in a thread."""

    def __init__(self, wait: Callable[[], Any]) -> None:
        self._outcomes: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(wait,))
        self._thread.start()

    def _run(self, wait: Callable[[], Any]) -> None:
        try:
            self._outcomes.append(wait())
        except Exception as exc:  # noqa: BLE001 - the test looks at it
            self._outcomes.append(exc)

    def outcome(self) -> Any:
        self._thread.join(TIMEOUT_S)
        return self._outcomes[0]


def received(subscription: Subscription) -> Any:
    """Return the body of the next message of a subscription."""
    message = subscription.get(TIMEOUT_S)
    assert message is not None
    return message.body


def subscriptions(store: Store) -> int:
    """Return the subscribed channels of all nodes that belong to the test."""
    pattern = f"{store.prefix}:*"
    if not store.is_cluster:
        return len(store.raw.execute_command("PUBSUB", "SHARDCHANNELS", pattern))
    nodes = store.raw.get_primaries()
    return sum(len(store.raw.execute_command("PUBSUB SHARDCHANNELS", pattern, target_nodes=node)) for node in nodes)
