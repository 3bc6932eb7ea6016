"""RecentList on every store."""

from __future__ import annotations

import re

import pytest

from django_redis_components.autocomplete import RecentList, Suggestion
from tests.support import Proxy, Store, run_async, run_together


def test_latest_choice_is_first_and_ids_are_unique(store: Store) -> None:
    recents = RecentList("user:7")

    for id_ in (1, 2, 3, 1):
        recents.touch(id_)

    assert recents.ids() == ["1", "3", "2"]


def test_list_is_trimmed_to_its_limit(store: Store) -> None:
    recents = RecentList("user:7", limit=3)

    for id_ in range(5):
        recents.touch(id_)

    assert recents.ids() == ["4", "3", "2"]
    assert store.raw.llen(f"{store.prefix}:autocomplete:{{user:7}}:recent") == 3


def test_touch_without_text_keeps_the_stored_text(store: Store) -> None:
    recents = RecentList("user:7")

    recents.touch(1, "Anna")
    recents.touch(2)
    recents.touch(1)
    first = recents.all()
    recents.touch(1, "Anne")

    assert first == [Suggestion("1", "Anna"), Suggestion("2", "2")]
    assert recents.all()[0] == Suggestion("1", "Anne")
    assert all(one.is_recent for one in recents.all())


def test_completing_finds_each_word_and_folds_the_spelling(store: Store) -> None:
    recents = RecentList("user:7")

    for id_, text in enumerate(["Émile Zola", "Zoë", "张三", "Anna"]):
        recents.touch(id_, text)

    assert [one.text for one in recents.complete("ZO")] == ["Zoë", "Émile Zola"]
    assert [one.text for one in recents.complete("三")] == ["张三"]
    assert [one.text for one in recents.complete("")] == ["Anna", "张三", "Zoë", "Émile Zola"]
    assert [one.text for one in recents.complete("", limit=2)] == ["Anna", "张三"]


def test_remove_deletes_an_id_and_ignores_an_unknown_one(store: Store) -> None:
    recents = RecentList("user:7")
    recents.touch(1, "Anna")
    recents.touch(11, "Bert")

    recents.remove(1)
    recents.remove(1)

    assert recents.ids() == ["11"]


@pytest.mark.contract
def test_removing_the_last_and_clearing_leave_no_key(store: Store) -> None:
    recents = RecentList("user:7")
    recents.touch(1)
    recents.remove(1)
    after_remove = store.keys()
    recents.touch(2)

    recents.delete()

    assert after_remove == store.keys() == []


def test_each_touch_gives_the_list_its_time_to_live(store: Store) -> None:
    key = f"{store.prefix}:autocomplete:{{user:7}}:recent"

    RecentList("user:7").touch(1)
    by_default = store.raw.ttl(key)
    RecentList("user:7", ttl=3600).touch(2)

    assert 399 * 86_400 < by_default <= 400 * 86_400
    assert 3_500 < store.raw.ttl(key) <= 3_600


@pytest.mark.contract
def test_removing_does_not_change_the_time_to_live(store: Store) -> None:
    recents = RecentList("user:7", ttl=3600)
    recents.touch(1)
    recents.touch(2)

    recents.remove(1)

    assert 3_500 < store.raw.ttl(f"{store.prefix}:autocomplete:{{user:7}}:recent") <= 3_600


@pytest.mark.contract
def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    recents = RecentList("user:7")

    async def scene() -> list[object]:
        await recents.atouch(1, "Anna")
        await recents.atouch(2, "Bert")
        await recents.atouch(3)
        await recents.aremove(3)
        seen = [await recents.aall(), await recents.acomplete("an"), await recents.aids()]
        await recents.adelete()
        return [*seen, await recents.aall()]

    listed, completed, ids, cleared = run_async(scene)

    assert listed == [Suggestion("2", "Bert"), Suggestion("1", "Anna")]
    assert completed == [Suggestion("1", "Anna")]
    assert ids == ["2", "1"]
    assert cleared == []


def test_concurrent_touches_leave_each_id_once(store: Store) -> None:
    recents = RecentList("user:7", limit=10)

    def touch(number: int) -> None:
        for step in range(30):
            recents.touch((number + step) % 12, f"Name {(number + step) % 12}")

    run_together(6, touch)

    ids = recents.ids()
    assert len(ids) == len(set(ids)) == 10


def test_touch_is_repeated_after_a_lost_reply_and_counts_once(proxy: Proxy) -> None:
    recents = RecentList("user:7", using="proxied")
    recents.touch(1, "Anna")
    proxy.drop_next_reply(after=b"{user:7}")

    recents.touch(2, "Bert")

    assert proxy.dropped == 1
    assert recents.ids() == ["2", "1"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "name of a recent list is empty: expected 1 to 200 bytes of text."),
        ("a{b", "name of a recent list 'a{b': braces are not accepted; they mark the Cluster slot in keys."),
        ("a\x00b", "name of a recent list 'a\\x00b': control character '\\x00' is not accepted."),
        ("é" * 101, f"name of a recent list '{'é' * 40}'… has 202 bytes: expected at most 200."),
    ],
)
def test_invalid_name_raises_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        RecentList(name)


@pytest.mark.parametrize("limit", [0, 1001, 2.5, True])
def test_invalid_limit_raises(limit: object) -> None:
    with pytest.raises((TypeError, ValueError), match=r"expected an integer from 1 to 1000\."):
        RecentList("user:7", limit=limit)  # type: ignore[arg-type]


def test_invalid_ttl_raises() -> None:
    with pytest.raises(ValueError, match=r"ttl=0: expected a number of seconds above 0, or a timedelta\."):
        RecentList("user:7", ttl=0)


def test_repr_contains_the_name_of_the_list() -> None:
    assert repr(RecentList("user:7")) == "<RecentList 'user:7'>"
