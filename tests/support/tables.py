"""How the tables are emptied after a test without a transaction: content types and permissions stay."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import flush

#: Written by the signal after ``migrate``, which ``flush`` sends too: it takes ten times as long as the rest.
KEPT = ("auth_permission", "django_content_type")


def keep_content_types() -> None:
    """Let ``flush``, which the tests use only for this, keep what no test changes."""
    flush.sql_flush = _sql_flush
    flush.emit_post_migrate_signal = lambda *args, **kwargs: None


def _sql_flush(style: Any, connection: Any, **options: Any) -> list[str]:
    names = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return connection.ops.sql_flush(style, [name for name in names if name not in KEPT], **options)
