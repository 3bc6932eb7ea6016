"""`manage.py redis locks`: lists the holders of locks and semaphores, and releases one."""

from __future__ import annotations

import math
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.command_line import command_line
from django_redis_components.core.text import counted
from django_redis_components.dashboard.json_data import page_data
from django_redis_components.dashboard.locks.data import lock_data
from django_redis_components.dashboard.locks.release import release
from django_redis_components.dashboard.locks.resources import Resource, all_kinds, resources_named
from django_redis_components.dashboard.locks.scan import cursors_from_text, cursors_to_text
from django_redis_components.dashboard.locks.snapshot import (
    HolderState,
    LockQuery,
    LockSnapshot,
    ResourceState,
    read_one,
)
from django_redis_components.dashboard.locks.snapshot import read as read_snapshot
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes, system_user
from django_redis_components.management.listings.task_listing import short
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable

#: Commands and their descriptions.
VERBS = {
    "list": "list held locks and semaphores with their holders and waiters",
    "release": "release a lock or permits of their holders (asks for confirmation)",
}


class Group(groups.CommandGroup):
    """Lists and releases locks and semaphores."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        made = add_subcommands(parser, VERBS)
        made["list"].add_argument("--name", default="", help="only this name (default: all that a scan finds)")
        made["list"].add_argument(
            "--at", default="", metavar="POSITION", help="continue the scan (default: a new scan)"
        )
        made["release"].add_argument("name", metavar="NAME", help="name of the lock or semaphore")
        made["release"].add_argument(
            "--kind",
            default="",
            choices=[slug for slug, kind in all_kinds().items() if not kind.is_in_group],
            help="required if several kinds have the name (default: any)",
        )
        for verb in ("list", "release"):
            made[verb].add_argument("--group", default="", help="of a name of a MultiLock (default: none)")
        add_yes(made["release"])

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `list_locks`."""
        return list_locks(options["using"], name=options["name"], group=options["group"], at=options["at"])

    def perform_release(self, options: dict[str, Any]) -> CommandResult:
        """Release the holders that were shown before the confirmation."""
        name, using = options["name"], options["using"]
        state = held(name, using, kind=options["kind"], group=options["group"])
        if state is None:
            return CommandResult({"name": name, "released": []}, f"No lock or semaphore {name!r} is held.")
        if not options["yes"]:
            self.command.ask(f"{describe(state)} Release it?", "Nothing was released.")
        return release_holders(state, using, system_user())


_HEADERS = ("NAME", "KIND", "HELD", "WAITING", "FENCE", "ROLE", "AGE", "EXPIRES IN", "HOLDER", "TOKEN")
_NUMBERS = frozenset({"HELD", "WAITING", "FENCE", "AGE", "EXPIRES IN"})


def list_locks(using: str, *, name: str = "", group: str = "", at: str = "") -> CommandResult:
    """Return held locks and semaphores: by name, or those that a bounded scan of the keys finds.

    Args:
        at: where to continue the scan, as the last result states it; "" starts a new one.

    Raises:
        ValueError: the name, the group or the position is invalid.
    """
    cursors = cursors_from_text(at)
    if at and not cursors:
        raise ValueError(f"at={at!r}: expected the position that the last list printed.")
    read = read_snapshot(LockQuery(using, name, group, cursors))
    snapshot = read.value
    if snapshot.problem:
        raise ValueError(snapshot.problem)
    shown = [state for state in snapshot.states if state.holders or state.waiters or state.error]
    rows = [row for state in shown for row in _rows(state)]
    text = _scanned(snapshot, using)
    if not rows:
        text = f"No lock or semaphore is held. {text}".rstrip()
    return CommandResult(page_data(read, lock_data(read)), text, TextTable(_HEADERS, rows, _NUMBERS) if rows else None)


def held(name: str, using: str, *, kind: str = "", group: str = "") -> ResourceState | None:
    """Return the held lock or semaphore with this name, or None.

    Args:
        kind: "lock", "readwrite" or "semaphore"; "" if the name alone identifies it.

    Raises:
        ValueError: the name is invalid, or several kinds with this name are held.
    """
    states = [read_one(each, using) for each in resources_named(name, group) if kind in ("", each.kind)]
    found = [state for state in states if state.holders]
    if len(found) > 1:
        kinds = ", ".join(f"--kind {state.resource.kind}" for state in found)
        raise ValueError(f"Several resources are named {name!r}. Choose one of {kinds}.")
    return found[0] if found else None


def describe(state: ResourceState) -> str:
    """Return what a release affects, in one sentence."""
    holders = ", ".join(_holder_text(holder) for holder in state.holders)
    waiters = counted(state.waiters, "waiter")
    return f"{all_kinds()[state.resource.kind].noun} {state.resource.name!r} is held by {holders}, with {waiters}."


def release_holders(state: ResourceState, using: str, author: str) -> CommandResult:
    """Release a lock or permits of these holders, whose errors name the author. Later holders are not affected."""
    resource = state.resource
    released = [holder.token for holder in state.holders if release(resource, holder.token, using, author=author)]
    data = {"name": resource.name, "kind": resource.kind, "group": resource.group, "released": released}
    text = f"Released {_noun(resource)} {resource.name!r}: {len(released)} of {counted(len(state.holders), 'holder')}."
    if released:
        return CommandResult(data, f"{text} Their code is not interrupted: it learns of it at its next call.")
    return CommandResult(data, problem=f"{all_kinds()[resource.kind].noun} {resource.name!r} has other holders by now.")


def _noun(resource: Resource) -> str:
    return all_kinds()[resource.kind].noun.lower()


def _rows(state: ResourceState) -> list[tuple[str, ...]]:
    resource = state.resource
    name = f"{resource.group}/{resource.name}" if resource.group else resource.name
    count = f"{state.held:,}" if state.limit is None else f"{state.held:,}/{state.limit:,}"
    fence = "" if state.fencing_token is None else str(state.fencing_token)
    about = (name, resource.kind, count, f"{state.waiters:,}", fence)
    if state.error:
        return [(*about, "", "", "", f"cannot be read: {state.error}", "")]
    return [(*about, *_holder(holder)) for holder in state.holders] or [(*about, "", "", "", "", "")]


def _holder(holder: HolderState) -> tuple[str, ...]:
    expires = "never" if math.isinf(holder.remaining_s) else short(holder.remaining_s)
    role = holder.role if holder.permits == 1 else f"{holder.permits} permits"
    return role, short(holder.age_s), expires, str(holder.held_by or ""), holder.token


def _holder_text(holder: HolderState) -> str:
    return holder.token if holder.held_by is None else f"{holder.held_by} (token {holder.token})"


def _scanned(snapshot: LockSnapshot, using: str) -> str:
    scan = snapshot.scan
    if scan is None:
        return ""
    text = f"Scanned {scan.scanned:,} of {counted(scan.total, 'key')}."
    if snapshot.not_shown:
        text += f" {snapshot.not_shown:,} more were found: ask for one with --name."
    if scan.cursors:
        options = ("--at", cursors_to_text(scan.cursors))
        text += f" Continue: {command_line('redis', 'locks', 'list', options=options, using=using)}"
    return text
