"""Price labels. The market's printer takes three sheets at a time: a semaphore sees to it across all processes."""

from __future__ import annotations

import textwrap
import time

from django.conf import settings

from django_redis_components.semaphores import semaphore
from example_project.market.models import Item

#: Sheets that the printer takes at the same time.
SHEETS_AT_ONCE = 3

#: Seconds after which the place of a crashed process is free again; well above what one sheet takes.
LEASE_S = 15

#: Characters between the edges of a label.
WIDTH = 38


@semaphore("market:label-printer", limit=SHEETS_AT_ONCE, timeout=LEASE_S, on_conflict="raise")
def print_label(item: Item) -> str:
    """The label of an item as text.

    Raises:
        SemaphoreFull: three labels are being printed already.
    """
    time.sleep(settings.LABEL_PRINTER_S)  # the printer is slow; that is why there is a limit
    lines = ["", *textwrap.wrap(item.title.upper(), WIDTH - 4), "", f"{item.price} gold", f"from {item.seller}", ""]
    edge = "+" + "-" * WIDTH + "+"
    return "\n".join([edge, *(f"|{line.center(WIDTH)}|" for line in lines), edge, f"No. {item.pk}", ""])
