"""Application components on Redis for Django, and a dashboard for them in the admin.

One line in ``INSTALLED_APPS``, one dict in the settings (``REDIS_COMPONENTS``), then import from the room
that you need. This module imports nothing.

The rooms, from the ground up (imports go down only; rooms of one floor never import each other):

======================  =====  ============================================================================
``core``                0      settings, keys, connections, scripts, the protocol of every operation
``locks``               1      a lock with a token, an expiry and a fencing token
``semaphores``          1      at most n holders at once, on the server's clock
``ratelimits``          1      requests per visitor and period; views, middleware
``analytics``           1      page views, unique visitors, sign-ins
``autocomplete``        2      recent choices, prefix index, view, template tag and form widget
``taskqueue``           2      tasks, delayed tasks, worker, poller
``contrib``             3      backend for Django's own Tasks framework
``dashboard``           3      the operations pages in the admin
======================  =====  ============================================================================
"""

__version__ = "0.1.0"
