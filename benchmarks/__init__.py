"""Measurements beside the tools that sites use today, all in one run on one machine. Ratios, not promises.

    python -m benchmarks                   # the task queue beside its peers; writes benchmarks/RESULTS.md
    python -m benchmarks --quick           # the same with small sizes, to see that everything works
    python -m benchmarks.guard             # is this code as fast as stored? a minute, without peers; exit code 1: no
    python -m benchmarks.locks             # locks and semaphores beside redis-py and python-redis-lock
    python -m benchmarks.dead_waiters      # waiting behind waiters that were killed or hang
    python -m benchmarks.ratelimits        # rate limits beside throttled-py and limits
    python -m benchmarks.client_path       # what our client adds to a round trip
    python -m benchmarks.expiry_peak       # how the ends of 5,000 cached keys are spread

The first run creates a virtual environment with the peers in ``.data/bench``; see ``environment``.
"""
