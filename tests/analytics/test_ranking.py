"""Rankings: order, ties, windows, neighbors and percentiles against a model, and lost replies."""

from __future__ import annotations

import random
import re
from datetime import date, timedelta
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.analytics import RankedMember, Ranking
from tests.support import Proxy, Store, run_async, run_together

DAY = date(2026, 11, 18)


@pytest.mark.contract
def test_members_are_ranked_with_ties(store: Store) -> None:
    board = Ranking("game")
    for member, score in {"anna": 30, "bert": 20, "carl": 20, "dora": 10}.items():
        board.add(member, score)

    assert board.top(limit=3) == [RankedMember("anna", 30, 1), RankedMember("bert", 20, 2), RankedMember("carl", 20, 2)]
    assert [board.rank(name).rank for name in ("anna", "bert", "carl", "dora")] == [1, 2, 2, 4]  # type: ignore[union-attr]
    assert board.top(limit=2, offset=2) == [RankedMember("carl", 20, 2), RankedMember("dora", 10, 4)]
    assert board.around("bert", limit=1) == [
        RankedMember("anna", 30, 1),
        RankedMember("bert", 20, 2),
        RankedMember("carl", 20, 2),
    ]
    assert [board.percentile(name) for name in ("anna", "carl", "dora", "nobody")] == [
        100.0,
        pytest.approx(100 / 3),
        0.0,
        None,
    ]
    assert (board.rank("nobody"), board.around("nobody"), board.count()) == (None, [], 4)
    assert (board.incr("dora", 15.5), board.incr("new")) == (25.5, 1.0)
    board.remove("anna")
    assert [one.member for one in board.top()] == ["dora", "bert", "carl", "new"]


@pytest.mark.contract
def test_windows_are_apart_and_expire(store: Store) -> None:
    board = Ranking("game", units=("day", "week", "all"))
    board.incr("anna", 5, at=DAY)
    board.incr("anna", 2, at=DAY - timedelta(days=1))
    board.incr("bert", 6, at=DAY - timedelta(days=1))

    assert [one.member for one in board.top(at=DAY)] == ["anna"]
    assert [(one.member, one.score) for one in board.top(unit="week", at=DAY)] == [("anna", 7.0), ("bert", 6.0)]
    assert board.count(unit="all") == 2
    lives = {key.rpartition(b":rk")[2]: store.raw.pttl(key) for key in store.keys()}  # noqa: SIM118 - a Store is no dict
    assert lives.pop(b":all") == -1
    assert all(life > 0 for life in lives.values())


@pytest.mark.contract
def test_forgotten_member_is_in_no_window(store: Store) -> None:
    board = Ranking("game", units=("day", "month", "all"))
    for at in (DAY, date(2000, 1, 1), date(2090, 1, 1)):
        board.add("anna", 5, at=at)
        board.add("bert", 5, at=at)

    assert (Ranking("game").forget("anna"), Ranking("game").forget("anna")) == (7, 0)

    assert board.rank("anna", at=date(2000, 1, 1)) is None
    assert board.count(at=date(2000, 1, 1)) == 1
    assert run_async(lambda: board.aforget("bert")) == 7


@pytest.mark.contract
def test_deleted_ranking_leaves_no_key(store: Store) -> None:
    for name in ("game", "other"):
        Ranking(name, units=("day", "all")).add("anna", 5, at=DAY)

    assert (Ranking("game").delete(), Ranking("game").delete()) == (True, False)

    assert Ranking("other").count() == 1
    assert run_async(lambda: Ranking("other").adelete()) is True
    assert store.keys() == []


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    board = Ranking("game")

    async def scene() -> list[object]:
        await board.aadd("anna", 3)
        await board.aadd("bert", 5)
        return [
            await board.aincr("anna", 4), await board.atop(limit=1), await board.aaround("bert", limit=0),
            await board.acount(), await board.arank("bert"), await board.apercentile("anna"),
            await board.aremove("anna"),
        ]  # fmt: skip

    best = RankedMember("anna", 7, 1)
    assert run_async(scene) == [7.0, [best], [RankedMember("bert", 5, 2)], 2, RankedMember("bert", 5, 2), 100.0, None]


def test_best_score_is_kept_in_either_order(redis_server: Store) -> None:
    points, times = Ranking("points"), Ranking("times", ascending=True)
    for score in (3, 9, 5):
        points.add("anna", score, best=True)
        times.add("anna", score, best=True)
    times.add("bert", 4)

    assert points.top() == [RankedMember("anna", 9, 1)]
    assert times.top() == [RankedMember("anna", 3, 1), RankedMember("bert", 4, 2)]
    assert times.rank("bert") == RankedMember("bert", 4, 2)


@pytest.mark.parametrize("ascending", [False, True])
def test_random_rankings_equal_a_model(redis_server: Store, ascending: bool) -> None:
    source = random.Random(2)
    board, scores = Ranking("game", ascending=ascending), {}
    for number in range(60):
        scores[f"m{number:02}"] = float(source.randrange(12))
        board.add(f"m{number:02}", scores[f"m{number:02}"])

    sign = 1 if ascending else -1
    order = sorted(scores, key=lambda name: (sign * scores[name], name))
    ranked = [
        RankedMember(name, scores[name], 1 + sum(sign * other < sign * scores[name] for other in scores.values()))
        for name in order
    ]

    assert board.top(limit=100) == ranked
    for place in range(60):
        assert board.around(order[place], limit=4) == ranked[max(0, place - 4) : place + 5]
        assert board.top(limit=9, offset=place) == ranked[place : place + 9]
        assert board.rank(order[place]) == ranked[place]


def test_concurrent_additions_are_all_counted(redis_server: Store) -> None:
    run_together(4, lambda number: [Ranking("game", units=("day", "all")).incr("anna") for _ in range(100)])

    assert Ranking("game", units=("all",)).top() == [RankedMember("anna", 400, 1)]


def test_addition_with_a_lost_reply_raises_and_is_not_repeated(proxy: Proxy) -> None:
    board = Ranking("game", using="proxied")
    board.incr("anna")
    proxy.drop_next_reply(after=b"{game}")

    with pytest.raises(ConnectionError):
        board.incr("anna")

    assert board.top() == [RankedMember("anna", 2, 1)]
    proxy.drop_next_reply(after=b"{game}")
    board.add("anna", 9)
    assert (proxy.dropped, board.top()[0].score) == (2, 9.0)


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (
            lambda: Ranking("a", units=("year",)),
            "a unit in units='year': expected one of 'all', 'day', 'week', 'month'.",
        ),
        (lambda: Ranking("a").add("x", float("nan")), "score=nan: expected a finite number."),
        (lambda: Ranking("a").add(None, 1), "member=None: expected a string, an integer or a UUID."),
        (lambda: Ranking("a").top(limit=0), "limit=0: expected an integer from 1 to 1000."),
        (lambda: Ranking("a").top(unit="day"), "<Ranking 'a'> keeps all, not 'day': see the argument units."),
    ],
)
def test_invalid_arguments_raise_with_the_reason(redis_server: Store, call: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(problem)}$"):
        call()
