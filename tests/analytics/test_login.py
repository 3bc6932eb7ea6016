"""A login is the day's sign-in, and never fails because of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.test import AsyncClient, Client
from django.utils import timezone

from django_redis_components.analytics import SignIns, receivers
from django_redis_components.analytics import safeguard as guard
from tests.support import Store, run_async

pytestmark = [
    pytest.mark.integration,
    pytest.mark.urls("tests.analytics.urls"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def anna() -> User:
    return User.objects.create(username="anna")


def test_a_login_counts_as_the_sign_in_of_the_day(store: Store, anna: User) -> None:
    assert Client().get("/enter/?name=anna").status_code == 200
    assert Client().get("/enter/?name=anna").status_code == 200

    assert SignIns("default").signed_in(anna.pk) is True
    assert SignIns("default").total() == 1
    key = f"{store.prefix}:analytics:{{default}}:si:d:{timezone.localdate():%Y%m%d}"
    assert store.raw.getbit(key, anna.pk) == 1


def test_an_async_login_counts_too(redis_server: Store, anna: User) -> None:
    async def enter() -> int:
        return (await AsyncClient().get("/async-enter/?name=anna")).status_code

    assert run_async(enter) == 200
    assert SignIns("default").signed_in(anna.pk) is True


def test_the_site_names_what_is_signed_in_to(redis_server: Store, anna: User, configure: Callable[..., None]) -> None:
    configure(SITE="shop")

    Client().force_login(anna)

    assert SignIns("shop").signed_in(anna.pk) is True
    assert SignIns("default").signed_in(anna.pk) is False


def test_the_setting_turns_it_off(redis_server: Store, anna: User, configure: Callable[..., None]) -> None:
    configure(SIGN_IN_ON_LOGIN=False)

    Client().force_login(anna)

    assert redis_server.keys() == []


def test_a_login_works_without_redis(anna: User, caplog: pytest.LogCaptureFixture) -> None:
    guard.GUARD.reset()

    for _ in range(3):
        assert Client().get("/enter/?name=anna").status_code == 200

    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("Redis is away, sign-ins are not counted: ")


def test_a_user_whose_key_is_no_bit_logs_in_and_the_log_says_why(
    redis_server: Store, configure: Callable[..., None], anna: User, caplog: pytest.LogCaptureFixture
) -> None:
    configure(MAX_USER_ID=1)
    big = User.objects.create(pk=2, username="big") if anna.pk != 2 else anna

    Client().force_login(big)

    (record,) = caplog.records
    assert record.getMessage() == "An error kept sign-ins from being counted."
    assert "user_id=2: expected 0 to 1." in str(record.exc_info)


def test_the_receiver_is_connected_once_however_often_the_apps_get_ready() -> None:
    before = len(user_logged_in.receivers)

    receivers.connect()

    assert len(user_logged_in.receivers) == before
    assert user_logged_in.disconnect(dispatch_uid="django_redis_components.analytics.sign_in") is True
    receivers.connect()


def test_other_arguments_of_the_signal_do_not_matter(redis_server: Store, anna: User) -> None:
    extra: dict[str, Any] = {"request": None, "added_by_a_later_django": 1}

    user_logged_in.send(sender=User, user=anna, **extra)

    assert SignIns("default").signed_in(anna.pk) is True
