"""Deleting sign-ins: a user from all days, and the totals of old days."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from django_redis_components.analytics import SignIns, signins
from tests.analytics.signing import DAY, EPOCH, base, days_from, sign_in_on
from tests.support import Proxy, Store, run_together


def test_forget_removes_the_user_from_the_days(store: Store) -> None:
    sign_ins = sign_in_on(days_from(DAY, 3), 7)
    sign_in_on([DAY], 8)

    assert sign_ins.forget(7) == 3

    assert sign_ins.forget(7) == 0
    assert not store.raw.exists(f"{base(store)}:u:7")
    assert sign_ins.series(DAY, DAY + timedelta(days=2)) == {
        DAY: 1,
        DAY + timedelta(days=1): 0,
        DAY + timedelta(days=2): 0,
    }


def test_forget_does_not_recreate_pruned_days(store: Store) -> None:
    sign_ins = sign_in_on(days_from(DAY, 2))
    sign_ins.prune(DAY + timedelta(days=1))

    assert sign_ins.forget(7) == 2

    assert not store.raw.exists(f"{base(store)}:d:20261120")


def test_forget_leaves_no_bit_during_concurrent_sign_ins(redis_server: Store) -> None:
    for user in range(20):
        sign_in_on(days_from(DAY, 5), user)

        def act(number: int, user: int = user) -> None:
            if number:
                SignIns("site").forget(user)
            else:
                SignIns("site").sign_in(user, at=DAY + timedelta(days=9))

        run_together(2, act)

    sign_ins = SignIns("site")
    left = [user for user in range(20) if sign_ins.count(user)]
    assert sum(sign_ins.series(DAY, DAY + timedelta(days=9)).values()) == len(left)
    assert all(sign_ins.first(user) == DAY + timedelta(days=9) for user in left)


def test_forget_raises_after_too_many_concurrent_sign_ins(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sign_in_on([DAY])
    monkeypatch.setattr(signins, "FORGET_ATTEMPTS", 0)

    with pytest.raises(RuntimeError, match=r"^<SignIns 'site'>: user 7 signed in 0 times during forget\(\)\.$"):
        SignIns("site").forget(7)


def test_forget_is_repeated_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    sign_in_on([DAY, DAY + timedelta(days=1)])
    sign_in_on([DAY], 8).forget(8)
    proxy.drop_next_reply(after=b"20261121")

    assert SignIns("site", using="proxied").forget(7) == 2

    assert proxy.dropped == 1
    assert SignIns("site").total(at=DAY) == 0


def test_prune_deletes_earlier_days_and_no_user(store: Store) -> None:
    sign_ins = sign_in_on([EPOCH, *days_from(DAY, 3)])

    assert sign_ins.prune(DAY + timedelta(days=1)) == 2

    assert sign_ins.prune(DAY + timedelta(days=1)) == 0
    assert sign_ins.series(DAY, DAY + timedelta(days=2)) == {
        DAY: 0,
        DAY + timedelta(days=1): 1,
        DAY + timedelta(days=2): 1,
    }
    assert sign_ins.count(7) == 4
    assert sign_ins.prune(date(1999, 1, 1)) == 0
