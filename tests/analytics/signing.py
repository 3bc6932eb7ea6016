"""Signing users in, for the tests."""

from __future__ import annotations

from datetime import date, timedelta

from django_redis_components.analytics import SignIns
from tests.support import Store

EPOCH = date(2020, 1, 1)
DAY = date(2026, 11, 20)


def days_from(start: date, count: int) -> list[date]:
    return [start + timedelta(days=number) for number in range(count)]


def sign_in_on(days: list[date], user_id: int = 7, name: str = "site") -> SignIns:
    sign_ins = SignIns(name)
    for day in days:
        sign_ins.sign_in(user_id, at=day)
    return sign_ins


def base(store: Store, name: str = "site") -> str:
    return f"{store.prefix}:analytics:{{{name}}}:si"
