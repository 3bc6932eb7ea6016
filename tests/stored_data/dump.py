"""Keys as JSON: what each key has, by its type. A `DUMP` of the server differs from version to version."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from tests.support import Store

#: Milliseconds below which a TTL is too short for another release to see the key.
MIN_TTL_MS = 60_000

Text = str | dict[str, str]


def dump(store: Store) -> dict[str, Any]:
    """Return the keys of a prefix, without the prefix."""
    found = {}
    for key in store.raw.scan_iter(match=f"{store.prefix}:*"):
        ttl_ms = store.raw.pttl(key)
        if ttl_ms == -1 or ttl_ms >= MIN_TTL_MS:
            kind = store.raw.type(key).decode()
            value = {"type": kind, "ttl_ms": None if ttl_ms == -1 else ttl_ms, **_read(store, kind, key)}
            assert store.prefix not in str(value), f"{key!r} has a value that contains the prefix"
            found[key.decode().removeprefix(f"{store.prefix}:")] = value
    return found


def load(store: Store, keys: dict[str, Any]) -> None:
    """Write what `dump` has returned below the prefix of a store."""
    for name, value in keys.items():
        key = f"{store.prefix}:{name}"
        for command in _commands(value):
            store.raw.execute_command(command[0], key, *command[1:])
        if value["ttl_ms"] is not None:
            store.raw.pexpire(key, value["ttl_ms"])


def _read(store: Store, kind: str, key: bytes) -> dict[str, Any]:
    raw = store.raw
    if kind == "string":
        return {"value": _text(raw.get(key))}
    if kind == "list":
        return {"value": [_text(each) for each in raw.lrange(key, 0, -1)]}
    if kind == "set":
        return {"value": [_text(each) for each in sorted(raw.smembers(key))]}
    if kind == "hash":
        return {"value": [[_text(name), _text(value)] for name, value in sorted(raw.hgetall(key).items())]}
    if kind == "zset":
        return {"value": [[_text(name), repr(score)] for name, score in raw.zrange(key, 0, -1, withscores=True)]}
    assert kind == "stream", kind
    entries = [
        [entry_id.decode(), *(_text(part) for pair in fields.items() for part in pair)]
        for entry_id, fields in raw.xrange(key)
    ]
    return {"value": entries, "last_id": raw.xinfo_stream(key)["last-generated-id"].decode()}


def _commands(value: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    kind, content = value["type"], value["value"]
    if kind == "string":
        yield "SET", _bytes(content)
    elif kind == "list":
        yield "RPUSH", *map(_bytes, content)
    elif kind == "set":
        yield "SADD", *map(_bytes, content)
    elif kind == "hash":
        yield "HSET", *(_bytes(part) for pair in content for part in pair)
    elif kind == "zset":
        yield "ZADD", *(part for name, score in content for part in (score, _bytes(name)))
    else:
        for entry_id, *fields in content:
            yield "XADD", entry_id, *map(_bytes, fields)
        yield "XSETID", value["last_id"]


def _text(value: bytes) -> Text:
    """Return text as it is, and other bytes in base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["base64"])
