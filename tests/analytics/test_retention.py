"""Retention: how many users of a day came back on each of the next days."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from django_redis_components.analytics import SignIns
from tests.support import Store, run_async

DAY = date(2026, 12, 28)


@pytest.mark.contract
def test_retention_equals_plain_python(store: Store) -> None:
    source, sign_ins = random.Random(4), SignIns("site")
    users = {number: set(source.sample(range(50), 12)) for number in range(8)}
    for number, ids in users.items():
        for user in ids:
            sign_ins.sign_in(user, DAY + timedelta(days=number))

    expected = [len(users[0] & users[number]) for number in range(8)] + [0, 0]
    assert sign_ins.retention(DAY, 9) == run_async(lambda: sign_ins.aretention(DAY, 9)) == expected
    assert SignIns("empty").retention(DAY, 2) == [0, 0, 0]
    assert not [key for key in store.keys() if b"scratch" in key]  # noqa: SIM118 - a Store is no dict


@pytest.mark.parametrize("days", [0, 401, True, 1.5])
def test_number_of_days_is_bounded(redis_server: Store, days: object) -> None:
    with pytest.raises(ValueError, match=rf"^days={days}: expected an integer from 1 to 400\.$"):
        SignIns("site").retention(DAY, days)  # type: ignore[arg-type]
