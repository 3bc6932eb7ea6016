"""The dashboard: admin pages for task queues, workers, visitors, locks, semaphores and rate limits.

Guarantees:

- The overview takes at most 3 round trips and 200 commands, the page of locks at most 10 round trips. The footer
  shows the numbers.
- A change has its own permission, is confirmed on a page of the server, is compared with the current state, and is
  written to the admin's log before it is made. ``READ_ONLY`` forbids all changes.
- Viewing a page writes nothing to Redis: no key is created, changed or deleted.
- Pages read counts, heads of lists and bounded ranges only, never data that grows with the load.
- While Redis is unavailable a page returns 503 with the cause, without a traceback. The timeouts are 1 s to connect
  and 2 s per reply. The rest of the admin does not use Redis.
- Users without the permission (``view_overview``, ``view_lock``, ``view_analytics`` …) see neither the menu entry nor
  the page.
- Data from Redis is shown as escaped text. It is never imported, unpickled or executed.

Keys: none. The dashboard reads the keys of `taskqueue`, `analytics`, `locks`, `semaphores` and `ratelimits`.

It is registered in the default admin site. For another site::

    from django_redis_components.dashboard.admin import register
    register(my_admin_site)

Each page has a package with a subclass of `Page`, which `pages` lists. It names what reads the page (`snapshot`),
formats it for the templates (`page`) and for JSON (`data`), and its verbs (`change_views`). Pages of registered panels
share `panels`. Shared modules:

==============  ===========================================================================
page            `Page`, what a page is declared by, and `PageRequest`
pages           the list of the pages; models, URLs, tabs and permissions follow from it
models          an unmanaged model for each page: permissions and entries in the admin
admin           the `ModelAdmin` classes, and `register`
links           URLs of pages, objects and changes that the user may open
responses       full page, fragment, JSON, and 503 during an outage
snapshot        `Snapshot`: what a page has read, when, and at what cost
clients         Redis clients with short timeouts
bounded_client  rejects writes and unbounded reads; counts commands and round trips
outages         causes of outages and their remedies
formats         numbers, durations and times in the active language
problems        what is wrong now: checks, incidents, notifications, the watching process
panel           `Panel`, and the registry of panels
table           `Table` and `Column`, for pages and panels
elements        table cells, tiles, links
charts          geometry of bar charts
json_data       JSON that several pages share
audit           entries in the admin's log
forms           the forms of changes that ask for more than a confirmation
verbs           changes by operators: permission, confirmation, ticket, outcome
arguments       arguments of tasks as masked text
==============  ===========================================================================

Sites add sections to the pages with `Panel` and `register_panel`.

See also: docs/components/dashboard.md; docs/guides/panels.md; ``DASHBOARD`` in `core.settings.sections` for the
settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django_redis_components.dashboard.elements import Cell
from django_redis_components.dashboard.panel import Panel, register_panel, unregister_panel
from django_redis_components.dashboard.table import Column, Table

if TYPE_CHECKING:
    from django_redis_components.core.protocol import Batch, Read

__all__ = ["Batch", "Cell", "Column", "Panel", "Read", "Table", "register_panel", "unregister_panel"]


def __getattr__(name: str) -> object:
    """Import what `Panel.read` yields when it is used: the admin imports this package when the site starts."""
    if name in ("Batch", "Read"):
        from django_redis_components.core import protocol

        found: object = getattr(protocol, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
