"""The order by relevance on a small judged set, beside the BM25 of SQLite's FTS5."""

from __future__ import annotations

import math
import sqlite3

import pytest

from django_redis_components.search import SearchIndex
from tests.support import Store

#: Documents, by id.
DOCUMENTS = {
    "lock-guide": "Locks: acquire a lock, release a lock, extend the lease of a lock. A fair lock has a queue.",
    "lock-note": "A note that mentions a lock once, beside queues, workers, retries, flows, limits and schedules.",
    "queue-guide": "The task queue: enqueue tasks, run workers, retry failed tasks. Workers fetch tasks from a queue.",
    "queue-tuning": "Tuning of the task queue: threads, processes, prefetching, and the latency of tasks in a queue.",
    "retry": "Retries with exponential backoff and jitter: how often a failed task is retried, and when.",
    "retry-mail": "Sending mail in a task: a retry after an error of the mail server, five retries at most.",
    "rate": "Rate limits: a fixed window, a sliding window, a token bucket. The limit of a key is reset.",
    "rate-login": "Protect the login with a rate limit per address and per user name.",
    "cluster": "Redis Cluster: slots, hash tags, moved slots and failover of a primary to a replica.",
    "sentinel": "Redis Sentinel: failover, promotion of a replica, and the addresses of the Sentinels.",
    "dashboard": "The dashboard in the admin: queues, workers, failed tasks, locks, limits, a page of failures.",
    "changelog": "Changes: locks, queues, tasks, workers, retries, limits, Redis Cluster, Sentinel, dashboard.",
}
#: Judged queries: how relevant documents are, 1 to 3; the others are not.
JUDGED = {
    "lock": {"lock-guide": 3, "lock-note": 1},
    "task queue": {"queue-guide": 3, "queue-tuning": 3},
    "failover replica": {"cluster": 3, "sentinel": 3},
    "rate limit": {"rate": 2, "rate-login": 3},
    "failed tasks": {"queue-guide": 2, "dashboard": 3},
    "retry": {"retry-mail": 3, "queue-guide": 1},
    "workers queue": {"queue-guide": 3},
    "redis cluster": {"cluster": 3, "changelog": 1},
}


def ndcg(found: list[str], judged: dict[str, int], first: int = 5) -> float:
    """Normalized discounted cumulative gain (Järvelin and Kekäläinen, 2002)."""

    def gain(relevances: list[int]) -> float:
        return sum((2**value - 1) / math.log2(rank + 2) for rank, value in enumerate(relevances[:first]))

    return gain([judged.get(id_, 0) for id_ in found]) / gain(sorted(judged.values(), reverse=True))


def by_sqlite(query: str) -> list[str]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE documents USING fts5(id UNINDEXED, text)")
    connection.executemany("INSERT INTO documents VALUES (?, ?)", DOCUMENTS.items())
    rows = connection.execute("SELECT id FROM documents WHERE documents MATCH ? ORDER BY bm25(documents)", [query])
    return [id_ for (id_,) in rows]


def test_relevance_is_as_good_as_that_of_sqlite(redis_server: Store) -> None:
    index = SearchIndex("judged")
    for id_, text in DOCUMENTS.items():
        index.add(id_, text)

    ours = {query: ndcg(index.search(query).ids, judged) for query, judged in JUDGED.items()}
    theirs = {query: ndcg(by_sqlite(query), judged) for query, judged in JUDGED.items()}

    means = [sum(one.values()) / len(one) for one in (ours, theirs)]
    assert means[0] >= means[1] - 0.02, (ours, theirs)
    assert means[0] > 0.85, ours


@pytest.mark.parametrize("query", JUDGED)
def test_same_documents_as_sqlite_are_found(redis_server: Store, query: str) -> None:
    index = SearchIndex("judged")
    for id_, text in DOCUMENTS.items():
        index.add(id_, text)

    assert set(index.search(query).ids) == set(by_sqlite(query))
