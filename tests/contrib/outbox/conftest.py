"""The app of the outbox and its table in the database of the tests, for a test that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from django_redis_components.contrib import outbox as app
from django_redis_components.contrib.outbox.apps import OutboxConfig
from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.contrib.outbox.problems import waiting_rows
from django_redis_components.dashboard import unregister_panel
from django_redis_components.dashboard.problems.registry import unregister_check
from django_redis_components.taskqueue import outbox
from tests.contrib.outbox.support import use_outbox


@pytest.fixture
def installed() -> Iterator[None]:
    """Do what Django does when the app is in INSTALLED_APPS."""
    OutboxConfig(OutboxConfig.name, app).ready()
    yield
    outbox.install(None)
    unregister_check(waiting_rows)
    unregister_panel("outbox")


@pytest.fixture
def table(transactional_db: None, installed: None, settings: Any) -> Iterator[None]:
    """Create the table, as `migrate` does, and let all tasks use the outbox."""
    use_outbox(settings)
    with connection.schema_editor() as editor:
        editor.create_model(OutboxEntry)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(OutboxEntry)
