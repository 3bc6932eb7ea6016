"""Write a database of places in the format MaxMind DB 2.0, for tests: https://maxmind.github.io/MaxMind-DB/."""

from __future__ import annotations

import struct
from ipaddress import ip_network
from pathlib import Path
from typing import Any

#: Bytes between the search tree and the data, and before the metadata.
SEPARATOR, MARKER = b"\0" * 16, b"\xab\xcd\xefMaxMind.com"

#: Types of integers, and the fields of the metadata that are not of the shortest one.
UINT16, UINT32, UINT64 = 5, 6, 9
KINDS = {"node_count": UINT32, "build_epoch": UINT64}


def write_mmdb(path: Path, records: dict[str, Any]) -> Path:
    """Write a database of IPv6 with records of 32 bits. IPv4 networks are below ``::/96``.

    Args:
        records: data by network; networks do not contain each other.
    """
    nodes: list[list[Any]] = [[None, None]]
    data, offsets = b"", []
    for network, record in records.items():
        offsets.append(len(data))
        data += encode(record)
        _insert(nodes, network, -len(offsets))
    tree = b"".join(struct.pack(">II", *(_value(side, len(nodes), offsets) for side in node)) for node in nodes)
    metadata = {
        "node_count": len(nodes), "record_size": 32, "ip_version": 6, "database_type": "Test-City",
        "languages": ["en"], "binary_format_major_version": 2, "binary_format_minor_version": 0,
        "build_epoch": 1_700_000_000, "description": {"en": "synthetic"},
    }  # fmt: skip
    path.write_bytes(tree + SEPARATOR + data + MARKER + encode(metadata))
    return path


def _insert(nodes: list[list[Any]], network: str, leaf: int) -> None:
    parsed = ip_network(network)
    is_ipv4 = parsed.version == 4
    number, length = int(parsed.network_address), parsed.prefixlen + 96 * is_ipv4
    bits = [number >> (127 - at) & 1 for at in range(length)]
    node = 0
    for bit in bits[:-1]:
        if nodes[node][bit] is None:
            nodes.append([None, None])
            nodes[node][bit] = len(nodes) - 1
        node = nodes[node][bit]
    nodes[node][bits[-1]] = leaf


def _value(side: int | None, count: int, offsets: list[int]) -> int:
    if side is None:
        return count  # not found
    return count + len(SEPARATOR) + offsets[-side - 1] if side < 0 else side


def encode(value: Any, kind: int = UINT16) -> bytes:
    """Return a value of the data section: text, unsigned integers of a kind, dicts and lists."""
    if isinstance(value, str):
        data = value.encode()
        return _head(2, len(data)) + data
    if isinstance(value, dict):
        return _head(7, len(value)) + b"".join(
            encode(key) + encode(each, KINDS.get(key, UINT16)) for key, each in value.items()
        )
    if isinstance(value, list):
        return _head(11, len(value)) + b"".join(map(encode, value))
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return _head(kind, len(data)) + data


def _head(kind: int, size: int) -> bytes:
    assert size < 29 + 256
    low, more = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return (bytes([kind << 5 | low]) if kind < 8 else bytes([low, kind - 7])) + more
