"""`manage.py redis queues`: errors, confirmation, exit codes, output for terminals and pipes."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.management.redis.queues.operations import QueueOperations
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.store.task_records import new_id
from django_redis_components.taskqueue.task import Task
from tests.support import Store
from tests.support.processes import ROOT, child_environment
from tests.taskqueue.store.support import data, fail_many, lines, redis_command, refused
from tests.taskqueue.support import SITE, work_off
from tests.taskqueue.tasks import fail, note


@pytest.mark.parametrize(
    ("words", "text", "code"),
    [
        (["tasks", "list", "default", "ready", "--using", "nowhere"], "nowhere", 2),
        (["queues", "restore", "default", "nothing"], "Purge 'nothing' of queue 'default' has nothing to restore", 1),
    ],
)
def test_failed_operation_prints_its_reason(redis_server: Store, words: list[str], text: str, code: int) -> None:
    assert text in refused(*words, code=code)


def test_undeclared_queue_is_refused(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"QUEUES": ["default", "mail"]}}

    assert refused("queues", "pause", "mial", code=2) == (
        'Queue \'mial\' is not in REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"].'
        " Declared queues: default, mail. Did you mean 'mail'?"
    )


def test_unavailable_redis_is_reported() -> None:
    with pytest.raises(CommandError, match=r"^Redis is unavailable: .*127\.0\.0\.1:1") as raised:
        redis_command("queues", "status")

    assert raised.value.returncode == 3


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "the following arguments are required: GROUP"),
        (["queues"], "the following arguments are required: COMMAND"),
        (["queues", "dance"], "invalid choice: 'dance' (choose from status, plan, errors, groups, pause, "),
        (["queus"], "Did you mean 'queues'?"),
        (["queues", "stat"], "Did you mean 'status'?"),
        (["tasks", "list", "default", "done"], "invalid choice: 'done'"),
        (
            ["tasks", "list", "default", "ready", "--limit", "0"],
            "argument --limit: 0: expected an integer from 1 to 1000.",
        ),
        (
            ["tasks", "list", "default", "ready", "--limit", "ten"],
            "argument --limit: 'ten': expected an integer from 1 to",
        ),
        (
            ["tasks", "list", "default", "ready", "--offset", "-1"],
            "argument --offset: -1: expected an integer from 0 to",
        ),
        (
            ["queues", "pause", "default", "--until", "0"],
            "argument --until: '0': expected a number of seconds above 0, at most ten",
        ),
        (
            ["queues", "pause", "default", "--until", "nan"],
            "argument --until: 'nan': expected a number of seconds above 0",
        ),
        (["queues", "purge"], "the following arguments are required: NAME"),
        (["queues", "status", "a\nb"], r"argument NAME: queue name 'a\nb': control character '\n' is not accepted."),
        (["queues", "pause", "x" * 201], "has 201 bytes: expected at most 200."),
    ],
)
def test_wrong_usage_is_reported(redis_server: Store, words: list[str], text: str) -> None:
    with pytest.raises(CommandError) as raised:
        redis_command(*words)

    assert text in str(raised.value)


def manage(*words: str, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    """Run the command as a shell does."""
    return subprocess.run(
        [sys.executable, "-m", "django", "redis", *words],
        cwd=ROOT,
        env=child_environment() | SITE,
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_exit_codes_are_0_1_and_2(redis_server: Store) -> None:
    note.enqueue("a")

    done = manage("queues", "status", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["queues"][0]["ready"] == 1

    failed = manage("queues", "purge", "default", "--json")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "CommandError: Nothing was purged. No terminal to ask for confirmation; pass --yes.\n"

    wrong = manage("queues", "purge")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "the following arguments are required: NAME" in wrong.stderr


def test_help_names_units_defaults_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    def help_of(*words: str) -> str:
        with pytest.raises(SystemExit):
            call_command("redis", *words, "--help")
        return " ".join(capsys.readouterr().out.split())

    whole, pause, tasks = (help_of(*words) for words in (["queues"], ["queues", "pause"], ["tasks", "list"]))

    reasons = (
        "1 not or only partly done, with the reason on standard error; 2 invalid arguments or an unknown name;"
        " 3 Redis is unavailable."
    )
    assert all(f"Exit codes: 0 done; {reasons}" in text for text in (whole, pause, tasks))
    for verb in ("status", "errors", "pause", "resume", "purge", "restore", "retry", "delete"):
        assert verb in whole
    assert "resume after this many seconds (default: never)" in pause
    assert "connection alias (default: default)" in pause
    assert "number of tasks, 1 to 1,000 (default: 50)" in tasks


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A user at the terminal types this."""
    master, slave = pty.openpty()
    os.write(master, text.encode())
    monkeypatch.setattr(sys, "stdin", os.fdopen(slave))
    os.set_blocking(master, False)


@pytest.mark.parametrize("text", ["y\n", "YES\n", " yes \n"])
def test_purge_continues_after_yes(redis_server: Store, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    note.enqueue_many([((number,), {}) for number in range(1_234)])
    answer(monkeypatch, text)

    printed = redis_command("queues", "purge", "default")

    assert printed.startswith("Purge 1,234 waiting tasks of queue 'default'? [y/N] Purged 1,234 tasks")
    sys.stdin.close()


@pytest.mark.parametrize("text", ["n\n", "\n", "yesterday\n", "\x04"])
@pytest.mark.parametrize(("verb", "shown"), [("purge", "Nothing was purged."), ("delete", "Nothing was deleted.")])
def test_any_answer_but_yes_cancels(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, text: str, verb: str, shown: str
) -> None:
    fail_many(2)
    note.enqueue("a")
    answer(monkeypatch, text)

    assert refused("queues", verb, "default") == shown

    depth = get_queue("default").info()
    assert (depth.ready, depth.failed) == (1, 2)
    sys.stdin.close()


def test_ctrl_c_at_the_question_cancels(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(io.StringIO):
        def isatty(self) -> bool:
            return True

        def readline(self, *_: Any) -> str:
            raise KeyboardInterrupt

    note.enqueue("a")
    monkeypatch.setattr(sys, "stdin", Interrupted())

    assert refused("queues", "purge", "default") == "Nothing was purged."


def test_question_is_not_part_of_the_json(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_many(1)
    answer(monkeypatch, "y\n")

    assert data("queues", "delete", "default") == {"queue": "default", "deleted": 1}
    sys.stdin.close()


def test_table_is_cut_for_a_terminal_and_complete_in_a_pipe(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    fail.enqueue("x" * 500)
    work_off()
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()

    call_command("redis", "tasks", "list", "default", "failed", stdout=terminal, no_color=True)

    row = terminal.getvalue().splitlines()[1]
    assert (len(row), row[-1]) == (120, "…")
    assert "x" * 500 in redis_command("tasks", "list", "default", "failed")


def test_suggested_commands_are_valid(redis_server: Store) -> None:
    note.using(queue_name="-odd; $name").enqueue("a")

    shown = QueueOperations().purge("-odd; $name").text

    typed = shown.split("within 24 h: ")[1]
    assert typed.startswith("python manage.py redis queues restore -- '-odd; $name' ")
    done = subprocess.run(
        ["sh", "-c", typed.replace("python manage.py", f"{sys.executable} -m django")],
        cwd=ROOT,
        env=child_environment() | SITE,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Restored 1 task to queue '-odd; $name'.\n"), done.stderr


def test_id_with_a_leading_dash_is_not_an_option() -> None:
    assert not [task_id for task_id in (new_id() for _ in range(5_000)) if task_id.startswith("-")]


def test_suggested_commands_keep_the_connection(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "CONNECTIONS": {"far": {"URL": redis_server.url}, "default": {"URL": redis_server.url}},
    }

    [_, line] = lines("queues", "pause", "default", "--using", "far")

    assert line.endswith("To resume it: python manage.py redis queues resume --using far default")


def test_a_task_of_any_name_is_listed(redis_server: Store) -> None:
    stranger: Task[..., Any, Any] = Task(func=note.func, name="\u202eevil\x1b[0m", declared_options=note.options)
    stranger.enqueue(1)

    assert "\\u202eevil\\x1b[0m" in redis_command("tasks", "list", "default", "ready")
