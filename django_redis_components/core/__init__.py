"""What all components share: settings, keys, the Redis client, scripts, leases.

Core imports no component. A component writes each operation once, as a generator that yields requests (`protocol`), and
the two drivers `run` and `arun` make its sync and its async method. Importing core reads no setting and opens no
connection.

Modules, by what they are for:

========================  ==========================================================================
exceptions                the root `RedisComponentsError`, and errors that need no client
exception_text            exceptions as text, whatever their class does
guarded_logger            loggers whose errors never reach the code that logs
repeated_errors           log messages about a loop that fails again and again
units, rates              durations in seconds to milliseconds, stored times to datetimes; "10/m"
names, keys               validation of names; names to Redis keys
day_ranges                the days of a range, of which a call reads 400 at most
arguments                 validation of other arguments
chunks                    items in chunks of a bounded number; names and values of a reply as pairs
serialization             JSON for arguments and return values
text                      folding of text for search
protocol                  `Call`, `Command`, `Batch`, `Sleep`, `Wait`; `run` and `arun`
replicas                  waiting until replicas have what was written
key_scan                  scans of all keys, a bounded step at a time
gather                    several flows at once, one round trip for the requests of all
slot_waits                how long a caller's requests wait for Cluster slots that are being moved
scripts                   `LuaScript`: one file for each operation
component                 the base class of named objects
settings/                 `REDIS_COMPONENTS`: see below
client/                   from an alias to the socket: see below
leasing/                  leases of locks and semaphores: see below
observability/            reports to the dashboard: see below
circuit_breaker           skipping Redis after failures
decorators                decorators that run a function inside a context manager
name_templates            names of decorated calls, as templates over their arguments
discovery                 the modules `indexes` and `tasks` of the site's apps
model_changes             following the changes of a model's objects
object_values             values of objects by the names of attributes, methods and relations
stored_formats            the number of each component's format, compared at the start of a process
rebuild                   data anew beside the live data: begin, load, swap, abandon
command_line              command lines of manage.py, as pages advise them
client_address            a visitor's address behind proxies
request_middleware        the base class of the middlewares of requests
expected_responses        responses of 503 that Django neither logs nor mails
decompression             gzip, bzip2, xz and zstd streams, block by block
regular_files             opening files that must be regular ones
polling, forks            what platforms lack: `select.poll`; callbacks after a fork
========================  ==========================================================================

Settings:

========================  ==========================================================================
conf                      the current values: read on first use, dropped when they change
sections, checks          one frozen dataclass for each section; the checks of values
lazy_values               lazy values of Django, evaluated
secrets                   passwords that neither errors nor recorded variables show
========================  ==========================================================================

The client, from the alias to the socket:

========================  ==========================================================================
connections               alias -> client, made on first use, safe after a fork
page_clients, budget      clients for what a page can omit; the time that a page waits in total
endpoint, urls, caches    where and how to connect, from a URL or from Django's `CACHES`
_async, _sync             client and pool; `_sync` is generated from `_async` (`make sync`)
topology                  which node serves a key: standalone, Sentinel, Cluster
retry                     what is sent again after an error
slot_migration            Cluster slots that are being moved
server                    the server's version; errors with the server and the setting in them
exceptions                errors of connections, which are also redis-py's
base_connection           what the two kinds of connections share: errors, the limit of a wait
transport                 connections to one node, with and without an event loop
shared_connections        the pool of requests of an event loop: few connections for all coroutines
multiplexed_connection    one of them: writes joined, replies in order
encoding                  commands as bytes
kernel_timeout            timeouts that the kernel keeps
event_loops               waits and closing on an event loop
wakeup_listener           waiting for wakeup keys with a local timer
========================  ==========================================================================

Leases, from the object to the scripts:

========================  ==========================================================================
leased, context_managers  the methods of locks and semaphores; `with` and `async with`
flows                     their operations, as flows
kind, scripted_kind       what distinguishes one kind of lease from another; the requests of a kind
scripts                   the scripts of a kind: the same Lua files, each with the kind included
owner, lease              who owns a lease, and what the owner knows about it
wait_queue                FIFO waiting
calls                     script calls, repeated by token
renewal, background       the thread that renews leases and reports lost ones
holder                    the description of a holder, for operators
operators                 the release by an operator
forced_release            the notice of it to the holder
========================  ==========================================================================

Observability:

========================  ==========================================================================
flushing                  data for the dashboard that a thread sends once a second
live_events               events for the dashboard's page Live
catalog                   the names that the site's processes use
declared_names            the names of lock and semaphore decorators in it
========================  ==========================================================================

Keys, besides those of the components:

============================  ======  =======================================================  =====================
key                           type    content                                                  TTL or owner
============================  ======  =======================================================  =====================
``drc:live:{events}``         stream  events for the page Live, the newest 1,000 about         60 s
``drc:catalog:{<kind>}``      zset    names of a kind by last use, the latest 500              90 days
``drc:format:{default}``      hash    formats of the stored data: see `stored_formats`         none
============================  ======  =======================================================  =====================
"""
