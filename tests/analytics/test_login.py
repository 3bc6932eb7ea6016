"""A login is the day's sign-in, and never fails because of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.test import AsyncClient, Client
from django.utils import timezone

from django_redis_components.analytics import SignIns, missed_sign_ins, receivers, safeguard
from django_redis_components.analytics.missed_sign_ins import MISSED
from django_redis_components.core.circuit_breaker import breaker_for
from tests.support import Store, eventually, run_async

pytestmark = [
    pytest.mark.integration,
    pytest.mark.urls("tests.analytics.urls"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def anna() -> User:
    return User.objects.create(username="anna")


def test_login_is_counted_as_sign_in(store: Store, anna: User) -> None:
    assert Client().get("/enter/?name=anna").status_code == 200
    assert Client().get("/enter/?name=anna").status_code == 200

    assert SignIns("default").has_signed_in(anna.pk) is True
    assert SignIns("default").total() == 1
    key = f"{store.prefix}:analytics:{{default}}:si:d:{timezone.localdate():%Y%m%d}"
    assert store.raw.getbit(key, anna.pk) == 1


def test_async_login_is_counted(redis_server: Store, anna: User) -> None:
    async def enter() -> int:
        return (await AsyncClient().get("/async-enter/?name=anna")).status_code

    assert run_async(enter) == 200
    assert SignIns("default").has_signed_in(anna.pk) is True


def test_login_of_a_visitor_who_opted_out_is_not_counted(redis_server: Store, anna: User) -> None:
    client = Client()
    client.cookies["drc_analytics"] = "off"

    assert client.get("/enter/?name=anna").status_code == 200

    assert redis_server.keys() == []


def test_login_without_tracking_is_counted(redis_server: Store, anna: User) -> None:
    assert Client().get("/enter/?name=anna", headers={"DNT": "1", "Sec-GPC": "1"}).status_code == 200

    assert SignIns("default").has_signed_in(anna.pk) is True


def test_login_without_a_request_is_counted(redis_server: Store, anna: User) -> None:
    user_logged_in.send(User, request=None, user=anna)

    assert SignIns("default").has_signed_in(anna.pk) is True


def test_site_setting_names_the_sign_ins(redis_server: Store, anna: User, configure: Callable[..., None]) -> None:
    configure(SITE="shop")

    Client().force_login(anna)

    assert SignIns("shop").has_signed_in(anna.pk) is True
    assert SignIns("default").has_signed_in(anna.pk) is False


def test_setting_disables_sign_ins_on_login(redis_server: Store, anna: User, configure: Callable[..., None]) -> None:
    configure(SIGN_IN_ON_LOGIN=False)

    Client().force_login(anna)

    assert redis_server.keys() == []


def test_login_succeeds_without_redis(anna: User, caplog: pytest.LogCaptureFixture) -> None:
    safeguard.SAFEGUARD.reset()

    for _ in range(3):
        assert Client().get("/enter/?name=anna").status_code == 200

    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("Redis is unavailable, sign-ins are not counted: ")


def test_login_while_redis_is_away_is_counted_on_its_day_later(own_server: Store, anna: User) -> None:
    own_server.servers[0].stop()
    for _ in range(3):
        assert Client().get("/enter/?name=anna").status_code == 200
    own_server.servers[0].start()
    breaker_for("default").reset()

    eventually(lambda: SignIns("default").has_signed_in(anna.pk))

    assert SignIns("default").total() == 1


def test_sign_in_that_redis_refuses_for_good_is_logged_and_does_not_keep_others(
    redis_server: Store, anna: User, caplog: pytest.LogCaptureFixture
) -> None:
    key = f"{redis_server.prefix}:analytics:{{default}}:si:d:{timezone.localdate():%Y%m%d}"
    redis_server.raw.hset(key, "of another", "program")

    assert Client().get("/enter/?name=anna").status_code == 200

    eventually(lambda: not MISSED.kept())
    assert f"A sign-in of {timezone.localdate()} cannot be counted." in caplog.text
    assert "WRONGTYPE" in caplog.text


def test_sign_ins_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missed_sign_ins, "MAX_KEPT", 3)
    monkeypatch.setattr(MISSED, "notify", lambda: None)
    breaker_for("default").record_failure(open_s=60)

    for pk in range(10):
        receivers.count_sign_in(user=User(pk=pk))

    assert [sign_in.user_id for sign_in in MISSED.kept()] == [0, 1, 2]
    MISSED.clear()


def test_login_of_a_user_without_an_integer_key_succeeds_and_is_logged(
    redis_server: Store, configure: Callable[..., None], anna: User, caplog: pytest.LogCaptureFixture
) -> None:
    configure(MAX_USER_ID=1)
    big = User.objects.create(pk=2, username="big") if anna.pk != 2 else anna

    Client().force_login(big)

    (record,) = caplog.records
    assert record.getMessage() == "Cannot count sign-ins."
    assert "user_id=2: expected an integer from 0 to 1." in str(record.exc_info)


def test_receiver_is_connected_once() -> None:
    before = len(user_logged_in.receivers)

    apps.get_app_config("django_redis_components").ready()

    assert len(user_logged_in.receivers) == before


def test_receiver_ignores_other_signal_arguments(redis_server: Store, anna: User) -> None:
    extra: dict[str, Any] = {"request": None, "added_by_a_later_django": 1}

    user_logged_in.send(sender=User, user=anna, **extra)

    assert SignIns("default").has_signed_in(anna.pk) is True
