"""The dashboard: pages in the admin that say how queues, workers, visitors, locks and rate limits are.

What it guarantees:

- The overview is read in at most three round trips and 200 commands, that of locks in ten; a footer says it.
- What changes something asks first, compares what was shown with what is, and is written into the admin's log.
- Opening a page writes nothing to Redis: no key is made, changed or pruned.
- Nothing that grows with the data is read whole: counts, heads and bounded ranges only.
- If Redis is away the answer is a page that says so (503), never a traceback. It comes soon: a connection
  is given up after 1 s, a reply after 2 s. The rest of the admin does not touch Redis at all.
- Who may not view a page sees neither the entry nor the page: ``view_overview``, ``view_lock``, ``view_ratelimit``.
- What comes from Redis is escaped text, and never imported, unpickled or run.

Keys: none of its own. It reads those of `taskqueue`, `analytics`, `locks`, `semaphores` and `ratelimits`.

Installed with the package, in the default admin site. Another site::

    from django_redis_components.dashboard.admin import register
    register(my_admin_site)

The modules, each importing only those before it:

============  ====================================================================================
models        the anchors of permissions and of the admin's entries; no tables, no migration
clients       connections of its own, which give up early
scanning      a bounded part of the keyspace, and where to go on
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
audit         who did what, in the admin's log
lock_…        places, reading, figures, panels, verbs, views: what is held, and its release
limit_…       reading, panels, views: rate limits, the state of a key, its reset
admin         the `ModelAdmin`s, and `register`
============  ====================================================================================

See also: docs/components/dashboard.md; ``DASHBOARD`` in `core.sections` for the settings.
"""
