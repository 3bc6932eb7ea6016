"""Redis building blocks for Django, and a dashboard for them in the admin.

Add ``"django_redis_components"`` to ``INSTALLED_APPS``, set ``REDIS_COMPONENTS``, and import from a component. This
module imports nothing.

Components import only those of lower layers, and none of their own layer:

======================  =====  ============================================================================
``core``                0      settings, keys, connections, scripts, the protocol of every operation
``locks``               1      locks with leases and fencing tokens, for several names, for readers and writers
``semaphores``          1      at most n holders at once, on the server's clock
``ratelimits``          1      requests per visitor and period; views, middleware
``bloom``               1      whether an item was seen before, in about 10 bits an item
``analytics``           1      page views, unique visitors, sign-ins, events, rankings
``search``              1      ranked search in documents
``files``               1      files for several consumers, in chunks
``geoip``               1      country, region and city of an IP address
``transactions``        2      optimistic transactions on keys
``expiry``              2      cached values, computed by one caller at a time; a cache with jittered TTLs
``autocomplete``        2      recent choices, prefix index, view, template tag, form fields
``aggregation``         2      log files counted by day and place
``messaging``           2      mailboxes, chats, broadcasts
``taskqueue``           2      tasks, workers, schedules, flows
``dashboard``           3      the operations pages in the admin
``testing``             3      tasks in the tests of a site
``contrib``             4      Django's Tasks framework, Django REST framework, Prometheus, OpenTelemetry
======================  =====  ============================================================================
"""

__version__ = "0.1.0"
