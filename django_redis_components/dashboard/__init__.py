"""The dashboard: admin pages that show the state of queues, workers, visitors, locks and rate limits.

Guarantees:

- The overview takes at most three round trips and 200 commands, the page on locks ten round trips. The footer
  shows the numbers.
- A change asks for confirmation, compares the state that was shown with the current one, and is written to the
  admin's log.
- Opening a page writes nothing to Redis: no key is created, changed or deleted.
- Pages read counts, heads of lists and bounded ranges only, never data that grows with the load.
- While Redis is unavailable the page returns 503 and says so, without a traceback: a connection is given up
  after 1 s, a reply after 2 s. The rest of the admin does not use Redis.
- Users without a permission see neither the menu entry nor the page: ``view_overview``, ``view_lock``,
  ``view_ratelimit``.
- Data from Redis is shown as escaped text, and never imported, unpickled or run.

Keys: none. The dashboard reads the keys of `taskqueue`, `analytics`, `locks`, `semaphores` and `ratelimits`.

It is registered in the default admin site. For another site::

    from django_redis_components.dashboard.admin import register
    register(my_admin_site)

The modules, each importing only those before it:

=============  ============================================================================
models         the models of permissions and admin entries; no tables, no migration
clients        separate connections with short timeouts
scanning       a bounded part of the keyspace, and the position to continue from
counting       counts commands and round trips, and allows only bounded reads
together       several flows in one round trip
reading        the snapshot: all data of the page, at one moment
health         problems and their remedies
outages        the reason for which Redis is unavailable, as text
wording        formats of numbers, ages and times
charts         the geometry of a bar chart
figures        the snapshot as JSON
rows           the rows of the two tables
pace           throughput of queues: rows, sparklines, charts
panels         the snapshot for the template
queue_reading  the snapshot of one queue
queue_panels   the snapshot of one queue for the template
views          page, fragment, JSON, and the page for an outage of Redis
audit          entries in the admin's log
lock_…         places, reading, figures, panels, verbs, views: held locks and their release
limit_…        reading, panels, views: rate limits, the state of a key, its reset
admin          the `ModelAdmin` classes, and `register`
=============  ============================================================================

See also: docs/components/dashboard.md; ``DASHBOARD`` in `core.sections` for the settings.
"""
