"""The relay: sends the rows that were not sent after their commit, and deletes those that were.

It is a thread of each worker process and poller of a connection; the one that has the lease, a lock, is active. It
passes through the rows of each database in order of their primary keys, `BATCH` at a time, locked with ``SKIP LOCKED``
where the database has it. Nothing depends on the lease but the work: two active relays send each task once.

A token is removed from Redis only when no database has its row any more, and `KEEP_S` after its task was accepted.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from django.db import Error as DatabaseError
from django.db import connections as databases
from django.db import transaction
from redis.exceptions import OutOfMemoryError, RedisError, ResponseError

from django_redis_components.contrib.outbox import storage
from django_redis_components.contrib.outbox.accepted_tasks import AcceptedTasks
from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Call, Command, Read
from django_redis_components.core.repeated_errors import RepeatedErrorLog
from django_redis_components.locks import Lock, LockNotOwned
from django_redis_components.taskqueue import failpoints
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.middleware import Middleware, WorkerDescription
from django_redis_components.taskqueue.outage_log import OutageLog, describe_error, is_error_reply
from django_redis_components.taskqueue.outbox import FORMAT, KEEP_S, OutboxRow, calls_of, sender_of
from django_redis_components.taskqueue.shards import Shard, shards_of
from django_redis_components.taskqueue.store.messages import CHUNK_BYTES
from django_redis_components.taskqueue.store.scripts import ENQUEUE_ONCE

#: Rows that are locked, sent and deleted together, and tokens that are removed together.
BATCH = 500
#: Lease of the active relay, in seconds. If its process dies, another one is active after this time.
LEASE_S = 6.0
#: Seconds after which the active relay renews its lease, also within a pass.
RENEW_S = 1.5
#: Seconds between two passes after one that found rows, and otherwise.
BUSY_S, IDLE_S = 1.0, 2.0
#: Seconds between two tries to become active: while another one is, and after the lease was lost.
STANDBY_S, LOST_S = 3.0, 0.2
#: Seconds between two tries while Redis or all databases are away.
RETRY_S = 1.0
#: Seconds between two removals of tokens, and between two checks whether a database has the table now.
PRUNE_S, TABLE_S = 60.0, 60.0
#: Seconds that a process which stops waits for the pass that runs.
STOP_S = 5.0
#: Characters of an error that are logged.
MAX_ERROR = 500

logger = guarded_logger("django_redis_components.contrib.outbox")

T = TypeVar("T")


class Relay:
    """The relay of a connection in this process.

    Attributes:
        is_active: whether it had the lease when it last reached Redis.
    """

    def __init__(self, using: str) -> None:
        self._using = using
        self._shards = shards_of(using)
        #: Number of this relay in Redis while it is active.
        self._sender = 0
        self._accepted = AcceptedTasks()
        #: Names of the shards that have not answered in this pass.
        self._away: set[str] = set()
        self._lease = Lock(f"outbox:{using}", timeout=LEASE_S, blocking=False, using=using)
        self.is_active = False
        self._renewed_at = 0.0
        self._prune_at = time.monotonic() + PRUNE_S
        #: Whether a database has the table, and when one without it is asked again.
        self._tables: dict[str, bool] = {}
        self._look_at: dict[str, float] = {}
        self._redis = OutageLog(logger.warning, logger.info, "Outbox relay: ")
        self._rejected = OutageLog(logger.error, lambda _: None)
        self._outages: dict[str, OutageLog] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox-relay", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; it releases the lease, so that another relay is active at once."""
        self._stopped.set()
        self._thread.join(STOP_S)

    def step(self) -> float:
        """Make a pass if this relay is the active one; return the seconds until the next step."""
        try:
            if not self._take_lease():
                return STANDBY_S
            found = self._pass()
        except LockNotOwned:  # Redis was away for longer than the lease, or this process was stopped
            self.is_active = False
            return LOST_S
        except (RedisError, RedisComponentsError) as exc:
            self._redis.failed(f"Outbox relay: {describe_error(exc)}; retrying.")
            return RETRY_S
        if not self._away:
            self._redis.succeeded()
        return BUSY_S if found else IDLE_S

    def _run(self) -> None:
        errors = RepeatedErrorLog(logger, "The relay of the outbox")
        pause_s = random.uniform(0.0, 0.5)
        while not self._stopped.wait(pause_s):
            try:
                pause_s = self.step()
                errors.succeeded()
            except BaseException as exc:  # noqa: BLE001 - without the thread nothing is relayed any more
                errors.failed(exc)
                pause_s = RETRY_S
            finally:
                _close_databases()
            pause_s *= random.uniform(0.8, 1.0)
        self.release()

    def _take_lease(self) -> bool:
        """Become the active relay, or renew the lease; return False if another one is active.

        Raises:
            LockNotOwned: the lease was lost.
        """
        if self.is_active:
            self._keep_lease()
            return True
        started = time.monotonic()
        self.is_active = self._lease.acquire()
        self._renewed_at = started
        if self.is_active:
            self._sender = sender_of(self._lease.fencing_token or 0)
        return self.is_active

    def _keep_lease(self) -> None:
        """Renew the lease if it is not new any more.

        Raises:
            LockNotOwned: it was lost.
        """
        started = time.monotonic()
        if started - self._renewed_at >= RENEW_S:
            self._lease.reacquire()
            self._renewed_at = started

    def release(self) -> None:
        """Release the lease, if this relay has it."""
        if self.is_active:
            with contextlib.suppress(RedisError, RedisComponentsError):
                self._lease.release()
            self.is_active = False

    def _pass(self) -> bool:
        """Pass through the rows of all databases; return whether there were any."""
        self._away.clear()
        counts = {alias: self._attempt(alias, partial(self._relay_rows, alias)) for alias in storage.databases()}
        is_complete = all(count is not None and count < BATCH for count in counts.values())
        if is_complete and time.monotonic() >= self._prune_at:
            aliases = [alias for alias in counts if self._tables[alias]]
            for shard in self._shards:
                self._reach(shard, partial(self._remove_tokens, shard, aliases))
            self._prune_at = time.monotonic() + PRUNE_S
        if is_complete and not self._away:
            self._accepted.forget_unconfirmed()
        return any(counts.values())

    def _relay_rows(self, alias: str) -> int:
        """Send and delete the rows of a database; return their number."""
        count = after = 0
        has_more = self._has_table(alias)
        while has_more and not self._stopped.is_set():
            self._keep_lease()
            try:
                seen, after = self._relay_batch(alias, after)
            finally:  # the tasks run, whatever becomes of the rows
                self._accepted.notify()
            count += seen
            has_more = seen == BATCH
        return count

    def _has_table(self, alias: str) -> bool:
        """Return whether a database has the table. One that has none is asked again later."""
        if not self._tables.get(alias) and time.monotonic() >= self._look_at.get(alias, 0.0):
            self._tables[alias] = storage.has_table(alias)
            self._look_at[alias] = time.monotonic() + TABLE_S
        return self._tables[alias]

    def _attempt(self, alias: str, operation: Callable[[], T]) -> T | None:
        """Use a database; return None and log its error if it fails, so that the others are served."""
        outage = self._outages.setdefault(alias, OutageLog(logger.warning, lambda _: None))
        try:
            value = operation()
        except DatabaseError as exc:
            outage.failed(f"Outbox relay: database {alias!r}: {str(exc).strip()[:MAX_ERROR]}; retrying.")
            with contextlib.suppress(Exception):
                databases[alias].close()
            return None
        outage.succeeded()
        return value

    def _relay_batch(self, alias: str, after: int) -> tuple[int, int]:
        """Send and delete the next rows of a database; return their number, and the primary key of the last one."""
        features = databases[alias].features
        locks = features.has_select_for_update_skip_locked and features.supports_select_for_update_with_limit
        entries = OutboxEntry._base_manager.using(alias)
        with transaction.atomic(alias) if locks else contextlib.nullcontext():
            rows = entries.filter(using=self._using, format__lte=FORMAT, pk__gt=after).order_by("pk")
            if locks:
                rows = rows.select_for_update(skip_locked=True)
            found = list(rows.values_list("pk", "token", "size")[:BATCH])
            if not found:
                return 0, after
            failpoints.reach("before_relay")
            sent = self._send_missing(alias, found)
            failpoints.reach("after_relay")
            entries.filter(pk__in=sent).delete()
            failpoints.reach("before_delete_commits")
        failpoints.reach("after_delete")
        return len(found), found[-1][0]

    def _send_missing(self, alias: str, found: Sequence[tuple[int, str, int]]) -> list[int]:
        """Send the rows whose tokens Redis does not have; return the primary keys of those that are sent now."""
        tokens = [token for _, token, _ in found]
        known = {token: score for shard in self._shards for token, score in self._known(shard, tokens)}
        self._accepted.confirm(known)
        sent = [pk for pk, token, _ in found if token in known]
        missing = [each for each in found if each[1] not in known]
        for some in _parts(missing):
            keys = {token: pk for pk, token, _ in some}
            entries = OutboxEntry._base_manager.using(alias).filter(pk__in=keys.values()).order_by("pk")
            rows = [OutboxRow(token, bytes(message)) for token, message in entries.values_list("token", "message")]
            self._keep_lease()
            sent += [keys[token] for token in self._send(rows)]
        if missing:
            logger.debug("Outbox relay: %d rows of database %r were sent.", len(missing), alias)
        return sent

    def _known(self, shard: Shard, tokens: Sequence[str]) -> list[tuple[str, float]]:
        """Return the tokens that a shard has, and their scores."""
        read = Read("ZMSCORE", shard.key(Key.outbox), *tokens)
        scores = self._reach(shard, lambda: shard.client().execute(read)) or [None] * len(tokens)
        return [(token, float(score)) for token, score in zip(tokens, scores, strict=True) if score is not None]

    def _reach(self, shard: Shard, operation: Callable[[], T]) -> T | None:
        """Use a shard; return None if it is away. Of several shards one that fails is left out until the next pass."""
        if shard.name in self._away:
            return None
        try:
            return operation()
        except (RedisError, RedisComponentsError) as exc:
            if len(self._shards) == 1 or isinstance(exc, LockNotOwned) or _is_about_rows(exc):
                raise
            self._away.add(shard.name)
            self._redis.failed(f"Outbox relay: shard {shard.name}: {describe_error(exc)}; retrying.")
            return None

    def _send(self, rows: Sequence[OutboxRow]) -> list[str]:
        """Send rows in order; return the tokens of those that were accepted. The others are logged, and stay."""
        try:
            accepted = []
            for shard, some, calls in calls_of(self._using, rows, self._sender):
                if self._reach(shard, partial(self._accepts, shard, some, calls)):
                    accepted += [row.token for row in some]
            return accepted
        except Exception as exc:
            if not _is_about_rows(exc):
                raise
            if len(rows) == 1:
                self._rejected.failed(f"Outbox relay: row {rows[0].token!r} cannot be sent: {str(exc)[:MAX_ERROR]}")
                return []
        return [token for row in rows for token in self._send([row])]

    def _accepts(self, shard: Shard, rows: Sequence[OutboxRow], calls: Sequence[Call]) -> bool:
        """Send what belongs together; return whether it was accepted. A flow whose first parts expired was not."""
        client, replies = shard.client(), []
        try:
            for call in calls:
                replies.append(client.execute(call))
                if not replies[-1]:
                    return False
        except (RedisError, RedisComponentsError) as exc:
            if not is_error_reply(exc):
                self._accepted.add_unconfirmed(shard, rows, self._sender)
            raise
        self._accepted.add(shard, rows, replies[-1] if calls[0].script is ENQUEUE_ONCE else replies[-1:])
        return True

    def _remove_tokens(self, shard: Shard, aliases: Sequence[str]) -> None:
        """Remove the tokens of rows that no database has, unless their tasks were accepted in the last `KEEP_S`."""
        client, key = shard.client(), shard.key(Key.outbox)
        seconds, _ = client.execute(Read("TIME", key=key))
        until_us, kept = (int(seconds) - int(KEEP_S)) * 1_000_000, 0
        while not self._stopped.is_set():
            self._keep_lease()
            range_ = ("-inf", until_us, "BYSCORE", "LIMIT", kept, BATCH)
            tokens = [token.decode() for token in client.execute(Read("ZRANGE", key, *range_))]
            found = [self._attempt(alias, partial(storage.find_tokens, alias, tokens)) for alias in aliases]
            present = {token for some in found for token in some or ()}
            if None in found:  # a database failed: it may have rows of the others
                return
            if gone := [token for token in tokens if token not in present]:
                client.execute(Command("ZREM", key, *gone, retry=True))
            kept += len(present)
            if len(tokens) < BATCH:
                return


@contextlib.contextmanager
def relaying(using: str) -> Iterator[None]:
    """Be a relay of a connection while the block runs."""
    relay = Relay(using)
    relay.start()
    try:
        yield
    finally:
        relay.stop()


class RelayMiddleware(Middleware):
    """Makes each worker process a relay of its connection. `manage.py runworker` installs it."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()

    def on_process_start(self, process: WorkerDescription) -> None:
        """Start the thread."""
        self._running.enter_context(relaying(process.using))

    def on_process_stop(self, process: WorkerDescription) -> None:
        """Stop the thread."""
        self._running.close()


def _parts(found: Sequence[tuple[int, str, int]]) -> Iterator[list[tuple[int, str, int]]]:
    """Split rows into parts of about `CHUNK_BYTES`."""
    part: list[tuple[int, str, int]] = []
    size = 0
    for each in found:
        part.append(each)
        size += each[2]
        if size >= CHUNK_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _is_about_rows(exc: Exception) -> bool:
    """Return whether one of the rows is the cause: it is damaged, or Redis rejects what it asks for."""
    if isinstance(exc, ResponseError):
        return is_error_reply(exc) and not isinstance(exc, OutOfMemoryError)
    return isinstance(exc, ValueError | TypeError | LookupError | AttributeError)


def _close_databases() -> None:
    """Close the database connections of this thread as Django does after a request."""
    for connection in databases.all(initialized_only=True):
        try:
            connection.close_if_unusable_or_obsolete()
        except Exception:  # the thread must not end
            logger.exception("A database connection of the relay was not closed.")
