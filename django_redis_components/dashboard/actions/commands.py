"""The log of what commands (`manage.py redis`) have changed. The admin's log needs a user; a command has none.

=========================================  ====  ============================================================  =======
key                                        type  content                                                       TTL
=========================================  ====  ============================================================  =======
``<prefix>:problems:{<alias>}:commands``   list  JSON: time, system user and host, command, outcome; the 500    90 days
                                                 newest, newest first
=========================================  ====  ============================================================  =======
"""

from __future__ import annotations

import dataclasses
import json
import time
from datetime import datetime

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Command, Flow, Read, run
from django_redis_components.core.text import encodable, one_line
from django_redis_components.core.units import moment_of
from django_redis_components.dashboard.problems import keyspace

#: Entries that are kept, and for how long, in seconds.
MAX_KEPT, KEPT_S = 500, 90 * 86_400
#: Entries that the page shows, and characters of each text.
MAX_SHOWN, MAX_TEXT = 50, 500


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedCommand:
    """A command that has changed something, or has tried to.

    Attributes:
        author: the system user and the host.
        command: without ``python manage.py``.
        outcome: what it printed, or its error.
    """

    at: datetime
    author: str
    command: str
    outcome: str


def log_command(author: str, command: str, outcome: str, using: str) -> None:
    """Add an entry.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    texts = [encodable(one_line(text))[:MAX_TEXT] for text in (author, command, outcome)]
    run(connections.client(using), _add(json.dumps([round(time.time() * 1e6), *texts]), using))


def read_commands(using: str) -> Flow[list[LoggedCommand]]:
    """Read the newest entries, newest first."""
    found = []
    for stored in (yield Read("LRANGE", keyspace.key("commands", using), 0, MAX_SHOWN - 1)):
        try:
            at_us, author, command, outcome = json.loads(stored)
            found.append(LoggedCommand(moment_of(int(at_us)), str(author), str(command), str(outcome)))
        except (TypeError, ValueError, OverflowError, RecursionError):
            continue  # another program has written it
    return found


def count_commands(using: str) -> Flow[int]:
    """Return how many entries are kept."""
    count: int = yield Read("LLEN", keyspace.key("commands", using))
    return count


def _add(entry: str, using: str) -> Flow[None]:
    key = keyspace.key("commands", using)
    yield Batch([Command("LPUSH", key, entry), Command("LTRIM", key, 0, MAX_KEPT - 1), Command("EXPIRE", key, KEPT_S)])
