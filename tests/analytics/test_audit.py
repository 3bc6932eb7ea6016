"""Sign-ins that are added or removed by hand, and who did it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_redis_components.analytics import SignInChange, SignIns, signins
from tests.analytics.signing import base, sign_in_on
from tests.support import Proxy, Store, run_async, run_together

DAY = date(2026, 11, 10)


@pytest.mark.contract
def test_made_up_and_undone_days_are_recorded_with_who_and_when(store: Store) -> None:
    sign_ins = sign_in_on([DAY])
    before = datetime.now(UTC) - timedelta(minutes=1)

    assert sign_ins.backfill(7, at=DAY - timedelta(days=1), by="support: anna b.") is True
    assert sign_ins.streak(7, at=DAY) == 2
    assert sign_ins.remove(7, at=DAY, by=42) is True

    assert (sign_ins.streak(7, at=DAY), sign_ins.total(at=DAY), sign_ins.total(at=DAY - timedelta(days=1))) == (1, 0, 1)
    found = sign_ins.changes(7)
    assert [(each.action, each.day, each.by) for each in found] == [
        ("remove", DAY, "42"),
        ("backfill", DAY - timedelta(days=1), "support: anna b."),
    ]
    assert all(before < each.at < before + timedelta(minutes=2) for each in found)
    assert sign_ins.changes(8) == []


@pytest.mark.contract
def test_nothing_is_recorded_where_nothing_changes(store: Store) -> None:
    sign_ins = sign_in_on([DAY])

    assert sign_ins.backfill(7, at=DAY, by="anna") is False
    assert sign_ins.remove(7, at=DAY - timedelta(days=1), by="anna") is False
    assert sign_ins.remove(8, at=DAY, by="anna") is False

    assert sign_ins.changes(7) == sign_ins.changes(8) == []
    assert not store.raw.exists(f"{base(store)}:u:8"), "undo creates no key"


@pytest.mark.contract
def test_async_twins_behave_like_the_sync_methods(store: Store) -> None:
    async def change() -> tuple[bool, bool, list[SignInChange]]:
        sign_ins = SignIns("site")
        made = await sign_ins.abackfill(7, at=DAY, by="anna")
        return made, await sign_ins.aremove(7, at=DAY, by="bert"), await sign_ins.achanges(7)

    made, undone, entries = run_async(change)

    assert (made, undone, [each.by for each in entries]) == (True, True, ["bert", "anna"])
    assert entries == SignIns("site").changes(7)


def test_sign_in_after_undo_is_the_first_again(redis_server: Store) -> None:
    sign_ins = sign_in_on([DAY])
    sign_ins.remove(7, at=DAY, by="anna")

    assert sign_ins.sign_in(7, at=DAY) is True
    assert len(sign_ins.changes(7)) == 1


def test_undo_does_not_recreate_a_pruned_day(redis_server: Store) -> None:
    sign_ins = sign_in_on([DAY])
    sign_ins.prune(DAY + timedelta(days=1))

    assert sign_ins.remove(7, at=DAY, by="anna") is True

    assert not redis_server.raw.exists(f"{base(redis_server)}:d:{DAY:%Y%m%d}")


def test_calls_repeated_after_a_lost_reply_are_recorded_once(proxy: Proxy, redis_server: Store) -> None:
    sign_ins, direct = SignIns("site", using="proxied"), SignIns("site")
    direct.backfill(8, at=DAY, by="anna")
    direct.remove(8, at=DAY, by="anna")

    proxy.drop_next_reply(after=b"si:u:7", times=2)
    assert sign_ins.backfill(7, at=DAY, by="anna") is True
    proxy.drop_next_reply(after=b"si:u:7", times=2)
    assert sign_ins.remove(7, at=DAY, by="anna") is True

    assert proxy.dropped == 4
    assert [each.action for each in direct.changes(7)] == ["remove", "backfill"]


def test_one_of_several_callers_makes_a_day_up(redis_server: Store) -> None:
    results = run_together(8, lambda number: SignIns("site").backfill(7, at=DAY, by=number))

    assert sorted(results) == [False] * 7 + [True]
    assert len(SignIns("site").changes(7)) == 1


def test_audit_is_bounded_and_deleted_with_the_user(redis_server: Store) -> None:
    sign_ins = SignIns("site")
    for number in range(120):
        sign_ins.backfill(7, at=date(2026, 3, 1) + timedelta(days=number), by=number)

    assert [each.by for each in sign_ins.changes(7)] == [str(number) for number in range(119, 19, -1)]
    assert redis_server.raw.llen(f"{base(redis_server)}:a:7") == signins.MAX_AUDIT
    assert redis_server.raw.ttl(f"{base(redis_server)}:a:7") == -1
    sign_ins.forget(7)
    assert sign_ins.changes(7) == []
    assert not redis_server.raw.exists(f"{base(redis_server)}:a:7")


def test_day_in_the_future_is_refused(redis_server: Store) -> None:
    today = timezone.localdate()

    with pytest.raises(ValueError, match=rf"^at={today + timedelta(days=1)}: expected today, {today}, or an earlier"):
        SignIns("site").backfill(7, at=today + timedelta(days=1), by="anna")
    assert SignIns("site").backfill(7, at=today, by="anna")


@pytest.mark.parametrize("by", [None, True, 1.5, "", "a\nb", "{x}"])
@pytest.mark.parametrize("method", ["backfill", "remove"])
def test_invalid_author_raises_without_a_request(method: str, by: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^by"):
        getattr(SignIns("site"), method)(7, at=DAY, by=by)
