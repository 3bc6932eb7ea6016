"""The states of a flow's tasks: their labels, and their order from the one that needs attention."""

from __future__ import annotations

from django.utils.translation import pgettext

#: States, the one that needs attention first.
ORDER = (
    "failed",
    "unregistered",
    "cancelled",
    "expired",
    "not_run",
    "ignored",
    "retrying",
    "running",
    "ready",
    "scheduled",
    "waiting",
    "successful",
)


def rank(state: str) -> int:
    """Return the place of a state in `ORDER`; an unknown one is last."""
    return ORDER.index(state) if state in ORDER else len(ORDER)


def state_label(state: str) -> str:
    """Return the label of a state."""
    labels = {
        "failed": pgettext("task", "failed"),
        "unregistered": pgettext("task", "unregistered"),
        "cancelled": pgettext("task", "cancelled"),
        "expired": pgettext("task", "expired"),
        "not_run": pgettext("task", "not run"),
        "ignored": pgettext("task", "failure ignored"),
        "retrying": pgettext("task", "retrying"),
        "running": pgettext("task", "running"),
        "ready": pgettext("task", "ready"),
        "scheduled": pgettext("task", "scheduled"),
        "waiting": pgettext("task", "waiting"),
        "successful": pgettext("task", "successful"),
    }
    return labels.get(state, state)
