"""A connection for the requests of all coroutines of an event loop: the replies come in order.

A request is written together with the others of the same turn of the loop; its caller awaits a future. A caller that
was cancelled, or has waited long enough, leaves its reply to be dropped. A connection that is lost fails all requests
on it; `retry` decides which of them are sent again.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from hiredis import PushNotification
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis._parsers.socket import SERVER_CLOSED_CONNECTION_ERROR
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from django_redis_components.core.client.budget import current_budget
from django_redis_components.core.client.event_loops import PART_S, has_arrived
from django_redis_components.core.client.exceptions import MALFORMED, NotConnected
from django_redis_components.core.client.transport import MIN_PART_S, AsyncConnection
from django_redis_components.core.protocol import CommandArgs

#: Bytes of a request, or of replies, that would hold up others.
LARGE = 65_536
#: Seconds after which an idle connection is checked before use: the server may have closed it.
STALE_AFTER_S = 0.05


class _Exchange:
    """Commands that are sent at once, and the future of their replies.

    Its result is the reply to a single command, or the list of replies, or an error of the connection. An exception of
    a future would be logged if its caller were cancelled in the same turn of the loop.
    """

    __slots__ = ("args", "budget", "count", "data", "future", "limit_s", "replies", "sent_at", "spent_s", "timeout_s")

    def __init__(self, data: bytes, args: CommandArgs, count: int, future: Any, timeout_s: float | None) -> None:
        self.data = data
        self.args = args
        self.count = count
        self.future = future
        self.timeout_s = timeout_s
        self.budget = current_budget()
        self.sent_at = time.monotonic()
        self.spent_s = 0.0
        self.limit_s: float | None = None
        if count:
            self.replies: list[Any] = []


class MultiplexedConnection(asyncio.BufferedProtocol):
    """A connection for the requests of all coroutines of an event loop.

    Attributes:
        is_usable: whether a further request would be answered soon, as far as is known.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        on_end: Callable[[MultiplexedConnection], None],
        on_large: Callable[[CommandArgs], None],
    ) -> None:
        """
        Args:
            connection: an open connection without an outstanding request.
            on_end: is called when it takes no further request.
            on_large: is called with the first of several commands whose replies are large.
        """
        self._connection = connection
        self._on_end = on_end
        self._on_large = on_large
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # of no request
        self._unsent: deque[_Exchange] = deque()
        self._sent: deque[_Exchange] = deque()
        self._buffer = bytearray(LARGE)
        self._view = memoryview(self._buffer)
        #: Bytes of the replies to the first exchange so far.
        self._arrived_bytes = 0
        self._is_scheduled = self._is_paused = self._is_retired = False
        self._timer: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._fresh_until = time.monotonic() + STALE_AFTER_S
        self.is_usable = True
        self._transport, self._reader, is_idle = connection.take_over(self)
        if not is_idle:
            self._fail(ConnectionError(SERVER_CLOSED_CONNECTION_ERROR))

    @property
    def outstanding(self) -> int:
        """How many requests are not answered yet."""
        return len(self._sent) + len(self._unsent)

    @property
    def is_held_up(self) -> bool:
        """Whether a further request would wait for others."""
        return not self.is_usable

    @property
    def socket_timeout_s(self) -> float:
        """The longest wait for a reply, in seconds."""
        return self._connection.socket_timeout_s

    def is_stale(self) -> bool:
        """Return whether the server has closed the idle connection, which the loop may not have noticed yet."""
        if self._sent or time.monotonic() < self._fresh_until:
            return False
        return has_arrived(self._transport)

    def send(self, data: bytes, args: CommandArgs, count: int, timeout_s: float | None) -> asyncio.Future[Any]:
        """Send encoded commands with those of the other coroutines. See `_Exchange` for the result.

        Args:
            args: the first command.
            count: how many there are; 0: the one, whose reply is not in a list.
            timeout_s: seconds to wait for the replies, if the settings allow more.
        """
        future = self._loop.create_future()
        exchange = _Exchange(data, args, count, future, timeout_s)
        if not self._sent and not self._unsent and not self._is_paused:  # there is nothing to join it with
            self._sent.append(exchange)
            self._transport.write(data)
        else:
            self._unsent.append(exchange)
            if not self._is_scheduled and not self._is_paused:
                self._is_scheduled = True
                self._loop.call_soon(self._flush, context=self._context)
        if self._timer is None:
            self._timer = self._loop.call_later(PART_S, self._look, context=self._context)
        return future

    def retire(self) -> None:
        """Take no further request, and close the connection when no caller waits for a reply."""
        self._is_retired, self.is_usable = True, False
        self._on_end(self)
        if self._loop.is_closed() or all(each.future.done() for each in self._all()):
            self._connection.close()

    # Called by the transport

    def get_buffer(self, _: int) -> memoryview:
        """Return where the transport writes what it receives. TLS writes to slices of it, which must be no copies."""
        return self._view

    def buffer_updated(self, size: int) -> None:
        """Pass the replies that have arrived to their callers, and drop those whose callers have left."""
        reader, sent = self._reader, self._sent
        try:
            reader.feed(self._buffer, 0, size)
            self._arrived_bytes += size
            while (reply := reader.gets()) is not NOT_ENOUGH_DATA:
                if reply.__class__ is PushNotification:
                    continue
                exchange = sent[0]
                if exchange.count:
                    exchange.replies.append(reply)
                    if len(exchange.replies) < exchange.count:
                        continue
                    reply = exchange.replies
                if not exchange.future.done():
                    exchange.future.set_result(reply)
                sent.popleft()  # not before: a signal handler may raise in between, and all that is in it fails
                self._arrived_bytes = 0
        except (RedisError, *MALFORMED) as exc:  # it is no reply, or belongs to no request
            self._fail(ConnectionError("A reply belongs to no request.") if isinstance(exc, IndexError) else exc)
            return
        self._fresh_until = time.monotonic() + STALE_AFTER_S
        if self._arrived_bytes > LARGE and sent:
            self._on_large(sent[0].args)
            self.is_usable = False
        elif not self.is_usable:
            self.is_usable = not (self._is_paused or self._is_retired)
        if self._is_retired:
            self.retire()

    def pause_writing(self) -> None:
        """Keep further requests: the server does not read."""
        self._is_paused, self.is_usable = True, False

    def resume_writing(self) -> None:
        """Send the requests that were kept."""
        self._is_paused, self.is_usable = False, not self._is_retired
        self._write()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests."""
        error = self._error or exc or ConnectionError(SERVER_CLOSED_CONNECTION_ERROR)
        self._is_retired, self.is_usable = True, False
        self._on_end(self)
        self._connection.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._loop.is_closed():
            return
        for exchange in self._sent:
            _finish(exchange, self._connection.redis_error(error))
        for exchange in self._unsent:
            _finish(exchange, NotConnected(str(self._connection.redis_error(error))))
        self._sent.clear()
        self._unsent.clear()

    def _flush(self) -> None:
        """Write the requests of this turn of the loop. It may have taken long, which is not the server's time."""
        self._is_scheduled, now = False, time.monotonic()
        for exchange in self._unsent:
            exchange.sent_at = now
        self._write()

    def _write(self) -> None:
        """Write requests, without those that were cancelled meanwhile, until the buffers are full."""
        unsent, sent = self._unsent, self._sent
        while unsent and not self._is_paused and not self._transport.is_closing():
            parts, size = [], 0
            while unsent and size < LARGE:
                exchange = unsent.popleft()
                if not exchange.future.done():
                    parts.append(exchange.data)
                    size += len(exchange.data)
                    sent.append(exchange)
            self._transport.write(b"".join(parts))

    def _all(self) -> itertools.chain[_Exchange]:
        return itertools.chain(self._sent, self._unsent)

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.is_usable = False
        self._on_end(self)
        self._connection.close()

    def _look(self) -> None:
        """Look for replies that are late. The socket is asked as well: a busy loop has not read what has arrived."""
        self._timer = None
        oldest = next(self._all(), None)
        if oldest is None or self._transport.is_closing():
            return
        now = time.monotonic()
        next_s = PART_S - (now - oldest.sent_at)
        if next_s <= 0:
            next_s = PART_S if has_arrived(self._transport) else self._look_at_late(now)
        if self._is_retired:
            self.retire()
        if self.outstanding:
            self._timer = self._loop.call_later(max(MIN_PART_S, next_s), self._look, context=self._context)

    def _look_at_late(self, now: float) -> float:
        """Report replies that are late, and end the waits that were too long. Return when to look again, in seconds."""
        self.is_usable = False
        next_s, timeout_s = PART_S, self._connection.socket_timeout_s
        for exchange in self._all():
            waited_s = now - exchange.sent_at
            if waited_s < PART_S:
                return min(next_s, PART_S - waited_s)
            self._is_retired = self._is_retired or waited_s >= timeout_s
            if exchange.future.done():
                continue
            if exchange.limit_s is None:
                exchange.limit_s = self._limit_s(exchange)
            self._connection.report_late(waited_s)
            if exchange.budget is not None:
                exchange.budget.spend(waited_s - exchange.spent_s)
            exchange.spent_s = waited_s
            left_s = exchange.limit_s - waited_s
            if left_s < MIN_PART_S:
                _finish(exchange, self._connection.redis_error(TimeoutError()))
            else:
                next_s = min(next_s, left_s)
        return next_s

    def _limit_s(self, exchange: _Exchange) -> float:
        limit_s = self._connection.socket_timeout_s
        if exchange.timeout_s is not None:
            limit_s = min(limit_s, exchange.timeout_s)
        return limit_s if exchange.budget is None else min(limit_s, exchange.budget.left_s)


def _finish(exchange: _Exchange, error: RedisError) -> None:
    if not exchange.future.done():
        exchange.future.set_result(error)
