"""Delivery of announcements: each channel in its own thread, so that none can delay or end the watching thread.

A mail backend or a web server may hang, respond one byte at a time, or raise anything. A delivery that takes longer
than `NOTIFICATIONS["TIMEOUT"]` is repeated later, unless it has succeeded meanwhile. Until it ends, its channel gets no
other.
"""

from __future__ import annotations

import dataclasses
import threading
import time

from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.problems import notifications
from django_redis_components.dashboard.problems.databases import close_databases
from django_redis_components.dashboard.problems.incidents import Announcement

#: Seconds after which a delivery is given up.
GIVEN_UP_S = 3_600.0
#: Most seconds that a delivery may take, whatever the settings say: another process repeats it after `CLAIMED_S`.
MAX_TIMEOUT_S = 60.0

logger = guarded_logger("django_redis_components.dashboard")


class _Delivery(threading.Thread):
    """A delivery by a channel.

    Attributes:
        error: why it failed; None once it has succeeded.
    """

    def __init__(self, announcement: Announcement, channel: str) -> None:
        super().__init__(name=f"notify {channel}", daemon=True)
        self.announcement = announcement
        self.channel = channel
        self.error: BaseException | None = TimeoutError("The delivery was not finished in time.")

    def run(self) -> None:
        try:
            notifications.deliver(self.announcement, self.channel)
            self.error = None
        except BaseException as exc:  # noqa: BLE001 - the site's mail backend, or anything that a web server responds
            self.error = exc
        finally:
            close_databases()


#: Deliveries that did not end in time, the latest of each channel.
_late: dict[str, _Delivery] = {}


def deliver(announcement: Announcement, now: float | None = None) -> tuple[Announcement, dict[str, str]]:
    """Deliver an announcement.

    Args:
        now: by the clock of `made_at`; None: that of this host.

    Returns:
        It with the channels that must deliver it later, and the error of each channel, "" once it has delivered.
    """
    ends_at = time.monotonic() + min(conf.settings().notifications.timeout_s, MAX_TIMEOUT_S)
    deliveries = [_started(announcement, channel) for channel in announcement.channels]
    errors = {each.channel: _error_of(each, announcement, ends_at) for each in deliveries}
    failed = {channel: error for channel, error in errors.items() if error is not None}
    is_given_up = (time.time() if now is None else now) - announcement.made_at > GIVEN_UP_S
    for channel, error in failed.items():
        text = "A notification by %s failed (%s): %s" if is_given_up else "A notification by %s is repeated (%s): %s"
        logger.log_exception(error, text, channel, type(error).__name__, announcement.incident.id)
    left = dataclasses.replace(announcement, channels=() if is_given_up else tuple(failed))
    return left, {channel: notifications.error_text(error) if error else "" for channel, error in errors.items()}


def _started(announcement: Announcement, channel: str) -> _Delivery:
    """Start a delivery; return the one before if it still runs, or has delivered this announcement late."""
    late = _late.get(channel)
    if late is not None and (late.is_alive() or (late.error is None and late.announcement.key == announcement.key)):
        return late
    delivery = _Delivery(announcement, channel)
    try:
        delivery.start()
    except RuntimeError as exc:  # the system has no thread left
        delivery.error = exc
    return delivery


def _error_of(delivery: _Delivery, announcement: Announcement, ends_at: float) -> BaseException | None:
    """Wait for a delivery; return why it failed, None if it is done."""
    if delivery.ident is not None and delivery is not _late.get(delivery.channel):
        delivery.join(max(0.0, ends_at - time.monotonic()))
    if delivery.is_alive():
        _late[delivery.channel] = delivery
    elif delivery.error is None and delivery.announcement.key == announcement.key:
        return None
    return delivery.error or TimeoutError("An earlier delivery was not finished in time.")
