"""The clients of a server, by id: connections of an earlier test may still close, so their number says nothing."""

from __future__ import annotations

from tests.support.stores import Store


def client_ids(store: Store) -> set[int]:
    """Return the ids of the server's clients."""
    return {int(client["id"]) for client in store.raw.client_list()}


def blocked_ids(store: Store) -> set[int]:
    """Return the ids of the clients that wait in a blocking command."""
    return {int(client["id"]) for client in store.raw.client_list() if "b" in client["flags"]}
