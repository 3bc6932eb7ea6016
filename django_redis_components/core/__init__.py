"""What all components share: settings, keys, the Redis client, scripts, leases.

Core imports no component. A component writes each operation once, as a generator that yields requests (`protocol`), and
the two drivers `run` and `arun` make its sync and its async method. Importing core reads no setting and opens no
connection.

==================  ================================================================================
exceptions          the root `RedisComponentsError`, and errors that need no client
units, rates        durations in seconds to milliseconds; rates such as "10/m"
names, keys         validation of names; names to keys
arguments           validation of other arguments
conf, sections      `REDIS_COMPONENTS`: one frozen dataclass per section
text                folding of text for search
serialization       JSON for arguments and return values
protocol            `Call`, `Command`, `Batch`, `Sleep`, `Wait`; `run` and `arun`
scripts             `LuaScript`: one file per operation
component           the base class of named objects
client/             see below
leasing/            leases, FIFO waiting and renewal for locks and semaphores
decorators          decorators that run a function inside a context manager
name_templates      names of decorated calls, as templates over their arguments
registry            the names that decorators use, for the dashboard
discovery           the modules `indexes` and `tasks` of the site's apps
circuit_breaker     skipping Redis after failures
outage_log          log messages about an outage
flushing            data for the dashboard that a thread sends once a second
live_events         events for the dashboard's page Live
catalog             the names that the site's processes use
client_address      a visitor's address behind proxies
failpoints          named points at which crash tests end the process
==================  ================================================================================

The client, from the alias to the socket:

==================  ================================================================================
connections         alias -> client, made on first use, safe after a fork
endpoint            where and how to connect; made by `urls` and `caches`
_async, _sync       client and pool; `_sync` is generated from `_async` (`make sync`)
topology            which node serves a key: standalone, Sentinel, Cluster
exceptions          errors of connections, which are also redis-py's
retry               what is sent again after an error
slot_migration      Cluster slots that are being moved
server              the server's version
transport           sockets, encoding of commands
wakeup_listener     waiting for wakeup keys with a local timer
==================  ================================================================================

Keys, besides those of the components:

============================  ======  =======================================================  =====================
key                           type    content                                                  TTL or owner
============================  ======  =======================================================  =====================
``drc:live:{events}``         stream  events for the page Live, the newest 1,000 about         60 s
``drc:catalog:{<kind>}``      zset    names of a kind by last use, the latest 500             90 days
============================  ======  =======================================================  =====================
"""
