"""The three ways to sell: in each one buyer wins."""

from __future__ import annotations

import pytest

from tests.support.demo import demo_environment

BUYERS = ["zhangsan", "kitano", "lukasz", "orsted", "ismail", "lisi"]
WAYS = ["item", "one", "watch"]


@pytest.fixture
def act(demo, children):
    """Have something done in a process with the settings of the running demo, and more of the environment."""

    def done(what, *args, **env):
        environment = demo_environment(demo.directory) | env
        return children.call(f"tests.example.acts:{what}", *args, env=environment).result(60)

    return done


def test_one_concurrent_buyer_wins_with_each_strategy(act):
    for way, sale in zip(WAYS, act("sell_each_way", WAYS, BUYERS), strict=True):
        (winner,) = [outcome for outcome in sale["outcomes"] if outcome.startswith("sold to ")]
        assert sale["item"] == {"state": "sold", "buyer": winner.removeprefix("sold to ")}, way
        assert set(sale["outcomes"]) - {winner} <= {"NotForSale", "BeingBought"}, way


def test_a_claimed_item_is_rejected_at_once_and_can_be_bought_after_the_claim_ends(act, list_item):
    item = list_item("Ladder to the moon")

    during, after, late = act("buy_while_claimed", item)

    assert during[:2] == [503, "5"]
    assert "Another purchase of this item is in progress" in during[2]
    assert after[0] == 302
    assert late[0] == 409
    assert "You have already bought this item" in late[2]


def test_the_market_shows_its_strategy(act):
    texts = [
        "Two buyers, one item: a per-item lock picks the winner.",
        "Two buyers, one item: one lock for the whole market picks the winner.",
        "Two buyers, one item: an optimistic claim picks the winner, without a lock.",
    ]

    pages = act("market_pages", WAYS)

    assert [status for status, _ in pages] == [200] * 3
    assert [[text in page for text in texts] for _, page in pages] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


def test_an_unknown_strategy_is_rejected_by_name(act):
    assert act("wrong_way", DEMO_SALES="luck") == "DEMO_SALES='luck': expected one of item, one, watch."


def test_a_rush_sells_each_item_once_with_each_strategy(act):
    header, *rows, verdict = act("rush").splitlines()

    assert header.split()[:2] == ["way", "sold/s"]
    assert [row.split()[0] for row in rows] == WAYS
    for row in rows:
        sold, too_late, busy, attempts, oversold = map(int, row.split()[4:9])
        assert (sold, too_late + busy, attempts, oversold) == (3, 9, 12, 0)
    assert verdict.startswith("Verdict: every strategy sold each item exactly once, 0 oversold; fastest: ")
    assert "of 12 attempts to be retried), slowest: " in verdict


def test_a_rush_that_oversells_is_an_error_that_names_the_strategy(act):
    assert act("rush_verdict", [("item", 3, [1, 2, 3]), ("one", 4, [1, 2])]) == (
        "Verdict: not every item was sold exactly once. one: 2 oversold, 1 unsold."
    )


def test_a_rush_without_the_market_s_checks_exits_with_an_error(act):
    assert act("rush_without_checks").startswith("Verdict: not every item was sold exactly once. item: ")
