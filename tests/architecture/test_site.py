"""The app in a Django site: no complaint at start, no migration to write."""

from __future__ import annotations

import io

import pytest
from django.core.checks import run_checks
from django.core.management import call_command

from tests.support import Store


def test_system_checks_find_no_problems(redis_server: Store) -> None:
    assert run_checks() == []


@pytest.mark.django_db
def test_no_migration_is_pending() -> None:
    out = io.StringIO()

    call_command("makemigrations", "--check", "--dry-run", stdout=out)

    assert out.getvalue() == "No changes detected\n"
