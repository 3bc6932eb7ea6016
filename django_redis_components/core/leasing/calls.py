"""The script calls of leases that differ from ordinary calls: how often they are sent, and what follows them."""

from __future__ import annotations

import dataclasses

from django_redis_components.core.leasing.forced_release import describe_author
from django_redis_components.core.leasing.holder import describe_caller
from django_redis_components.core.protocol import Call


class IdempotentCall(Call):
    """A call that is sent again after its reply was lost, although an earlier one may have been executed."""

    @property
    def retry(self) -> bool:
        """True: the lease shows what the reply to a repetition means."""
        return True


@dataclasses.dataclass(slots=True)
class BoundedCall(Call):
    """A call that is not sent again after a moment, so that it ends at most one socket timeout later.

    Attributes:
        give_up_at: monotonic seconds.
    """

    give_up_at: float


@dataclasses.dataclass(slots=True)
class ReleaseCall(Call):
    """A release.

    Attributes:
        confirm: the call that must follow when it has handed off.
    """

    confirm: Call


def as_text(call: Call) -> Call:
    """Return the same call with arguments of text: numbers would be converted each time it is sent."""
    return Call(call.script, call.keys, tuple(map(str, call.args)))


def with_confirm(release: Call, confirm: Call) -> ReleaseCall:
    """Return a release that is followed by `confirm` when it has handed off."""
    return ReleaseCall(release.script, release.keys, tuple(map(str, release.args)), confirm)


def acquire_with_token(token: str, call: Call) -> Call:
    """Return the same acquisition for a token and by the caller: its first two arguments.

    The calls for a free lock or permit are made once, and only the token is replaced: naming eight keys and arguments
    each time costs as much as everything else that is done for them in Python.
    """
    return Call(call.script, call.keys, (token, describe_caller(), *call.args[2:]))


def release_with_token(token: str, call: ReleaseCall) -> ReleaseCall:
    """See `acquire_with_token`."""
    return ReleaseCall(call.script, call.keys, (token, *call.args[1:]), call.confirm)


def forced(call: ReleaseCall, author: str) -> ReleaseCall:
    """Return the same release by an operator, who is its second argument."""
    return ReleaseCall(call.script, call.keys, (call.args[0], describe_author(author), *call.args[2:]), call.confirm)
