"""``manage.py demo``: it starts, continues, and leaves no process or file behind, however it ends."""

from __future__ import annotations

import io
import os
import signal
import socket
from pathlib import Path

import psutil

from example_project.demo.console import Console
from example_project.demo.run import free_port_from
from tests.support import eventually
from tests.support.demo import READY, START_S, STOP_S, Demo, demo_environment, running_demo
from tests.support.processes import Children
from tools.localserver import free_port


def family(demo: Demo) -> list[psutil.Process]:
    """Return all processes that the demo started, with theirs."""
    return psutil.Process(demo.child.pid).children(recursive=True)


def named(demo: Demo, command: str) -> psutil.Process:
    """Return the child that runs a management command."""
    found = [process for process in psutil.Process(demo.child.pid).children() if command in process.cmdline()]
    assert found, [process.cmdline() for process in family(demo)]
    return found[0]


def assert_gone(processes: list[psutil.Process]) -> None:
    _gone, alive = psutil.wait_procs(processes, timeout=STOP_S)
    assert not alive


def counts(directory: Path, children: Children) -> dict[str, int]:
    return children.call("tests.example.acts:counts", env=demo_environment(directory)).result()


def test_exited_processes_are_restarted_ctrl_c_stops_all_in_order_and_the_next_run_continues(tmp_path, children):
    with running_demo(tmp_path) as demo:
        poller = named(demo, "runpoller")
        poller.kill()
        demo.child.wait_for("!!! poller was killed by signal 9; restarting it in 1 s")
        demo.child.wait_for("poller has restarted, process")
        assert eventually(lambda: named(demo, "runpoller")).pid != poller.pid

        raw = demo.raw()
        raw.set("kept", "yes")
        raw.config_set("appendfsync", "always")
        psutil.Process(raw.info("server")["process_id"]).kill()
        demo.child.wait_for("!!! the server exited; restarting it with its data")
        demo.child.wait_for("the server has restarted, process")
        assert raw.get("kept") == b"yes"
        raw.close()
        assert demo.visitor().get("/").status == 200

        started = family(demo)
        os.killpg(demo.child.pid, signal.SIGINT)  # as a terminal does: the whole group
        assert demo.child.wait(STOP_S) == 0
        assert_gone(started)
        output = demo.child.output
    stops = [output.rindex(f"{name} stopped") for name in ("site", "worker", "poller", "server")]
    assert stops == sorted(stops)
    assert "killed" not in output[output.rindex("has restarted") :]
    assert "Traceback" not in output[output.rindex("has restarted") :]
    assert not (tmp_path / "redis" / "url").exists()
    before = counts(tmp_path, children)

    with running_demo(tmp_path) as again:
        with again.raw() as raw:
            assert raw.get("kept") == b"yes"
        assert "Created 0 members and 0 items." in again.child.output
        assert counts(tmp_path, children) == before
        started = family(again)

        again.child.kill()

        assert_gone(started)


def test_a_second_demo_on_the_same_data_is_rejected(demo):
    second = Demo(demo.directory)
    try:
        assert second.child.wait(START_S) == 1
        assert f"Another demo is running on {demo.directory}. Stop it, or set DEMO_DATA_DIR." in second.child.output
    finally:
        second.child.close()


def test_the_next_free_port_is_used_when_the_port_is_taken():
    with socket.create_server(("127.0.0.1", free_port())) as busy:
        wanted = busy.getsockname()[1]

        assert free_port_from(wanted) > wanted


def test_redis_url_is_used_instead_of_the_embedded_server_and_sigterm_stops_all_processes(redis_server, tmp_path):
    server = redis_server.url
    with running_demo(tmp_path, {"REDIS_URL": server}) as demo:
        assert "using the server of REDIS_URL" in demo.child.output
        assert not (tmp_path / "redis").exists()
        assert demo.visitor().get("/").status == 200
        started = family(demo)

        assert demo.stop(signal.SIGTERM) == 0

        assert_gone(started)
    for key in redis_server.raw.scan_iter(match="market:*", count=1000):
        redis_server.raw.unlink(key)


def test_an_unreachable_server_is_reported(tmp_path):
    demo = Demo(tmp_path, {"REDIS_URL": "redis://127.0.0.1:1/0"})
    try:
        assert demo.child.wait(START_S) == 1
        output = demo.child.output
        assert "Redis is not available" in output
        assert "manage.py populate failed; see above." in output
        assert "Traceback" not in output
    finally:
        demo.child.close()


def test_a_changed_password_is_kept(demo, children):
    env = demo_environment(demo.directory)
    children.call("tests.example.acts:set_password", "admin", "changed", env=env).result()

    children.call("tests.example.acts:populate", env=env).result()

    hint = children.call("tests.example.acts:sign_in_hint", env=env).result()
    assert "user admin, password as you have set it;" in hint
    demo.visitor().sign_in("admin", "changed")
    children.call("tests.example.acts:set_password", "admin", "market", env=env).result()


def test_the_addresses_are_printed(demo):
    printed = demo.child.output

    assert f"market     {demo.base}/" in printed
    assert f"dashboard  {demo.base}/admin/" in printed
    assert f"mails      {demo.base}/mails/" in printed
    assert "sign in    user admin, password market;" in printed
    assert READY in printed


def test_lines_with_any_character_are_printed_on_a_terminal_without_them():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    Console(stream).line("site", "Zoë → \ufffd")

    assert stream.buffer.getvalue() == b"site   | Zo\\xeb -> \\ufffd\n"


def test_an_invalid_port_is_rejected(tmp_path, children):
    ports = ["80", "70000", "x", "-1"]
    env = demo_environment(tmp_path)

    errors = children.call(
        "tests.example.acts:errors", "demo", [[f"--port={port}"] for port in ports], env=env
    ).result()

    assert errors == [
        f"exit code 2, manage.py demo: error: argument --port: '{port}': expected a port from 1024 to 65000"
        for port in ports
    ]
