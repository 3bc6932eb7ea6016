"""Search."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.search import Document, Hit, SearchIndex, SearchPage


async def right() -> None:
    index = SearchIndex(
        "books", fields={"title": 3, "body": 1}, language="en", stemmer="english", field_queries=["title"]
    )
    index.add(1, {"title": "Dune"}, facets={"author": ["Herbert"]}, sort_values={"year": 1965})
    page = index.search("dune", filters={"author": "Herbert"}, near=(13.4, 52.5))
    assert_type(page, SearchPage)
    assert_type(page.ids, list[str])
    assert_type(page[0], Hit)
    assert_type(await index.arebuild([(1, Document("Dune"))]), int)


def wrong() -> None:
    SearchIndex("books", fields=["title"])  # type: ignore[arg-type]
    SearchIndex("books", language=3)  # type: ignore[arg-type]
    index = SearchIndex("books")
    index.add(1)  # type: ignore[call-arg]
    index.add(1, "Dune", year=1965)  # type: ignore[call-arg]
    index.search("dune", "relevance")  # type: ignore[call-arg]
    index.search("dune", filters=["author"])  # type: ignore[arg-type]
    index.rebuild(["Dune"])  # type: ignore[list-item]
