"""Helpers for tests of the outbox: its rows and tokens, and what sends no task after the commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection

from django_redis_components.contrib import outbox as app
from django_redis_components.contrib.outbox.apps import OutboxConfig
from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.contrib.outbox.problems import waiting_rows
from django_redis_components.contrib.outbox.relay import Relay
from django_redis_components.core import circuit_breaker
from django_redis_components.dashboard import unregister_panel
from django_redis_components.dashboard.problems.registry import unregister_check
from django_redis_components.taskqueue import get_queue, outbox
from tests.support import Store
from tests.taskqueue.support import base_key, taskqueue_settings

#: For `Children.manage` and `Children.call`: the tests' site with the app installed.
SITE = {"DJANGO_SETTINGS_MODULE": "tests.contrib.outbox.site"}


def use_outbox(settings: Any, **options: Any) -> None:
    """Set `TASKQUEUE` so that all tasks use the outbox."""
    taskqueue_settings(settings, OUTBOX=True, **options)


@contextmanager
def installed_outbox() -> Iterator[None]:
    """Do what Django does when the app is in INSTALLED_APPS."""
    OutboxConfig(OutboxConfig.name, app).ready()
    try:
        yield
    finally:
        outbox.install(None)
        unregister_check(waiting_rows)
        unregister_panel("outbox")


@contextmanager
def outbox_table(settings: Any) -> Iterator[None]:
    """Create the table, as `migrate` does, and let all tasks use the outbox."""
    use_outbox(settings)
    with connection.schema_editor() as editor:
        editor.create_model(OutboxEntry)
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(OutboxEntry)


def row_count(database: str = "default") -> int:
    return OutboxEntry._base_manager.using(database).count()


def tokens(store: Store) -> list[str]:
    return [token.decode() for token in store.raw.zrange(base_key(store, "outbox"), 0, -1)]


def ready(queue: str = "default") -> int:
    return get_queue(queue).info().ready


def relay_once() -> None:
    """Make one pass, as the active relay."""
    relay = Relay("default")
    try:
        relay.step()
        assert relay.is_active
    finally:
        relay.release()


@contextmanager
def nothing_is_sent(using: str = "default") -> Iterator[None]:
    """Let processes send nothing after their commits, as while Redis is known to be away."""
    circuit_breaker.breaker_for(using).record_failure(3_600)
    try:
        yield
    finally:
        circuit_breaker.forget_failures()
