"""Sign-ins of users whose ids are UUIDs, texts or large numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from django_redis_components.analytics import Events, SignIns, aforget_number, forget_number, signins
from django_redis_components.core.client import connections
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import run
from tests.analytics.signing import DAY, base
from tests.support import Proxy, Store, run_async, run_together

ANNA = UUID(int=2**100)


@pytest.mark.contract
def test_ids_of_any_kind_sign_in(store: Store) -> None:
    sign_ins = SignIns("site", mapped=True)

    for user in (ANNA, 2**40, "bert@example.org"):
        assert sign_ins.sign_in(user, at=DAY)
        assert not sign_ins.sign_in(user, at=DAY)

    assert sign_ins.total(at=DAY) == 3
    assert store.raw.strlen(f"{base(store)}:d:{DAY:%Y%m%d}") == 1
    assert (sign_ins.streak(ANNA, at=DAY), sign_ins.count(2**40), sign_ins.first("bert@example.org")) == (1, 1, DAY)
    assert sign_ins.has_signed_in(str(ANNA), at=DAY), "a UUID and its text are the same id"
    assert sign_ins.forget(2**40)
    assert (sign_ins.total(at=DAY), sign_ins.has_signed_in(2**40, at=DAY)) == (2, False)
    assert run_async(lambda: sign_ins.asign_in(2**40, at=DAY))
    assert sign_ins.total(at=DAY) == 3


def test_large_id_is_refused_without_mapping_and_allocates_nothing(redis_server: Store) -> None:
    sign_ins = SignIns("site")

    for call in (sign_ins.sign_in, sign_ins.has_signed_in, sign_ins.backfill, sign_ins.remove):
        options: dict[str, Any] = {"by": "x"} if call in (sign_ins.backfill, sign_ins.remove) else {}
        with pytest.raises(
            ValueError, match=r"^user_id=1099511627776: expected an integer from 0 to 10000000\. .* need mapped=True\.$"
        ):
            call(2**40, at=DAY, **options)

    assert redis_server.keys() == []


def test_events_of_the_same_name_use_the_same_numbers(redis_server: Store) -> None:
    paid, sign_ins = Events("paid", site="site", mapped=True), SignIns("site", mapped=True)

    paid.mark("anna", at=DAY)
    sign_ins.sign_in("bert", at=DAY)
    paid.mark("bert", at=DAY)

    ids = redis_server.raw.hgetall(f"{redis_server.prefix}:analytics:{{site}}:ids")
    assert ids == {b"": b"2", b"anna": b"0", b"bert": b"1"}
    assert redis_server.raw.getbit(f"{base(redis_server)}:d:{DAY:%Y%m%d}", 1) == 1


def test_concurrent_sign_ins_give_each_id_one_number(redis_server: Store) -> None:
    results = run_together(4, lambda _: [SignIns("site", mapped=True).sign_in(f"user {n}", at=DAY) for n in range(50)])

    assert [sum(each) for each in zip(*results, strict=True)] == [1] * 50
    assert SignIns("site").total(at=DAY) == 50
    assert redis_server.raw.hlen(f"{redis_server.prefix}:analytics:{{site}}:ids") == 51


def test_lost_reply_of_a_new_id_gives_it_one_number(proxy: Proxy, redis_server: Store) -> None:
    SignIns("site", mapped=True).sign_in("first", at=DAY)
    proxy.drop_next_reply(after=b"si:u:second", times=2)

    assert SignIns("site", mapped=True, using="proxied").sign_in("second", at=DAY) is True

    assert proxy.dropped == 2
    assert redis_server.raw.hget(f"{redis_server.prefix}:analytics:{{site}}:ids", "") == b"2"


@pytest.mark.contract
def test_number_of_a_forgotten_id_is_not_used_again(store: Store) -> None:
    sign_ins, ids = SignIns("site", mapped=True), f"{store.prefix}:analytics:{{site}}:ids"
    for user in ("anna", "bert"):
        sign_ins.sign_in(user, at=DAY)

    assert sign_ins.forget("bert")
    assert forget_number("bert", site="site") == 1
    assert run_async(lambda: aforget_number("bert", site="site")) == 0
    sign_ins.sign_in("carl", at=DAY)

    assert store.raw.hget(ids, "carl") == b"2"
    assert not store.raw.hexists(ids, "bert")
    assert sign_ins.total(at=DAY) == 2


def test_forget_of_an_id_without_number_removes_its_days(redis_server: Store) -> None:
    sign_ins = SignIns("site", mapped=True)
    sign_ins.sign_in("anna", at=DAY)
    forget_number("anna", site="site")

    assert sign_ins.remove("anna", at=DAY, by="test") is True
    assert sign_ins.forget("anna") == 0
    assert sign_ins.total(at=DAY) == 1, "belongs to no id"
    assert redis_server.raw.hkeys(f"{redis_server.prefix}:analytics:{{site}}:ids") == [b""]


def test_numbers_end_at_the_largest_user_id(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(MAX_USER_ID=1)
    sign_ins = SignIns("site", mapped=True)
    for user in "ab":
        sign_ins.sign_in(user, at=DAY)

    with pytest.raises(ValueError, match=r"^<SignIns 'site'>: 2 users have numbers already, as many as REDIS"):
        sign_ins.sign_in("c", at=DAY)

    assert not sign_ins.has_signed_in("c", at=DAY)
    assert sign_ins.sign_in("a", at=DAY) is False


@pytest.mark.parametrize("user", [None, True, 7.0, "", "a{b}", "x" * 201])
def test_ids_that_cannot_be_mapped_raise(user: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^user_id"):
        SignIns("site", mapped=True).sign_in(user, at=DAY)


@pytest.mark.unmeasured
def test_a_day_of_100_000_mapped_users_takes_12_5_kb(redis_server: Store) -> None:
    sign_ins = SignIns("site", mapped=True)
    for start in range(0, 100_000, 10_000):
        flows = [signins.sign_in_flow(sign_ins, UUID(int=2**90 + n), DAY) for n in range(start, start + 10_000)]
        assert all(run(connections.client(), gather_values(flows)))

    key = f"{base(redis_server)}:d:{DAY:%Y%m%d}"
    assert sign_ins.total(at=DAY) == 100_000
    assert redis_server.raw.strlen(key) == 12_500
    assert redis_server.raw.memory_usage(key) < 25_000  # Redis doubles a string that grows
    ids = f"{redis_server.prefix}:analytics:{{site}}:ids"
    assert redis_server.raw.memory_usage(ids, samples=100) / 100_000 < 120
