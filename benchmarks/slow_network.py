"""A proxy that adds round-trip time: ``python -m benchmarks.slow_network HOST PORT ONE_WAY_MS``.

Each direction holds every chunk back for that long, however many are under way, as distance does (a
bandwidth limit it has not). Prints its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections import deque


class Pump(asyncio.Protocol):
    """One end of a link; what it receives is written to the other end after the delay."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self.other: Pump | None = None
        self.transport: asyncio.Transport | None = None
        self.waiting: deque[bytes] = deque()
        self.before: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self.waiting.append(data)
        asyncio.get_running_loop().call_later(self.delay_s, self._pass_on)

    def _pass_on(self) -> None:
        data = self.waiting.popleft()
        if self.other is None or self.other.transport is None:
            self.before.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


async def serve(host: str, port: int, delay_s: float) -> None:
    loop = asyncio.get_running_loop()

    def accept() -> Pump:
        client, server = Pump(delay_s), Pump(delay_s)
        server.other = client

        async def connect() -> None:
            await loop.create_connection(lambda: server, host, port)
            client.other = server
            for data in client.before:
                assert server.transport is not None
                server.transport.write(data)

        client.connecting = asyncio.ensure_future(connect())  # type: ignore[attr-defined]
        return client

    listener = await loop.create_server(accept, "127.0.0.1", 0)
    print(listener.sockets[0].getsockname()[1], flush=True)
    await listener.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1_000))
