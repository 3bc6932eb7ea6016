"""Sentences for entries of the admin's log: what was done, without ids that only programs need. They are in English.

An entry is "<action>: <outcome>.", such as "Purge queue 'mail', tasks until …: 560 tasks purged, trash 0123…." Texts
that are not understood are shown as they are stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext_lazy, pgettext_lazy

from django_redis_components.dashboard.audit import logged_time

#: The words with which entries begin, with their labels.
VERBS: dict[str, Any] = {
    "Acknowledge": gettext_lazy("Acknowledge"),
    "Add": pgettext_lazy("a schedule", "Add"),
    "Block": gettext_lazy("Block"),
    "Cancel": gettext_lazy("Cancel"),
    "Delete": gettext_lazy("Delete"),
    "Edit": gettext_lazy("Edit"),
    "Enqueue": gettext_lazy("Enqueue"),
    "Move": gettext_lazy("Move"),
    "Pause": gettext_lazy("Pause"),
    "Purge": gettext_lazy("Purge"),
    "Quiet": gettext_lazy("Quiet"),
    "Release": gettext_lazy("Release"),
    "Remove": pgettext_lazy("a schedule", "Remove"),
    "Rename": gettext_lazy("Rename"),
    "Reschedule": gettext_lazy("Reschedule"),
    "Reset": gettext_lazy("Reset"),
    "Restart": gettext_lazy("Restart"),
    "Restore": gettext_lazy("Restore"),
    "Resume": gettext_lazy("Resume"),
    "Retry": gettext_lazy("Retry"),
    "Run": gettext_lazy("Run"),
    "Show": gettext_lazy("Show"),
    "Stop": gettext_lazy("Stop"),
    "Unblock": gettext_lazy("Unblock"),
    "Withdraw": gettext_lazy("Withdraw"),
}
#: Past tenses that are not regular.
_PAST = {
    "Cancel": "Cancelled",
    "Reset": "Reset",
    "Retry": "Retried",
    "Run": "Ran",
    "Stop": "Stopped",
    "Withdraw": "Withdrew",
}
_TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC"
#: What is left out or replaced in each entry, in this order.
_REPLACED: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"(?:, tasks)? until {_TIME}"), ""),
    (re.compile(r", trash(?: [0-9a-f]{16}(?:, [0-9a-f]{16})*| )(?=\.$|, stopped)"), ""),
    (re.compile(r": sent, operation \w+"), ": sent"),
    (re.compile(r" trash '\w+' of queue "), " deleted tasks of queue "),
    (re.compile(r" of error [0-9a-f]+ \((.*?)\)(?= in ')"), r" of the error \1"),
    (re.compile(r" from holder (?:'[^']*'|\"[^\"]*\")(?=: \w)"), ""),
    (re.compile(r" (of queue|to) ('\S+') \((?!all\b)([^()]+)\)(?=: )"), r" \1 \2 (selected: \3)"),
    (re.compile(r" to '(\d{12,13})(?:\.\d+)?'"), lambda found: f" to {logged_time(found[1])}"),
    (re.compile(r"""(?<![\w\\])'([^\s'"\\]+)'(?![\w'])"""), r"\1"),  # quotes around a name without spaces
]
_STATE = r"(?:(ready|scheduled|running|failed|waiting|unregistered|deleted) tasks of )?"
_STOPPED = r"(, stopped before the end)?\."


def sentence_of(text: str) -> str:
    """Return the sentence for an entry."""
    for pattern, new in _REPLACED:
        text = pattern.sub(new, text)
    for shape, sentence in _SENTENCES:
        if (found := shape.fullmatch(text)) is not None:
            return sentence(*found.groups(default=""))
    return text


def _due_now(state: str, of: str, which: str, count: str, noun: str, end: str) -> str:
    return f"Made {_number(count, state, noun)} of {of} due now{which}{end}."


def _counted(verb: str, state: str, of: str, count: str, noun: str, end: str) -> str:
    return f"{_past(verb)} {_number(count, state, noun)} of {of}{end}."


def _done(verb: str, what: str, reason: str) -> str:
    because = f" Reason: {reason.strip(_QUOTES).rstrip('.')}." if reason else ""
    return f"{_past(verb)} {what}.{because}"


def _number(count: str, state: str, noun: str) -> str:
    return " ".join(filter(None, [count, state, noun]))


def _past(verb: str) -> str:
    return _PAST.get(verb) or (f"{verb}d" if verb.endswith("e") else f"{verb}ed")


_QUOTES = "'\""
_VERB = f"({'|'.join(VERBS)})"
_COUNT = rf"([\d,]+) (tasks?) [a-z ]+{_STOPPED}"
#: Shapes of entries, and what makes the sentence of their parts. The first that fits is used.
_SENTENCES: list[tuple[re.Pattern[str], Callable[..., str]]] = [
    (re.compile(rf"Run now {_STATE}(.+?)( \(.+\))?: {_COUNT}", re.DOTALL), _due_now),
    (re.compile(rf"{_VERB} {_STATE}(.+): {_COUNT}", re.DOTALL), _counted),
    (
        re.compile(r"(Quiet|Resume|Restart|Stop) (workers? .+): sent(; .+)?\.", re.DOTALL),
        lambda verb, workers, rest: f"Sent the command {verb.lower()} to {workers}{rest}.",
    ),
    (re.compile(r"Stop (task .+): asked to stop\.", re.DOTALL), "Asked {} to stop.".format),
    (re.compile(r"Run now (task .+): done\.", re.DOTALL), "Made {} due now.".format),
    (re.compile(r"Run (schedule .+: task \S+ enqueued)\.", re.DOTALL), "Ran {}.".format),
    (re.compile(r"Enqueue (.+): task \S+ enqueued\.", re.DOTALL), "Enqueued {}.".format),
    (re.compile(rf"{_VERB} (.+): (?:done|deleted|cancelled|shown)(?:, reason (.+))?\.", re.DOTALL), _done),
]
