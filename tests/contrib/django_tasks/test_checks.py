"""System checks of TASKS."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import CheckMessage

from django_redis_components.contrib.django_tasks.options import NAMES
from django_redis_components.taskqueue import exponential
from tests.contrib.django_tasks.framework import NAME, REDIS, default_task_backend
from tests.contrib.django_tasks.support import SITE
from tests.support.processes import Children


def messages() -> list[CheckMessage]:
    return list(default_task_backend.check())


def test_valid_settings_give_no_message(configure: Any) -> None:
    options = {"USING": "default", "MAX_ATTEMPTS": 3, "MAX_DELIVERIES": 2, "BACKOFF": exponential(), "RESULT_TTL": 60}

    configure(options=options, queues=["default", "mails"])

    assert messages() == []


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("MAX_ATTEMPT", "Did you mean 'MAX_ATTEMPTS'?"),
        ("using", "Did you mean 'USING'?"),
        (
            "prefix",
            f"Accepted: USING, {', '.join(name.upper() for name in NAMES)}.",
        ),
    ],
)
def test_an_unknown_option_is_an_error(configure: Any, key: str, hint: str) -> None:
    configure(options={key: 1})

    (found,) = messages()

    assert (found.id, found.msg, found.hint) == (
        "drc.E040",
        f'TASKS["default"]["OPTIONS"] has the unknown key {key!r}.',
        hint,
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"MAX_ATTEMPTS": "3"}, "max_attempts='3': expected an integer from 1 to 1000000."),
        ({"CONCURRENCY": 0}, "concurrency=0: expected an integer from 1 to 1000000."),
        ({"RESULT_TTL": -1}, "result_ttl=-1: expected a number of seconds above 0, or a timedelta."),
        ({"BACKOFF": [1, "x"]}, "backoff[1]='x': expected a number of seconds of at least 0, or a timedelta."),
    ],
    ids=str,
)
def test_a_wrong_value_is_an_error(configure: Any, options: dict[str, Any], text: str) -> None:
    configure(options=options)

    (found,) = messages()

    assert (found.id, found.msg) == ("drc.E040", f'TASKS["default"]["OPTIONS"]["{next(iter(options))}"]: {text}')


@pytest.mark.parametrize(
    ("using", "hint"),
    [("defalt", "Did you mean 'default'?"), ("xyz", "Known aliases: default."), (None, "Known aliases: default.")],
)
def test_a_connection_that_does_not_exist_is_an_error(configure: Any, using: Any, hint: str) -> None:
    configure(options={"USING": using})

    (found,) = messages()

    assert (found.id, found.hint) == ("drc.E041", hint)
    assert found.msg == (
        f'TASKS["default"]["OPTIONS"]["USING"] = {using!r}: REDIS_COMPONENTS["CONNECTIONS"] has no such alias.'
    )


def test_queues_that_the_task_queue_refuses_are_errors(configure: Any, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"QUEUES": ["default", "mails"]}}
    configure(queues=["default", "mail", "{a}"])

    found = messages()

    assert [each.id for each in found] == ["drc.E042", "drc.E042"]
    assert found[0].msg == (
        'TASKS["default"]["QUEUES"]: Queue \'mail\' is not in REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"].'
        " Declared queues: default, mails. Did you mean 'mails'?"
    )
    assert found[1].msg == (
        'TASKS["default"]["QUEUES"]: queue name \'{a}\': braces are not accepted; they mark the Cluster slot in keys.'
    )


def test_errors_in_redis_components_are_left_to_their_own_check(configure: Any, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"TASKQUEU": {}}
    configure(options={"USING": "nowhere"})

    assert messages() == []


def test_a_site_without_the_app_has_no_worker(configure: Any, settings: Any) -> None:
    configure()
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_redis_components"]

    (found,) = messages()

    assert (found.id, found.msg, found.hint) == (
        "drc.W040",
        'TASKS["default"] uses the Redis backend, but django_redis_components is not in INSTALLED_APPS.',
        "Add it to INSTALLED_APPS: the command runworker is part of it.",
    )


@pytest.mark.parametrize("is_installed", [True, False], ids=["with its app", "without it"])
def test_manage_py_check_asks_the_backend(children: Children, tmp_path: Any, is_installed: bool) -> None:
    """Nothing else in this site imports the framework, which registers its check when it is imported."""
    site = tmp_path / "wrong_site.py"
    site.write_text(
        "from tests.settings import *\n"
        f"TASKS = {{'redis': {{'BACKEND': {REDIS!r}, 'OPTIONS': {{'RESULT_TTLS': 5}}}}}}\n"
        f"INSTALLED_APPS += ['django_tasks'] * {is_installed and NAME == 'django_tasks'}\n"
    )
    env = {**SITE, "PYTHONPATH": f"{tmp_path}:.", "DJANGO_SETTINGS_MODULE": "wrong_site"}

    child = children.manage("check", env=env)

    assert child.wait(60) == 1
    assert '(drc.E040) TASKS["redis"]["OPTIONS"] has the unknown key \'RESULT_TTLS\'.' in child.output
    assert "HINT: Did you mean 'RESULT_TTL'?" in child.output
    assert child.output.count("drc.E040") == 1


def test_a_site_without_tasks_does_not_import_the_framework(children: Children) -> None:
    program = (
        "import django, sys\n"
        "from django.conf import settings\n"
        "apps = ['django.contrib.contenttypes', 'django.contrib.auth', 'django_redis_components']\n"
        "settings.configure(INSTALLED_APPS=apps)\n"
        "django.setup()\n"
        f"print(set(sys.modules) & {{{NAME!r}}})\n"
    )

    child = children.run("-c", program)

    assert child.wait(60) == 0
    assert child.output.strip() == "set()"


def test_a_misspelled_key_of_a_backend_is_an_error(configure: Any, settings: Any) -> None:
    configure()
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTION": {"MAX_ATTEMPTS": 3}, "VERSION": 2}}

    found = messages()

    assert [(each.id, each.msg, each.hint) for each in found] == [
        ("drc.E040", "TASKS[\"default\"] has the unknown key 'OPTION'.", "Did you mean 'OPTIONS'?"),
        ("drc.E040", "TASKS[\"default\"] has the unknown key 'VERSION'.", "Accepted: BACKEND, QUEUES, OPTIONS."),
    ]
