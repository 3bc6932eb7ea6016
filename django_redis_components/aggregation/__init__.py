"""Aggregation: counts of log lines by day and place, or any other key.

Guarantees:

- A line of a log file is counted once: a batch of lines is added to its days and marked as counted in one step. A
  process that is killed loses nothing, and several may count one file.
- A log file is recognized by its content and inode after it was renamed, copied or compressed.
- A file of which most of the first lines are no requests, or lack the address that the key needs, is not marked as
  counted: the format may be wrong.
- Counts of two key functions are not mixed under one name.

Keys:

==========================================  ======  ==========================================================
``drc:aggregation:{<name>}:log:day:…``      zset    key to requests, "" is the sum; TTL ``AGGREGATION["TTL"]``
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

See also: docs/components/aggregation.md, docs/components/geoip.md; ``AGGREGATION`` in `core.settings.sections` for the
settings.
"""

from __future__ import annotations

from django_redis_components.aggregation.aggregator import OTHER, FileState, LogAggregator
from django_redis_components.aggregation.batches import PlaceKey
from django_redis_components.aggregation.counting import FileReport
from django_redis_components.aggregation.exceptions import (
    AggregationError,
    KeyMismatch,
    LogFileChanged,
    NoRangesLoaded,
)
from django_redis_components.aggregation.log_entry import LogEntry
from django_redis_components.aggregation.log_lines import LOG_FORMATS, parse_line

__all__ = [
    "LOG_FORMATS",
    "OTHER",
    "AggregationError",
    "FileReport",
    "FileState",
    "KeyMismatch",
    "LogAggregator",
    "LogEntry",
    "LogFileChanged",
    "NoRangesLoaded",
    "PlaceKey",
    "parse_line",
]
