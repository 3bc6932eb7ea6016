"""The health endpoint: 200 or 503 with what failed, for load balancers and uptime checks."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail
from django.test import Client

from django_redis_components import checks
from tests.dashboard.support import write_poller, write_queue, write_worker
from tests.support import Store
from tools.localserver import free_port

pytestmark = pytest.mark.django_db

URL = "/redis/healthz/"
TOKEN = "health-token-0123456789"


def get(client: Client, settings: Any, *, sent: str = TOKEN, **monitoring: Any) -> Any:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "MONITORING": monitoring or {"TOKEN": TOKEN}}
    return client.get(URL, headers={"Authorization": f"Bearer {sent}"} if sent else {})


def test_healthy_site_is_200(redis_server: Store, settings: Any, client: Client) -> None:
    write_queue(redis_server, "default", ready=1, failed=3)
    write_worker(redis_server, "here:a")
    write_poller(redis_server)

    response = get(client, settings)

    assert (response.status_code, response.json()) == (
        200,
        {"status": "healthy", "problems": [], "environment": None},
    )
    assert "no-store" in response["Cache-Control"]


def test_warning_is_200_with_the_problem(redis_server: Store, settings: Any, client: Client) -> None:
    write_queue(redis_server, "mail", ready=2, age_s=3_700)
    write_worker(redis_server, "here:a", queues=["mail"])
    write_poller(redis_server)

    response = get(client, settings)

    assert (response.status_code, response.json()["status"]) == (200, "healthy")
    [problem] = response.json()["problems"]
    assert (problem["code"], problem["severity"]) == ("late", "warning")


def test_critical_problem_is_503(redis_server: Store, settings: Any, client: Client) -> None:
    write_queue(redis_server, "mail", ready=2, age_s=3_700)
    write_worker(redis_server, "here:a")
    write_poller(redis_server)

    response = get(client, settings)

    assert response.status_code == 503
    [problem] = response.json()["problems"]
    assert (problem["code"], problem["command"]) == ("no_worker", "python manage.py runworker mail")
    assert "Queue mail has 2 ready tasks" in problem["text"]
    assert mail.outbox == []


def test_redis_away_is_503_with_the_cause_and_no_password(settings: Any, client: Client) -> None:
    port = free_port()
    url = f"redis://user:very-secret@127.0.0.1:{port}/0"
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": url}}}

    response = get(client, settings)

    assert response.status_code == 503
    [problem] = response.json()["problems"]
    assert problem["code"] == "redis_unreachable"
    assert f"127.0.0.1:{port}" in problem["text"]
    assert "very-secret" not in response.content.decode()


def test_public_view_names_the_problems_and_no_queue(redis_server: Store, settings: Any, client: Client) -> None:
    write_queue(redis_server, "mail", ready=2, age_s=3_700)

    response = get(client, settings, sent="", PUBLIC=True)

    assert response.json() == {
        "status": "unhealthy",
        "problems": [{"code": code, "severity": "critical"} for code in ("no_worker", "poller_missing")],
    }


@pytest.mark.parametrize(
    ("sent", "monitoring", "status"),
    [("", {"TOKEN": None}, 404), ("", {"TOKEN": TOKEN}, 401), ("wrong", {"TOKEN": TOKEN}, 401)],
)
def test_view_is_off_without_settings_and_refuses_a_wrong_token(
    redis_server: Store, settings: Any, client: Client, sent: str, monitoring: dict[str, Any], status: int
) -> None:
    response = get(client, settings, sent=sent, **monitoring)

    assert response.status_code == status
    assert client.post(URL).status_code == 405


def test_public_views_are_a_warning_of_the_checks(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": "redis://h/1"}},
        "MONITORING": {"PUBLIC": True},
    }

    assert [each.id for each in checks.check_monitoring()] == ["drc.W070"]


def test_short_token_is_an_error_of_the_settings(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"MONITORING": {"TOKEN": "short"}}

    [error] = checks.check_settings()
    assert "16 to 200 printable ASCII characters" in error.msg
