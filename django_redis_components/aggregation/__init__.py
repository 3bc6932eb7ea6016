"""Aggregation: the places of IP addresses, and counts of log lines by day and place, or any other key.

Guarantees:

- An address in no range, a private one and text that is no address have the unknown place, country "ZZ". Nothing is
  resolved by DNS.
- A line of a log file is counted once: a batch of lines is added to its days and marked as counted in one step. A
  process that is killed loses nothing, and several may count one file.
- A log file is recognized by its content and inode after it was renamed, copied or compressed.
- A file of which most of the first lines are no requests, or lack the address that the key needs, is not marked as
  counted: the format may be wrong.
- Counts of two key functions are not mixed under one name.
- Ranges are replaced in one step: a look-up sees all ranges of the former load or all of the new one. A load without
  ranges is refused.

Keys:

==========================================  ======  ==========================================================
``<prefix>:aggregation:{<name>}:ip``        hash    the loaded ranges: generation, numbers, source; no TTL
``…:ip:<generation>``                       zset    blocks of 64 ranges; no TTL once they are in use, 15
                                                    minutes while they are loaded, or after they were replaced
``…:log:day:<yyyymmdd>``                    zset    key to requests, "" is the sum; TTL ``AGGREGATION["TTL"]``
                                                    from each write, like the following ones
``…:log:days``                              zset    the days
``…:log:key``                               string  name of the key function
``…:log:file:<file>``                       hash    marks of the segments of a file, its first lines and its name
``…:log:first:<hash>``                      zset    the latest 16 files with this first line
``…:log:files``                             zset    files by the time at which they were counted last
==========================================  ======  ==========================================================

Example::

    from datetime import date
    from pathlib import Path
    from tempfile import mkdtemp

    from django_redis_components.aggregation import LogAggregator

    log = Path(mkdtemp(), "access.log")
    log.write_text('8.8.8.8 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326\\n')
    visits = LogAggregator("visits", key=lambda entry: entry.path)
    print(visits.add_file(log).lines, visits.add_file(log).lines)
    print(visits.totals(date(2026, 10, 10)))

Example::

    from django_redis_components.aggregation import IpLookup, IpRange, Place

    places = IpLookup("example", source="ranges")
    places.load([IpRange("8.8.8.0", "8.8.8.255", Place("US", "California", "Mountain View"))])
    assert places.lookup("8.8.8.8").country == "US"
    assert places.lookup("192.168.0.1").country == "ZZ"

See also: docs/components/aggregation.md; ``AGGREGATION`` in `core.sections` for the settings.
"""

from __future__ import annotations

from django_redis_components.aggregation.aggregator import OTHER, FileState, LogAggregator
from django_redis_components.aggregation.batches import PlaceKey
from django_redis_components.aggregation.blocks import IpRange
from django_redis_components.aggregation.counting import FileReport
from django_redis_components.aggregation.country import country_of
from django_redis_components.aggregation.exceptions import (
    AggregationError,
    DatabaseUnavailable,
    InvalidRange,
    KeyMismatch,
    LogFileChanged,
    NoRangesLoaded,
    RangesLoadExpired,
)
from django_redis_components.aggregation.ip_lookup import IpLookup, RangesInfo
from django_redis_components.aggregation.log_lines import LOG_FORMATS, LogEntry, parse_line
from django_redis_components.aggregation.places import UNKNOWN, Place

__all__ = [
    "LOG_FORMATS",
    "OTHER",
    "UNKNOWN",
    "AggregationError",
    "DatabaseUnavailable",
    "FileReport",
    "FileState",
    "InvalidRange",
    "IpLookup",
    "IpRange",
    "KeyMismatch",
    "LogAggregator",
    "LogEntry",
    "LogFileChanged",
    "NoRangesLoaded",
    "Place",
    "PlaceKey",
    "RangesInfo",
    "RangesLoadExpired",
    "country_of",
    "parse_line",
]
