"""`manage.py redis limits`: lists rate limits; shows, resets or blocks a key."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.limits.page import decision_data
from django_redis_components.management.arguments import duration
from django_redis_components.management.base import CommandResult, add_subcommands, add_yes, system_user
from django_redis_components.management.listings.task_listing import short
from django_redis_components.management.redis import groups
from django_redis_components.management.tables import TextTable
from django_redis_components.ratelimits import Decision, RateLimit
from django_redis_components.ratelimits.limit import limits_flow, read_flow
from django_redis_components.ratelimits.limiter import MAX_BLOCK_S, check_block, key_of_text

#: Commands and their descriptions.
VERBS = {
    "list": "list the rate limits that the site has used",
    "show": "show what the next hit of a key would get; nothing is counted",
    "reset": "delete the counts and the blocks of a key (asks for confirmation)",
    "block": "deny all hits of a key for a time (asks for confirmation)",
    "unblock": "end the block of a key; its counts and a penalty remain",
}
#: Seconds of a block, unless the command states another time.
BLOCK_S = 3_600
#: Help of the argument.
KEY_HELP = "the key, such as an address or a user's id; or hash: and its hash, as the dashboard lists it"


class Group(groups.CommandGroup):
    """Shows, resets and blocks keys of rate limits."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands. A limit determines its connection."""
        made = add_subcommands(
            parser, VERBS, using=dict.fromkeys(VERBS, "only limits of this connection (default: all)")
        )
        for verb in ("show", "reset", "block", "unblock"):
            made[verb].add_argument("name", metavar="NAME", help="name or id of the limit, as listed")
            made[verb].add_argument("key", metavar="KEY", help=KEY_HELP)
        ends = made["block"].add_mutually_exclusive_group()
        ends.add_argument(
            "--for",
            dest="seconds",
            type=duration,
            default=BLOCK_S,
            metavar="DURATION",
            help="such as 10m, 24h or 7d, at most a year (default: 1h)",
        )
        ends.add_argument("--until-unblocked", action="store_true", help="without an end")
        for verb in ("reset", "block"):
            add_yes(made[verb])

    def perform_list(self, options: dict[str, Any]) -> CommandResult:
        """See `list_limits`."""
        return list_limits(options["using"])

    def perform_show(self, options: dict[str, Any]) -> CommandResult:
        """See `show_key`."""
        return show_key(find(options["name"], options["using"]), options["key"])

    def perform_reset(self, options: dict[str, Any]) -> CommandResult:
        """Reset a key after a confirmation."""
        limit, key = find(options["name"], options["using"]), options["key"]
        if not options["yes"]:
            self.command.ask(f"Reset key {key!r} of limit {limit.name!r}?", "Nothing was reset.")
        return reset_key(limit, key)

    def perform_block(self, options: dict[str, Any]) -> CommandResult:
        """Block a key after a confirmation."""
        limit, key = find(options["name"], options["using"]), options["key"]
        seconds = None if options["until_unblocked"] else check_block(options["seconds"])
        if not options["yes"]:
            question = f"Block key {key!r} of limit {limit.name!r} {_lasts(seconds)}?"
            self.command.ask(question, "Nothing was blocked.")
        return block_key(limit, key, seconds, system_user())

    def perform_unblock(self, options: dict[str, Any]) -> CommandResult:
        """See `unblock_key`."""
        return unblock_key(find(options["name"], options["using"]), options["key"])


def list_limits(using: str | None = None) -> CommandResult:
    """Return the rate limits that the site has used, on all connections or on one."""
    limits = _limits(using)
    data = {"limits": [{"id": each, **dataclasses.asdict(limit.policy)} for each, limit in limits.items()]}
    if not limits:
        return CommandResult(
            data, "No rate limit has been used yet. Add `@rate_limit(…)` above a view, or create a `RateLimit`."
        )
    rows = [_row(limit) for limit in limits.values()]
    return CommandResult(
        data, table=TextTable(("NAME", "RATES", "ALGORITHM", "PENALTY", "ON ERROR", "CONNECTION"), rows)
    )


def show_key(limit: RateLimit, key: str) -> CommandResult:
    """Return the state of a key. Nothing is counted."""
    decision = run(connections.client(limit.using), read_flow(limit, key_of_text(key)))
    rows = [
        (str(state.rate), f"{state.remaining:,}", short(state.retry_after) or "now", short(state.reset_after))
        for state in decision.states
    ]
    columns = ("RATE", "REMAINING", "RETRY IN", "RESETS IN")
    table = TextTable(columns, rows, frozenset(columns[1:])) if rows else None
    data = {"limit": limit.policy.id, "key": key, **decision_data(decision)}
    return CommandResult(data, f"{_verdict(decision)} (limit {limit.name!r}, key {key!r})", table)


def reset_key(limit: RateLimit, key: str) -> CommandResult:
    """Delete the counts and the penalty block of a key."""
    limit.reset(key_of_text(key))
    text = f"Reset key {key!r} of limit {limit.name!r}. Processes that have cached a denial repeat it until it expires."
    return CommandResult({"limit": limit.policy.id, "key": key, "reset": True}, text)


def block_key(limit: RateLimit, key: str, seconds: float | None, author: str) -> CommandResult:
    """Deny all hits of a key for this time; None: until it is unblocked."""
    limit.block(key_of_text(key), seconds, author=author)
    data = {"limit": limit.policy.id, "key": key, "blocked": True, "seconds": seconds}
    return CommandResult(data, f"Blocked key {key!r} of limit {limit.name!r} {_lasts(seconds)}.")


def unblock_key(limit: RateLimit, key: str) -> CommandResult:
    """End the block of a key."""
    unblocked = limit.unblock(key_of_text(key))
    data = {"limit": limit.policy.id, "key": key, "unblocked": unblocked}
    if not unblocked:
        return CommandResult(data, f"Key {key!r} of limit {limit.name!r} was not blocked.")
    text = f"Unblocked key {key!r} of limit {limit.name!r}. Processes that have cached the block deny for up to 5 s."
    return CommandResult(data, text)


def find(name: str, using: str | None = None) -> RateLimit:
    """Return the limit with this name or id, on any connection or on one.

    Raises:
        ValueError: there is none, or several limits have the name.
    """
    limits = _limits(using)
    found = [limit for limit_id, limit in limits.items() if name in (limit_id, limit.name)]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(repr(limit.policy.id) for limit in found)
        raise ValueError(f"Several limits are named {name!r}. Give the id of one: {ids}.")
    names = [limit.name for limit in limits.values()]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Limits: {', '.join(names) or 'none'}."
    raise ValueError(f"The site has used no limit {name!r}. {hint}")


def _limits(using: str | None) -> dict[str, RateLimit]:
    """Return the limits that the site has used, by id."""
    limits = run(connections.client(conf.settings().dashboard.using), limits_flow())
    if using is None:
        return limits
    connections.client(using)  # an unknown alias is an error
    return {limit_id: limit for limit_id, limit in limits.items() if limit.using == using}


def _row(limit: RateLimit) -> tuple[str, ...]:
    policy = limit.policy
    penalty = f"{policy.penalty[0]} denials in {short(policy.penalty[1])}" if policy.penalty else ""
    return policy.name, ", ".join(policy.rates), policy.algorithm, penalty, policy.on_error, policy.using


def _verdict(decision: Decision) -> str:
    if decision.is_allowed:
        return "The next hit is allowed."
    if decision.blocked_by is not None:
        by = f" by {decision.blocked_by}" if decision.blocked_by else ""
        is_endless = decision.retry_after > MAX_BLOCK_S
        return f"Blocked{by} {_lasts(None if is_endless else decision.retry_after)}."
    wait = short(decision.retry_after)
    return f"Blocked by the penalty for {wait}." if decision.is_blocked else f"The next hit is denied for {wait}."


def _lasts(seconds: float | None) -> str:
    return "until it is unblocked" if seconds is None else f"for {short(seconds)}"
