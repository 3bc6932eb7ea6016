"""Sign-ins of logins while Redis is slow or unavailable: kept in the process, and counted on their day later."""

from __future__ import annotations

import dataclasses
import threading
from datetime import date
from typing import Any

from django_redis_components.analytics.signins import SignIns, sign_in_flow
from django_redis_components.core.client import connections
from django_redis_components.core.client.server import may_succeed_later
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.observability.flushing import Collector
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.settings import conf

#: Sign-ins that a process keeps, about 300 bytes each. Further ones are not counted.
MAX_KEPT = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class SignIn:
    """A sign-in of a user on a day. Counting it twice counts it once."""

    using: str
    site: str
    user_id: Any
    day: date

    def flow(self) -> Flow[bool]:
        """Return the flow that counts it. Keys of users that are not integers are mapped."""
        sign_ins = SignIns(self.site, mapped=not isinstance(self.user_id, int), using=self.using)
        return sign_in_flow(sign_ins, self.user_id, self.day)


class MissedSignIns(Collector):
    """The sign-ins of this process that could not be counted yet."""

    name = "missed-sign-ins"
    logger = guarded_logger("django_redis_components.analytics")

    def reset(self) -> None:
        """See the base class."""
        super().reset()
        self._lock = threading.Lock()
        self._missed: dict[SignIn, None] = {}

    def record(self, sign_in: SignIn) -> None:
        """Keep a sign-in."""
        with self._lock:
            if len(self._missed) < MAX_KEPT:
                self._missed[sign_in] = None
        self.notify()

    def kept(self) -> list[SignIn]:
        """Return the sign-ins that are kept, that of the earliest login first."""
        return list(self._missed)

    def timeout_s(self) -> float:
        """See the base class."""
        return conf.settings().analytics.timeout_s

    def _flush(self) -> None:
        for sign_in in self.kept():
            try:
                run(connections.page_client(sign_in.using, self.timeout_s()), sign_in.flow())
            except Exception as exc:
                if may_succeed_later(exc):
                    self.notify()
                    return
                self.logger.exception("A sign-in of %s cannot be counted.", sign_in.day)
            with self._lock:
                self._missed.pop(sign_in, None)


#: Those of this process.
MISSED = MissedSignIns()
