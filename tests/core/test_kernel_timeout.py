"""Timeouts of sockets that the kernel keeps."""

from __future__ import annotations

import socket
import ssl
import sys

import pytest

from django_redis_components.core.client.kernel_timeout import set_kernel_timeout

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the timeouts are Linux's")


def test_read_and_write_end_after_the_timeout() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert set_kernel_timeout(here, 0.02)
        here.settimeout(None)

        with pytest.raises(BlockingIOError):
            here.recv(1)
        with pytest.raises(BlockingIOError):
            here.sendall(b"x" * 8_388_608)
        there.send(b"y")
        assert here.recv(1) == b"y"


def test_socket_of_tls_keeps_the_timeout_of_python() -> None:
    context = ssl.create_default_context()
    with (
        socket.socket() as plain,
        context.wrap_socket(plain, server_hostname="x", do_handshake_on_connect=False) as tls,
    ):
        assert not set_kernel_timeout(tls, 0.02)
