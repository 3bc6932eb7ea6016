"""Timeouts of sockets that the kernel keeps: Python's own cost a call of `poll` before each read and write."""

from __future__ import annotations

import socket
import struct
import sys
from typing import Any


def set_kernel_timeout(sock: Any, seconds: float) -> bool:
    """Have the kernel limit each read and write; they raise BlockingIOError then.

    Returns:
        Whether it does: not for sockets of TLS or of other libraries, and on Linux only.
    """
    if type(sock) is not socket.socket or not sys.platform.startswith("linux"):
        return False
    timeval = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, timeval)
    return True
