"""What all components share: settings, keys, the Redis client, scripts, leases.

Core imports no component. A component writes each operation once, as a generator that yields requests (`protocol`), and
the two drivers `run` and `arun` make its sync and its async method. Importing core reads no setting and opens no
connection.

Modules, by what they are for:

========================  ===================================================================
The client, from the alias to the socket:

========================  ==========================================================================
connections               alias -> client, made on first use, safe after a fork
page_clients, budget      clients for what a page can omit; the time that a page waits in total
endpoint, urls, caches    where and how to connect, from a URL or from Django's `CACHES`
_async, _sync             client and pool; `_sync` is generated from `_async` (`make sync`)
topology                  which node serves a key: standalone, Sentinel, Cluster
retry                     what is sent again after an error
slot_migration            Cluster slots that are being moved
server                    the server's version
exceptions                errors of connections, which are also redis-py's
transport                 connections to one node, with and without an event loop
encoding                  commands as bytes
kernel_timeout            timeouts that the kernel keeps
event_loops               waits and closing on an event loop
wakeup_listener           waiting for wakeup keys with a local timer
========================  ==========================================================================

Leases, from the object to the scripts:

========================  ==========================================================================
leased, context_managers  the methods of locks and semaphores; `with` and `async with`
flows                     their operations, as flows
owner, lease              who owns a lease, and what the owner knows about it
wait_queue                FIFO waiting
calls                     script calls, repeated by token
renewal, background       the thread that renews leases and reports lost ones
holder                    the description of a holder, for operators
forced_release            the release by an operator
========================  ==========================================================================

Keys, besides those of the components:

============================  ======  =======================================================  =====================
key                           type    content                                                  TTL or owner
============================  ======  =======================================================  =====================
``drc:live:{events}``         stream  events for the page Live, the newest 1,000 about         60 s
``drc:catalog:{<kind>}``      zset    names of a kind by last use, the latest 500             90 days
============================  ======  =======================================================  =====================
"""
