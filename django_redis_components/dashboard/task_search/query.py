"""What is searched: a text with prefixes, and where an earlier page of the search has ended."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from django_redis_components.core import keys
from django_redis_components.core.text import has_part
from django_redis_components.dashboard.error_text import is_masked
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import not_of_a_link, not_one_of
from django_redis_components.dashboard.queues.task_query import (
    CURSOR,
    MAX_FILTER,
    day_of,
    is_in_error,
    json_text,
    masked_json,
    moment_ago,
    needle_of,
    parse_time,
)
from django_redis_components.taskqueue.stats import fingerprint
from django_redis_components.taskqueue.store.scan import STATES, Filters, ScannedTask

#: Words before a colon that say where the text behind them is looked for, in the order in which the page explains them.
PREFIXES = ("name", "arg", "error", "queue", "state", "version", "host", "since", "until")
#: States by the words behind ``state:``, which are those of the pages and of `manage.py redis`.
STATE_WORDS = {"succeeded" if state == "successful" else state: state for state in STATES}
#: Longest text, in characters.
MAX_TEXT = 400
#: Most tasks that earlier pages of one search have looked at.
MAX_SEARCHED = 10**12
#: States that list tasks of other states again.
OVERLAPPING = ("retrying", "limited")
#: A date. Of other forms of ISO 8601 `parse_time` knows none.
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
#: A word: with a prefix or without, in quotes or without.
_WORD = re.compile(r'(\w+):(?:"[^"]*"|\S*)|"[^"]*"|\S+')


class After(NamedTuple):
    """Where a page of a search has ended: in a state of a queue, at a cursor; in this shard, or "" if there is one."""

    state: str
    queue: str
    cursor: str
    shard: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search.

    Attributes:
        source: as it was typed.
        text: what has no prefix: in the name, the arguments or the error.
        values: the texts behind the prefixes.
        problem: why nothing is searched, or "".
        after: where an earlier page has ended, or None.
        searched: how many tasks the earlier pages have looked at.
    """

    source: str = ""
    text: str = ""
    values: dict[str, str] = dataclasses.field(default_factory=dict)
    problem: str = ""
    after: After | None = None
    searched: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to search for."""
        return not self.text and not self.values

    @property
    def task_id(self) -> str:
        """The text if it may be the id of a task, or ""."""
        return self.text if not self.values and not self.after and len(self.text) <= MAX_FILTER else ""

    @property
    def states(self) -> list[str]:
        """The states that are searched: few tasks first, since a queue may have a million that are ready."""
        if "state" in self.values:
            return [self.values["state"]]
        return [state for state in reversed(STATES) if state not in OVERLAPPING]

    @property
    def filters(self) -> Filters:
        """The filters for the server."""
        error = self.values.get("error", "")
        is_group = fingerprint.PATTERN.fullmatch(error) is not None
        return Filters(
            name=self.values.get("name", ""),
            text=needle_of(self.values.get("arg", "")),
            error="" if is_group else json_text(error),
            fingerprint=error if is_group else "",
            begin_ms=parse_time(self.values.get("since", "")),
            end_ms=parse_time(self.values.get("until", "")),
            any_text=json_text(self.text),
            any_body=needle_of(self.text),
            version=self.values.get("version", ""),
            host=self.values.get("host", ""),
        )

    @property
    def needs_rows(self) -> bool:
        """Whether `accepts` must look at each task that the server has found."""
        error = self.values.get("error", "")
        is_error_masked = bool(error) and not fingerprint.PATTERN.fullmatch(error) and is_masked()
        return bool(self.text) or "arg" in self.values or is_error_masked

    def accepts(self, task: ScannedTask) -> bool:
        """Return whether the texts are in what is shown, too: a search must not reveal masked values."""
        error, argument = self.values.get("error", ""), self.values.get("arg", "")
        if error and not fingerprint.PATTERN.fullmatch(error) and not is_in_error(task, error):
            return False
        if argument and not has_part(masked_json(task), needle_of(argument)):
            return False
        return (
            not self.text
            or has_part(task.record.name, self.text)
            or has_part(masked_json(task), needle_of(self.text))
            or is_in_error(task, self.text)
        )

    def continued(self, after: After, searched: int) -> str:
        """Return the query string of the next page."""
        place = {"in_state": after.state, "in_queue": after.queue, "in_shard": after.shard, "cursor": after.cursor}
        fields = {"q": self.source, **place, "searched": searched}
        return urlencode({name: value for name, value in fields.items() if value})

    def with_word(self, prefix: str, value: str) -> str:
        """Return the query string of this search with another text behind a prefix; "" removes the prefix."""
        words = [word for name, word in _words(self.source) if name != prefix]
        if not value:
            return urlencode({"q": " ".join(words)})
        value = word_of(prefix, value)
        added = f'{prefix}:"{value}"' if re.search(r"\s", value) else f"{prefix}:{value}"
        return urlencode({"q": " ".join([*words, added])})


def word_of(prefix: str, value: str) -> str:
    """Return what is written behind a prefix for a value."""
    return next((word for word, state in STATE_WORDS.items() if prefix == "state" and state == value), value)


def parse(request: PageRequest) -> SearchQuery:
    """Return the query of a request. A text that cannot be searched is a problem that the page shows.

    Raises:
        ValueError: a parameter of a link is invalid.
    """
    form = request.http.GET
    query = search_of(" ".join(form.get("q", "").split()))
    state, queue, cursor, searched = (form.get(name, "") for name in ("in_state", "in_queue", "cursor", "searched"))
    if not state:
        return query
    if state not in STATES:
        raise not_one_of("in_state", state, STATES)
    keys.validate_name(queue, "queue name")
    if cursor and not CURSOR.fullmatch(cursor):
        raise not_of_a_link("cursor")
    if not (searched.isascii() and searched.isdigit() and len(searched) <= 13 and int(searched) <= MAX_SEARCHED):
        raise not_of_a_link("searched")
    shard = form.get("in_shard", "")
    if shard:
        keys.validate_name(shard, "shard name")
    return dataclasses.replace(query, after=After(state, queue, cursor, shard), searched=int(searched))


def search_of(source: str) -> SearchQuery:
    """Return the search that a text describes."""
    if len(source) > MAX_TEXT:
        problem = _("The text is too long: expected at most %(most)s characters.") % {"most": MAX_TEXT}
        return SearchQuery(source[:MAX_TEXT], problem=problem)
    free: list[str] = []
    values: dict[str, str] = {}
    for prefix, word in _words(source):
        if prefix:
            values[prefix] = _unquoted(word.partition(":")[2])
        else:
            free.append(_unquoted(word))
    try:
        checked = {name: _checked(name, value) for name, value in values.items() if value}
    except (ValueError, OverflowError) as exc:
        return SearchQuery(source, problem=str(exc))
    return SearchQuery(source, " ".join(free), checked)


def _unquoted(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] == '"' else word


def _words(source: str) -> Iterator[tuple[str, str]]:
    """Yield the words of a text, each with its prefix, or "" without one."""
    for found in _WORD.finditer(source):
        prefix = found[1] if found[1] in PREFIXES else ""
        yield prefix, found[0]


def _checked(prefix: str, value: str) -> str:
    """Return the text behind a prefix as it is searched for.

    Raises:
        ValueError: it is not accepted.
    """
    if prefix == "state":
        value = STATE_WORDS.get(value, value)
        if value not in STATES:
            text = _("expected one of %(states)s.") % {"states": ", ".join(STATE_WORDS)}
            raise ValueError(f"state:{value[:40]}: {text}")
    if prefix == "queue":
        keys.validate_name(value, "queue name")
    if prefix in ("since", "until"):
        return _time(prefix, value)
    if len(value) > MAX_FILTER:
        text = _("expected at most %(most)s characters.") % {"most": MAX_FILTER}
        raise ValueError(f"{prefix}: {text}")
    return value


def _time(prefix: str, value: str) -> str:
    for parsed in (moment_ago, partial(_day, prefix), str):
        try:
            text = parsed(value)
            parse_time(text)
        except (ValueError, OverflowError):
            continue
        return text
    text = _(
        "expected a duration such as 15m, 1h or 2d; today, yesterday or a day such as tuesday; midnight; or a time"
        " such as 2026-11-23 or 2026-11-23T11:20."
    )
    raise ValueError(f"{prefix}:{value[:40]}: {text}")


def _day(prefix: str, value: str) -> str:
    """Return the start of a day, a date or a name, as `parse_time` takes it; until: its end.

    Raises:
        ValueError, OverflowError: it is no day.
    """
    day = date.fromisoformat(value if _DATE.fullmatch(value) else day_of(value))
    return f"{day + timedelta(days=1) if prefix == 'until' else day}T00:00"
