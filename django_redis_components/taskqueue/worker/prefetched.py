"""Leases whose task has not begun, in memory that a worker process shares with its supervisor.

A process that is killed says nothing more, but what it wrote here stays: the supervisor reads which of
its tasks had only been fetched, and hands them back. They had no part in its death. It also reads how many
tasks were running: a process that died without one could not work at all.
"""

from __future__ import annotations

import itertools
import mmap
import struct
import threading

#: Leases that are noted at most. One more is taken for begun: a death counts for it, and it is brought back later.
SLOTS = 2_048
#: Bytes of a slot: two of length, then number, task id and token. A longer entry is not noted.
SLOT_BYTES = 256
_HEAD = 2
#: How many tasks run, and where that stands: behind the slots.
_COUNT, _COUNT_AT = struct.Struct("=I"), SLOTS * SLOT_BYTES


class Unbegun:
    """The shared notes: written by the threads of one process, read by another when that has ended.

    Make it before the process is forked. An entry's length is written last, so a half-written one is none.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNT_AT + _COUNT.size)
        self._free = list(range(SLOTS))  # the slot that was freed last is used next: few pages are touched
        self._slots: dict[tuple[str, str], int] = {}
        self._numbers = itertools.count()
        self._running = 0
        self._counting = threading.Lock()

    def add(self, task_id: str, token: str) -> None:
        """Note a lease. They are read in the order in which they were noted."""
        entry = f"{next(self._numbers)} {task_id} {token}".encode()
        if len(entry) > SLOT_BYTES - _HEAD:
            return
        try:
            slot = self._free.pop()
        except IndexError:
            return
        at = slot * SLOT_BYTES
        self._memory[at + _HEAD : at + _HEAD + len(entry)] = entry
        self._memory[at : at + _HEAD] = len(entry).to_bytes(_HEAD, "big")
        self._slots[task_id, token] = slot

    def discard(self, task_id: str, token: str) -> None:
        """The task begins, or the lease has ended."""
        slot = self._slots.pop((task_id, token), None)
        if slot is not None:
            self._memory[slot * SLOT_BYTES : slot * SLOT_BYTES + _HEAD] = bytes(_HEAD)
            self._free.append(slot)

    def count_running(self, change: int) -> None:
        """Note that a task begins (1), or has ended (-1)."""
        with self._counting:
            self._running += change
            _COUNT.pack_into(self._memory, _COUNT_AT, self._running)

    def running(self) -> int:
        """Tasks that run, or ran when the process died."""
        count: int = _COUNT.unpack_from(self._memory, _COUNT_AT)[0]
        return count

    def read(self) -> list[tuple[str, str]]:
        """Task id and token of each, the oldest first."""
        found = []
        for at in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES):
            length = int.from_bytes(self._memory[at : at + _HEAD], "big")
            if length:
                number, task_id, token = self._memory[at + _HEAD : at + _HEAD + length].decode().split(" ")
                found.append((int(number), task_id, token))
        return [(task_id, token) for _, task_id, token in sorted(found)]
