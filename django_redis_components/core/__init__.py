"""The ground floor: settings, keys, connections, scripts and the protocol every room speaks.

Nothing here knows a room. A room writes each operation once, as a generator that yields what it
wants from Redis (`protocol`), and gets its synchronous and its asynchronous method from the two
drivers. Importing this package reads no setting and opens no connection.

Modules, each importing only those before it:

==============  ====================================================================================
exceptions      one root, `RedisComponentsError`
units           seconds and timedeltas to milliseconds, once
conf            `REDIS_COMPONENTS`: one frozen dataclass per section
keys            the only place a key or a name is made
text            folding of text for autocomplete and search
protocol        `Call`, `Command`, `Batch`, `Sleep`, `Wait`; `run()` and `arun()`
scripts         `LuaScript`: one file, one operation, called by name
endpoints       what a connection setting points at, and how to connect to it
urls, caches    a URL, or a cache of `CACHES`, to its endpoint
topology        which node holds a key: standalone, Sentinel, Cluster
recovery        what is sent again after an error, and what never is
wires           commands to bytes
links, alinks   held connections, synchronous and asyncio
clients         a client over links, topology and recovery
connections     alias -> client, built on first use, safe over fork
waiting         a bell that is waited for with a local timer
leases          what a holder knows of its leases
wait_queue      FIFO waiting and leases of locks and semaphores; blocking: a blocking command that outlasts a wait
callnames       names of decorated calls, as templates over their arguments
guards          decorating a function with what is entered before it
==============  ====================================================================================
"""
