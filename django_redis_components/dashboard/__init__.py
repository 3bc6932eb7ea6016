"""The dashboard: pages in the admin that say how the queues, their workers and the visitors are.

What it guarantees:

- A page is read in at most three round trips and 200 commands, and its footer says how many it took.
- Opening a page writes nothing to Redis: no key is made, changed or pruned.
- Nothing that grows with the data is read whole: counts, heads and bounded ranges only.
- If Redis is away the answer is a page that says so (503), never a traceback. It comes soon: a connection
  is given up after 1 s, a reply after 2 s. The rest of the admin does not touch Redis at all.
- Who may not view it sees neither the entry nor the page: ``django_redis_components.view_overview``.
- What comes from Redis is escaped text, and never imported, unpickled or run.

Keys: none of its own. It reads those of `taskqueue` and `analytics`.

Installed with the package, in the default admin site. Another site::

    from django_redis_components.dashboard.admin import register
    register(my_admin_site)

The modules, each importing only those before it:

============  ====================================================================================
models        the anchor of the permission and of the admin's entry; no table, no migration
clients       connections of its own, which give up early
counting      counts commands and round trips, and lets only reads with a bound through
together      several flows in one round trip
reading       the snapshot: everything the page shows, at one moment
health        what is wrong, and what to do about it
outages       why Redis does not answer, in words
wording       numbers, ages and times as a reader sees them
charts        the geometry of a bar chart
figures       the snapshot as JSON
rows          the rows of the two tables
pace          what queues have done: rows, small drawings, charts
panels        the snapshot as the template shows it
queue_reading the snapshot of one queue
queue_panels  that snapshot as the template shows it
views         page, fragment, JSON, and the page for when Redis is away
admin         the `ModelAdmin`, and `register`
============  ====================================================================================

See also: docs/dashboard.md; ``DASHBOARD`` in `core.sections` for the settings.
"""
