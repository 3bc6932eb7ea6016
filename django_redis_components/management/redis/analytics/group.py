"""The commands of `manage.py redis analytics`."""

from __future__ import annotations

import argparse
import difflib
from datetime import date
from typing import Any

from django.core.management.base import CommandError, CommandParser

from django_redis_components.analytics import Events, roll_up_cohorts
from django_redis_components.analytics.csv_text import csv_lines
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.retention import MAX_DAYS, roll_up_retention
from django_redis_components.analytics.user_ids import UserId
from django_redis_components.core.day_ranges import MAX_RANGE_DAYS
from django_redis_components.core.settings import conf
from django_redis_components.core.text import counted
from django_redis_components.management.arguments import day, name, whole_number
from django_redis_components.management.base import CommandResult, ExitCode, add_subcommands, add_yes
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.analytics.site import COLUMNS, Site, last_days

#: Commands and their descriptions.
VERBS = {
    "report": "print views, visitors and sign-ins of each day, with the pages and the sources of the most views",
    "export": "write counts to standard output, as CSV or with --json as one line of JSON",
    "rollup": "store retention and cohorts, so that pages need not compute them; run it once a day",
    "forget": "delete sign-ins, events and scores of a user (asks for confirmation)",
}


#: Most digits of an id that is a number.
MAX_DIGITS = 20


class Group(groups.CommandGroup):
    """Reports, exports and erases what analytics has counted."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the commands."""
        alias = 'connection alias (default: REDIS_COMPONENTS["ANALYTICS"]["USING"])'
        made = add_subcommands(parser, VERBS, using=dict.fromkeys(VERBS, alias))
        for each in made.values():
            each.add_argument("--site", help='name of the site (default: REDIS_COMPONENTS["ANALYTICS"]["SITE"])')
        made["export"].add_argument("what", choices=list(COLUMNS), help="what is exported, by day")
        for verb, days in (("report", 30), ("export", 30)):
            _add_range(made[verb], days)
        made["rollup"].add_argument(
            "--days",
            type=whole_number(1, MAX_DAYS),
            default=30,
            help=f"number of days until yesterday, at most {MAX_DAYS} (default: 30)",
        )
        made["rollup"].add_argument(
            "--cohorts",
            nargs=2,
            action="append",
            default=[],
            metavar=("FIRST", "LATER"),
            help="also store the cohorts of 8 weeks of two events for the dashboard; repeatable",
        )
        made["forget"].add_argument("user_id", metavar="ID", help="of the user")
        made["forget"].add_argument("--mapped", action="store_true", help="the site's ids are mapped to numbers")
        made["forget"].add_argument(
            "--ranking",
            action="append",
            type=name,
            default=[],
            metavar="NAME",
            help="also delete the user's scores there, in all windows; repeatable",
        )
        add_yes(made["forget"])

    def perform_report(self, options: dict[str, Any]) -> CommandResult:
        """Return the report."""
        return _site(options).report(*_range(options))

    def perform_export(self, options: dict[str, Any]) -> CommandResult:
        """Write the rows as they are read."""
        what = options["what"]
        rows = _site(options).rows(what, *_range(options))
        if options["json"]:
            return CommandResult({"rows": [dict(zip(COLUMNS[what], row, strict=True)) for row in rows]})
        for line in csv_lines(COLUMNS[what], rows):
            self.command.stdout.write(line, ending="")
        return CommandResult({})

    def perform_rollup(self, options: dict[str, Any]) -> CommandResult:
        """Store retention of the last days."""
        site = _site(options)
        added = roll_up_retention(site.sign_ins, days=options["days"])
        lines = [
            f"Retention of {site.sign_ins.site}, {counted(options['days'], 'day')}: stored {counted(added, 'number')}."
        ]
        known, problems = site.event_names() if options["cohorts"] else [], dict[str, None]()
        stored = 0
        for first, later in options["cohorts"]:
            if unknown := [name for name in (first, later) if name not in known]:
                problems |= dict.fromkeys(_unknown_event(name, known, site.views.site) for name in unknown)
                continue
            events = [Events(name, site=site.views.site, using=site.views.using) for name in (first, later)]
            table = roll_up_cohorts(events[0], events[1])
            lines.append(f"Cohorts of {first} and {later}: stored {counted(len(table.rows), 'week')}.")
            stored += 1
        data = {"site": site.sign_ins.site, "added": added, "cohorts": stored}
        return CommandResult(data, "\n".join(lines), problem=" ".join(problems))

    def perform_forget(self, options: dict[str, Any]) -> CommandResult:
        """Delete the data of a user after a confirmation."""
        user_id, site = _user_id(options), _site(options)
        try:
            site.check_ids()
        except ValueError as exc:
            raise CommandError(str(exc), returncode=ExitCode.INVALID_ARGUMENTS) from exc
        if not options["yes"]:
            self.command.ask(
                f"Delete all sign-ins and events of user {user_id}? They cannot be restored.", "Nothing was deleted."
            )
        found = site.forget(user_id, options["ranking"])
        text = f"User {user_id}: deleted the sign-ins, {counted(found['events'], 'mark')} of events"
        ranked = (
            f", {counted(found['scores'], 'score')} in {', '.join(options['ranking'])}" if options["ranking"] else ""
        )
        note = "Page views and visitors store no user: HyperLogLogs keep no ids."
        return CommandResult({"user_id": user_id, **found}, f"{text}{ranked}.", note=note)


def _unknown_event(name: str, known: list[str], site: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Events: {', '.join(known) or 'none'}."
    return f"No event {name!r} was marked at the site {site!r}. {hint} Its cohorts are not stored."


def _add_range(parser: argparse.ArgumentParser, days: int) -> None:
    limit = whole_number(1, MAX_RANGE_DAYS)
    parser.add_argument(
        "--days", type=limit, default=days, help=f"number of days, the last one included (default: {days})"
    )
    parser.add_argument("--end", type=day, metavar="YYYY-MM-DD", help="last day (default: today, in TIME_ZONE)")


def _range(options: dict[str, Any]) -> tuple[date, date]:
    try:
        return last_days(options["days"], options["end"] or site_date())
    except ValueError as exc:
        raise CommandError(str(exc), returncode=ExitCode.INVALID_ARGUMENTS) from None


def _user_id(options: dict[str, Any]) -> UserId:
    """Return the id: a number, unless the site's ids are mapped."""
    text: str = options["user_id"]
    if options["mapped"]:
        return text
    if not text.isdecimal() or len(text) > MAX_DIGITS:
        raise CommandError(
            f"ID {text[:40]!r}: expected an integer. Ids of other kinds need --mapped.",
            returncode=ExitCode.INVALID_ARGUMENTS,
        )
    return int(text)


def _site(options: dict[str, Any]) -> Site:
    settings = conf.settings().analytics
    return Site(
        options["site"] or settings.site, options["using"] or settings.using, mapped=options.get("mapped", False)
    )
