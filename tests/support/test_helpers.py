"""The helpers that other tests trust."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

import pytest
import redis
from django.db import connection

from tests.support import Proxy, Store, eventually, run_async, run_together
from tests.support.child import print_line
from tests.support.processes import Children
from tests.support.proxy import CHUNK


def test_eventually_returns_what_the_check_returned() -> None:
    answers = iter([0, "", "here"])

    assert eventually(lambda: next(answers)) == "here"


def test_eventually_raises_the_last_failed_assertion() -> None:
    def check() -> None:
        assert 1 == 2, "never"

    with pytest.raises(AssertionError, match="never"):
        eventually(check, timeout_s=0.02)


def test_run_together_has_all_threads_running_at_once() -> None:
    meeting = threading.Barrier(8)

    results = run_together(8, lambda number: (meeting.wait(5), number)[1])

    assert results == list(range(8))


def test_run_together_raises_what_a_thread_raised() -> None:
    def fail(number: int) -> None:
        raise LookupError(f"thread {number}")

    with pytest.raises(LookupError, match="thread 0"):
        run_together(2, fail)


def test_run_async_returns_the_result() -> None:
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return number * 2

    assert run_async(double, 21) == 42


def test_run_async_reports_a_timeout_that_the_coroutine_handled() -> None:
    async def wait_for_ever() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"still running after 0\.01 s"):
        run_async(wait_for_ever, timeout_s=0.01)


def report_and_wait(name: str) -> None:
    from django.conf import settings

    print_line("url", settings.REDIS_COMPONENTS["CONNECTIONS"]["default"]["URL"])
    print_line("hello", name)
    signal.pause()


def give_back(*args: object) -> list[object]:
    return list(args)


#: A process that is forked, and one that is started.
WAYS = pytest.mark.parametrize("anew", [False, True], ids=["forked", "new"])


@WAYS
def test_a_child_runs_on_the_settings_of_the_test(anew: bool, redis_server: Store, children: Children) -> None:
    child = children.call(f"{__name__}:report_and_wait", "张三", anew=anew)

    assert child.readline() == f"url {redis_server.url}"
    assert child.readline() == "hello 张三"


@WAYS
def test_a_child_returns_its_result(anew: bool, children: Children) -> None:
    child = children.call(f"{__name__}:give_back", 1, "two", [3], anew=anew)

    assert child.result() == [1, "two", [3]]


@WAYS
def test_a_killed_child_is_gone(anew: bool, redis_server: Store, children: Children) -> None:
    child = children.call(f"{__name__}:report_and_wait", "x", anew=anew)

    child.kill()

    assert child.returncode == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def describe_process(code: int) -> None:
    """Print the state of a process, and exit."""
    print_line("argv", *sys.argv[1:2])
    print_line("main", sys.modules["__main__"].__spec__.name)
    print_line("session", os.getsid(0) == os.getpid())
    print_line("word", os.environ.get("WORD"), os.environ.get("TZ"))
    print_line("threads", threading.active_count())
    print_line("open files", len(list(Path("/proc/self/fd").iterdir())))
    print_line("signals", signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.pthread_sigmask(0, ()))
    print_line("stdout", sys.stdout.write_through, sys.stdout.isatty(), sys.stdin.read() == "")
    print_line("database", connection.settings_dict["NAME"])
    print_line("loaded", "tests.taskqueue.tasks" in sys.modules)
    atexit.register(print_line, "exits")
    sys.exit(code)


def test_a_forked_child_is_like_a_new_one(redis_server: Store, children: Children) -> None:
    """But for its parent: the fork server."""
    target, env = f"{__name__}:describe_process", {"WORD": "张三"}
    found = [children.call(target, 7, env=env, anew=anew) for anew in (False, True)]

    assert [child.wait() for child in found] == [7, 7]
    forked, new = (child.output for child in found)
    assert forked == new
    assert f"argv {target}\nmain tests.support.child\nsession True\nword 张三 Europe/Berlin\n" in new
    assert f"\ndatabase {connection.settings_dict['NAME']}\n" in new
    assert new.endswith("loaded False\nexits")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
@WAYS
def test_a_child_ends_by_a_signal(number: int, code: int, anew: bool, redis_server: Store, children: Children) -> None:
    child = children.call(f"{__name__}:report_and_wait", "x", anew=anew)
    child.wait_for("hello")

    child.signal(number)

    assert child.wait() == code


def test_a_child_with_variables_for_python_is_new(redis_server: Store, children: Children) -> None:
    forked = children.call(f"{__name__}:give_parent")
    new = children.call(f"{__name__}:give_parent", env={"PYTHONHASHSEED": "1"})

    assert new.result() == os.getpid()
    assert forked.result() != os.getpid()


def give_parent() -> int:
    return os.getppid()


def test_missing_line_of_a_child_raises_with_its_output(redis_server: Store, children: Children) -> None:
    child = children.call(f"{__name__}:report_and_wait", "x")

    with pytest.raises(AssertionError, match=r"(?s)no line with 'goodbye' within 0.2 s.*hello x"):
        child.wait_for("goodbye", 0.2)


def test_the_proxy_drops_the_reply_after_the_server_did_the_work(proxy: Proxy, redis_server: Store) -> None:
    key = f"{redis_server.prefix}:n"
    client = redis.Redis.from_url(proxy.url, retry=None)
    client.incr(key)
    proxy.drop_next_reply(after=key.encode())

    with pytest.raises(redis.ConnectionError):
        client.incr(key)

    assert redis_server.raw.get(key) == b"2"
    assert client.incr(key) == 3
    assert proxy.dropped == 1
    client.close()


def test_the_proxy_drops_any_reply_but_not_the_handshake(proxy: Proxy, redis_server: Store) -> None:
    key = f"{redis_server.prefix}:n"
    proxy.drop_next_reply(times=2)

    for _ in range(2):
        with redis.Redis.from_url(proxy.url, retry=None) as client, contextlib.suppress(redis.ConnectionError):
            client.incr(key)
            pytest.fail("the reply came through")

    assert redis_server.raw.get(key) == b"2"


def test_the_proxy_finishes_a_pipeline_whose_reply_it_drops(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine this client pauses for longer than others between two parts of its many commands.
    monkeypatch.setattr("tests.support.proxy.SILENCE_S", 1.0)
    client = redis.Redis.from_url(proxy.url, retry=None)
    pipe = client.pipeline(transaction=False)
    for number in range(5000):
        pipe.set(f"{redis_server.prefix}:{number}", "x" * 100)
    proxy.drop_next_reply()

    with pytest.raises(redis.ConnectionError):
        pipe.execute()

    eventually(lambda: len(redis_server.keys()) == 5000)
    client.close()


def test_the_proxy_drops_the_reply_to_a_command_that_comes_in_several_chunks(proxy: Proxy, redis_server: Store) -> None:
    key = f"{redis_server.prefix}:long"
    client = redis.Redis.from_url(proxy.url, retry=None)
    proxy.drop_next_reply(after=b"the end")

    with pytest.raises(redis.ConnectionError):
        client.set(key, "x" * 3 * CHUNK + "the end")

    eventually(lambda: redis_server.raw.strlen(key) == 3 * CHUNK + len("the end"))
    client.close()


def test_the_proxy_loses_a_share_of_replies_at_random(proxy: Proxy, redis_server: Store) -> None:
    client = redis.Redis.from_url(proxy.url, retry=None)
    proxy.drop_random(0.3, seed=1)
    lost = 0

    for _ in range(100):
        try:
            client.incr(f"{redis_server.prefix}:n")
        except redis.ConnectionError:
            lost += 1

    assert 10 < lost < 60
    assert lost == proxy.dropped
    assert redis_server.raw.get(f"{redis_server.prefix}:n") == b"100"
    client.close()


def test_the_proxy_cuts_refuses_and_accepts_again(proxy: Proxy) -> None:
    client = redis.Redis.from_url(proxy.url, retry=None)
    client.ping()

    proxy.stop_accepting()
    assert client.ping()
    proxy.cut()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    with pytest.raises(redis.ConnectionError):
        client.ping()
    proxy.accept_again()

    assert client.ping()
    client.close()


def test_the_proxy_holds_replies_back(proxy: Proxy) -> None:
    client = redis.Redis.from_url(proxy.url, retry=None, socket_timeout=0.1)
    client.ping()

    proxy.delay(60)

    with pytest.raises(redis.TimeoutError):
        client.ping()
    client.close()


def start_server_and_wait(directory: str) -> None:
    from tools.localserver import LocalServer

    server = LocalServer(directory=Path(directory), die_with_parent=True).start()
    print_line("server", server.pid)
    signal.pause()


def test_a_server_is_stopped_when_its_owner_is_killed(children: Children, tmp_path: object) -> None:
    child = children.call(f"{__name__}:start_server_and_wait", str(tmp_path))
    pid = int(child.wait_for("server").split()[1])
    os.kill(pid, 0)

    child.kill()

    eventually(lambda: not _runs(pid))


def _runs(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
