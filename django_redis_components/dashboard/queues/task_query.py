"""What a request wants from the list of a queue's tasks: the state, the filters and the page."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from urllib.parse import urlencode

from django_redis_components.core import serialization
from django_redis_components.dashboard.arguments import masked_arguments
from django_redis_components.taskqueue.store.scan import STATES, Filters, ScannedTask

#: Tasks on a page.
PAGE_SIZE = 50
#: Longest filter that a form accepts, in characters.
MAX_FILTER = 200
#: A cursor is the task's part of the queue, its score or time, and its entry.
_CURSOR = re.compile(r"[a-z]{1,20} -?(?:\d{1,20}(?:\.\d{1,20})?(?:e\+?\d{1,3})?|inf) .{1,1000}", re.DOTALL)
#: Arguments as the page shows them: name=value.
_NAMED = re.compile(r"(\w+)=(.+)", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class TaskQuery:
    """The state, the filters and the page.

    Attributes:
        name, error, text: filters as the operator has typed them.
        direction: "after" or "before" the cursor.
    """

    state: str = "ready"
    name: str = ""
    error: str = ""
    text: str = ""
    cursor: str = ""
    direction: str = "after"

    @property
    def filters(self) -> Filters:
        """The filters for the server."""
        return Filters(self.name, _needle(self.text), _json_text(self.error))

    def encoded(self, **changed: str) -> str:
        """Return the query string with some values changed."""
        values = {**dataclasses.asdict(self), **changed}
        if not values["cursor"]:
            values["direction"] = ""
        return urlencode({name: value for name, value in values.items() if value})

    def accepts(self, task: ScannedTask) -> bool:
        """Return whether the text is in the masked arguments, too: a search must not reveal masked values."""
        if not self.text:
            return True
        try:
            masked = serialization.encode([*masked_arguments(task.record)]).decode()
        except Exception:  # noqa: BLE001 - the site's codec may raise anything
            return False
        return _needle(self.text) in masked


def query_of(form: Mapping[str, str]) -> TaskQuery:
    """Return the query of a request.

    Raises:
        ValueError: a parameter is not valid.
    """
    given = {field.name: form[field.name] for field in dataclasses.fields(TaskQuery) if form.get(field.name)}
    found = TaskQuery(**given)
    if found.state not in STATES:
        raise ValueError(f"state={found.state[:40]!r}: expected one of {', '.join(STATES)}.")
    for name in ("name", "error", "text"):
        if len(getattr(found, name)) > MAX_FILTER:
            raise ValueError(f"{name}: expected at most {MAX_FILTER} characters.")
    if found.direction not in ("after", "before"):
        raise ValueError(f"direction={found.direction[:40]!r}: expected after or before.")
    if found.cursor and not _CURSOR.fullmatch(found.cursor):
        raise ValueError("cursor: expected one from a link of this page.")
    return found


def _needle(text: str) -> str:
    """Return a text of the page as JSON writes it: ``order_id=7`` is ``"order_id":7``."""
    named = _NAMED.fullmatch(text)
    return f'"{named[1]}":{named[2]}' if named else _json_text(text)


def _json_text(text: str) -> str:
    """Return a text as it stands within a JSON string, unless it has quotes: then it is JSON already."""
    return text if '"' in text else serialization.encode(text).decode()[1:-1]
