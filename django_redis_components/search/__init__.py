"""Search: documents by their words, ranked by relevance or by any numbers, with facets.

Guarantees:

- A document is written by one idempotent script: after it, the index has exactly the words, sort values and facets of
  the last `add` of its id, and no word of an earlier one.
- A search is one round trip, and bounded: the work of its documents, terms, phrases, orders and facets has a budget.
  The page says so if something was left out.
- The pages of a result come from one stored result, which expires. Of the other keys only the log of queries does.
- A rebuild writes a new generation; searches use the old one until it is complete. A write meanwhile is not overwritten
  by it. After a rebuild that was killed, writes go to one generation again within 15 minutes; the next ones delete what
  it loaded, or it expires a day after the rebuild started.

Keys, all in the slot of ``{name}``; <g> is the number of a generation. ``v5`` is the version of the terms;
``v5-english`` with that stemmer:

=========================================  ======  =======================================================
``drc:search:{name}:v5:state``             hash    numbers of generations; until `delete`
``drc:search:{name}:v5:build``             string  token of the active rebuild; 15 minutes after its last document
``drc:search:{name}:v5:built``             string  token of the last rebuild that was finished; 10 minutes
``drc:search:{name}:v5:gen``               string  number of changes; until `delete`
``drc:search:{name}:v5:dropping``          set     generations that are deleted; until they are
``drc:search:{name}:v5:<g>:docs``          hash    id -> record of the document; until it is removed
``drc:search:{name}:v5:<g>:facets``        hash    id -> values of its facets; as the document
``drc:search:{name}:v5:<g>:w:<term>``      zset    documents with the term by frequency; as the document
``drc:search:{name}:v5:<g>:vocabulary``    zset    all terms; until no document has them
``drc:search:{name}:v5:<g>:s:<name>``      zset    documents by sort value; as the document
``drc:search:{name}:v5:<g>:f:<facet>``     set     documents with the value of the facet; as the document
``drc:search:{name}:v5:<g>:names``         set     names of the last two; until no document has them
``drc:search:{name}:v5:<g>:geo``           zset    places of documents; as the document
``drc:search:{name}:v5:<g>:stats``         hash    sum of the lengths of documents; until `delete`
``drc:search:{name}:v5:<g>:live``          set     ids written during a rebuild; until it ends
``drc:search:{name}:v5:r:<hash>…``         list    a stored result, and a hash about it; `result_ttl`
``drc:search:{name}:v5:results``           zset    stored results by their last use; `result_ttl`
``drc:search:{name}:v5:slow:<week>``       zset    slow queries; 14 days
``drc:search:{name}:v5:empty:<week>``      zset    queries that found nothing, by number; 14 days
``drc:search:{name}:check``                hash    the last comparison with the model; 90 days
=========================================  ======  =======================================================

Example::

    from django_redis_components.search import SearchIndex

    items = SearchIndex("items", fields={"title": 3, "description": 1})
    items.add(1, {"title": "Black cat", "description": "A cat."}, facets={"kind": "pet"}, sort_values={"price": 40})
    items.add(2, {"title": "Old lamp", "description": "No cat."}, facets={"kind": "light"}, sort_values={"price": 7})

    assert items.search("cat").ids == ["1", "2"]
    assert items.search("cat", order_by="price").ids == ["2", "1"]
    assert items.search("cat -lamp").ids == ["1"]
    assert items.search("ca", prefix=True, facets=["kind"]).facets == {"kind": {"light": 1, "pet": 1}}

See also: ``docs/components/search.md``; `django_redis_components.autocomplete` for names by their beginning.
"""

from __future__ import annotations

from django_redis_components.core.model_changes import Drift
from django_redis_components.search.arguments import Point
from django_redis_components.search.documents import Document
from django_redis_components.search.exceptions import InvalidSearch, SearchError
from django_redis_components.search.highlighting import TextPart
from django_redis_components.search.index import SearchIndex, SearchInfo
from django_redis_components.search.model_search import (
    ModelSearch,
    register,
    registered,
    unregister,
)
from django_redis_components.search.page import Hit, SearchPage, SearchPaginator
from django_redis_components.search.query import ParsedQuery
from django_redis_components.search.query_log import QueryStats

__all__ = [
    "Document",
    "Drift",
    "Hit",
    "InvalidSearch",
    "ModelSearch",
    "ParsedQuery",
    "Point",
    "QueryStats",
    "SearchError",
    "SearchIndex",
    "SearchInfo",
    "SearchPage",
    "SearchPaginator",
    "TextPart",
    "register",
    "registered",
    "unregister",
]
