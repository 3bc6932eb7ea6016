"""A TCP proxy that drops replies and connections, as a network does, at exact points."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from typing import Self
from urllib.parse import urlsplit

#: Commands of a client's handshake. Their replies are dropped only if ``after`` names them.
HANDSHAKE = (b"HELLO", b"AUTH", b"CLIENT", b"SELECT")

#: Bytes read at once.
CHUNK = 65_536

#: Seconds between two checks whether a held reply is released.
HOLD_S = 0.005

#: Seconds without a byte, after a complete command, after which a client has sent its whole pipeline.
SILENCE_S = 0.02


class Proxy:
    """A proxy for the server at ``redis://127.0.0.1:port/db``. Its ``url`` has the same form.

    To drop a reply, the proxy lets the server execute the request, discards the reply, and closes the connection of
    the client.
    """

    def __init__(self, upstream_url: str) -> None:
        self.lead_to(upstream_url)
        self._path = urlsplit(upstream_url).path or "/0"
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._after: bytes | None = None
        self._times = 0
        self._probability = 0.0
        self._random = random.Random(0)
        self.delay_s = self.drip_s = 0.0
        self.is_holding = False
        #: Number of dropped replies.
        self.dropped = 0
        #: Number of accepted connections.
        self.accepted = 0
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}{self._path}"

    def lead_to(self, upstream_url: str) -> None:
        """Connect further connections to this server. Open ones stay."""
        parts = urlsplit(upstream_url)
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 6379)

    def drop_next_reply(self, after: bytes | None = None, times: int = 1) -> None:
        """Drop the replies of the next ``times`` requests that contain ``after`` (None: any but the handshake).

        A script is sent by its SHA: to select it, pass a key of the call.
        """
        with self._lock:
            self._after, self._times = after, times

    def drop_random(self, probability: float, seed: int = 0) -> None:
        """Drop each further reply with this probability; 0 drops none."""
        with self._lock:
            self._probability, self._random = probability, random.Random(seed)

    def delay(self, seconds: float) -> None:
        """Delay each chunk of a reply; 0 delays none. A long delay is like a server that hangs."""
        self.delay_s = seconds

    def drip(self, seconds: float) -> None:
        """Forward replies byte by byte, with this pause after each; 0 forwards them at once."""
        self.drip_s = seconds

    def hold(self) -> None:
        """Keep all replies until `let_go`, for as long as the test needs."""
        self.is_holding = True

    def let_go(self) -> None:
        """Forward the replies that were kept, and all later ones."""
        self.is_holding = False

    def cut(self) -> None:
        """Close all connections. New ones are accepted."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def stop_accepting(self) -> None:
        """Refuse new connections, as a stopped server does. Open ones stay: see ``cut``."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()

    def accept_again(self) -> None:
        """Listen on the same port again."""
        self._listener = self._listen(self.port)

    def close(self) -> None:
        self.stop_accepting()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _listen(self, port: int) -> socket.socket:
        from tools.localserver import free_port

        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port or free_port()))
        listener.listen(256)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = socket.create_connection(self._upstream, timeout=5)
            except OSError:  # the server is down: so are we
                client.close()
                continue
            link = _Link(self, client, server)
            with self._lock:
                self._links.add(link)
            link.start()

    def _forget(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _should_drop(self, request: bytes, window: bytes) -> bool:
        """Return whether to drop the reply to ``request``. ``window`` starts with the end of the previous chunk."""
        with self._lock:
            handshake = _is_handshake(request)
            if self._times and (self._after in window if self._after is not None else not handshake):
                self._times -= 1
                drop = True
            else:
                drop = not handshake and self._random.random() < self._probability
            self.dropped += drop
            return drop


class _Link:
    """The connection of one client: a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client, self._server = client, server
        server.settimeout(None)
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._closed = threading.Event()
        self._dropping = threading.Event()
        self._silent = threading.Event()

    def start(self) -> None:
        for pump in (self._requests, self._replies):
            threading.Thread(target=self._guarded, args=(pump,), daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._silent.set()
        for sock in (self._client, self._server):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _guarded(self, pump) -> None:
        try:
            with contextlib.suppress(OSError):
                pump()
        finally:
            self.close()
            self._proxy._forget(self)
            if pump == self._replies:  # the last thread to end: it reads the rest from the server
                self._client.close()
                self._server.close()

    def _requests(self) -> None:
        tail = begun = b""
        while data := self._client.recv(CHUNK):
            begun += data
            if self._proxy._should_drop(data, tail + data):
                self._dropping.set()  # before sending: the reply may come at once
                self._server.sendall(data)
                self._forward_rest(begun)
                return
            begun = begun[_end_of_commands(begun) :]  # a long script comes in several chunks
            tail = (tail + data)[-512:]
            self._server.sendall(data)

    def _forward_rest(self, data: bytes) -> None:
        """Forward the rest of a pipeline, which comes in many chunks. It ends with a complete command and silence.

        Args:
            data: what was forwarded already, from the start of a command.
        """
        with contextlib.suppress(TimeoutError):
            while True:
                data = data[_end_of_commands(data) :]
                self._client.settimeout(None if data else SILENCE_S)
                if not (chunk := self._client.recv(CHUNK)):
                    break
                self._server.sendall(chunk)
                data += chunk
        self._silent.set()
        self._closed.wait()

    def _replies(self) -> None:
        while data := self._server.recv(CHUNK):
            if self._dropping.is_set():
                self._silent.wait()
                self._drain()
                return
            if self._proxy.delay_s:
                self._closed.wait(self._proxy.delay_s)
            while self._proxy.is_holding and not self._closed.wait(HOLD_S):
                pass
            while self._proxy.drip_s and len(data) > 1:
                self._client.sendall(data[:1])
                data = data[1:]
                if self._closed.wait(self._proxy.drip_s):
                    return
            self._client.sendall(data)

    def _drain(self) -> None:
        """Wait until the server has executed all requests: it closes its side at the end of our stream."""
        self._server.shutdown(socket.SHUT_WR)
        self._server.settimeout(5)
        while self._server.recv(CHUNK):
            pass


def _is_handshake(request: bytes) -> bool:
    """Return whether a chunk starts with a command of the handshake: ``*2\\r\\n$5\\r\\nHELLO ...``."""
    parts = request[:64].split(b"\r\n", 3)
    return len(parts) > 2 and parts[2].upper().startswith(HANDSHAKE)


def _end_of_commands(data: bytes) -> int:
    """Return the offset after the last complete command in ``data``."""
    end = 0
    while (following := _end_of_command(data, end)) is not None:
        end = following
    return end


def _end_of_command(data: bytes, at: int) -> int | None:
    """Return the offset after the command at ``at``, an array of bulk strings; None if it is incomplete."""
    line_end = data.find(b"\r\n", at)
    if line_end < 0:
        return None
    count, at = int(data[at + 1 : line_end]), line_end + 2
    for _ in range(count):
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return None
        at = line_end + 2 + int(data[at + 1 : line_end]) + 2
    return at if at <= len(data) else None
