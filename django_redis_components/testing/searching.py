"""`assert_found()`: what a search index finds in tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Model

from django_redis_components.search import ModelSearch, SearchIndex

#: Most documents that are compared.
LIMIT = 100


def assert_found(index: SearchIndex | ModelSearch, query: str, expected: Iterable[Any], **options: Any) -> None:
    """Assert which documents a query finds, in any order; with `order_by`, in that order.

    Args:
        expected: ids, or objects of the model; at most 100.
        options: as for `search`.

    Raises:
        AssertionError: it finds others; the message names them, and the words that were searched.
    """
    ids = [str(each.pk if isinstance(each, Model) else each) for each in expected]
    page = index.search(query, **{"per_page": LIMIT} | options)
    found = list(page.ids)
    if (found if "order_by" in options else sorted(found)) == (ids if "order_by" in options else sorted(ids)):
        return
    lines = [f"{query!r} found {_listed(found)} in {index.name!r}, not {_listed(ids)}."]
    lines += [f"  missing: {_listed(missing)}"] if (missing := [id for id in ids if id not in found]) else []
    lines += [f"  not expected: {_listed(extra)}"] if (extra := [id for id in found if id not in ids]) else []
    raise AssertionError("\n".join([*lines, f"  searched: {page.query!r}"]))


def _listed(ids: list[str]) -> str:
    return ", ".join(ids) or "nothing"
