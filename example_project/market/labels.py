"""Price labels. The printer prints three sheets at a time; a semaphore enforces this across all processes."""

from __future__ import annotations

import textwrap
import time

from django.conf import settings

from django_redis_components.semaphores import semaphore
from example_project.market.models import Item

#: Sheets that the printer prints at the same time.
SHEETS_AT_ONCE = 3

#: Lease of a permit in seconds: a crashed process blocks it no longer. Well above the time for one sheet.
LEASE_S = 15

#: Width of a label in characters, without its border.
WIDTH = 38


@semaphore("market:label-printer", limit=SHEETS_AT_ONCE, timeout=LEASE_S, on_conflict="raise")
def print_label(item: Item) -> str:
    """Return the label of an item as text.

    Raises:
        SemaphoreFull: three labels are being printed already.
    """
    time.sleep(settings.LABEL_PRINTER_S)  # simulates a slow printer
    lines = ["", *textwrap.wrap(item.title.upper(), WIDTH - 4), "", f"{item.price} gold", f"from {item.seller}", ""]
    edge = "+" + "-" * WIDTH + "+"
    return "\n".join([edge, *(f"|{line.center(WIDTH)}|" for line in lines), edge, f"No. {item.pk}", ""])
