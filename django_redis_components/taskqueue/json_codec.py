"""JSON encoding of further types in arguments and return values, by a codec that the site chooses.

``TASKQUEUE["JSON_CODEC"]`` is the dotted path of a codec; None, the default, accepts plain JSON only. `ExtendedJSON`
encodes dates, UUIDs and decimals. Every value is decoded again before it is sent: a value whose copy is not equal, or
has another type, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol
from uuid import UUID

from django.utils.datastructures import MultiValueDict
from django.utils.module_loading import import_string

from django_redis_components.core import serialization
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf

_PLAIN = (str, int, float, bool, type(None))


class JSONCodec(Protocol):
    """A pair of functions between values and JSON."""

    def encode(self, value: Any) -> Any:
        """Return a value of another type as JSON values.

        Raises:
            TypeError: the codec does not support the type.
        """
        ...

    def decode(self, value: dict[str, Any]) -> Any:
        """Return the value that a JSON object stands for, or the object itself."""
        ...


class ExtendedJSON:
    """Encodes datetime, date, time, timedelta, UUID and Decimal as ``{"__type__": "date", "value": "2026-11-22"}``."""

    _TYPES: dict[type[Any], tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
        datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
        date: ("date", date.isoformat, date.fromisoformat),
        time: ("time", time.isoformat, time.fromisoformat),
        timedelta: (
            "timedelta",
            lambda value: [value.days, value.seconds, value.microseconds],
            lambda parts: timedelta(*parts),
        ),
        UUID: ("uuid", str, UUID),
        Decimal: ("decimal", str, Decimal),
    }
    _DECODERS = {name: decode for name, _, decode in _TYPES.values()}

    def encode(self, value: Any) -> Any:
        """See `JSONCodec.encode`."""
        if type(value) not in self._TYPES:
            raise TypeError(f"{type(value).__qualname__} is not supported.")
        name, encode, _ = self._TYPES[type(value)]
        return {"__type__": name, "value": encode(value)}

    def decode(self, value: dict[str, Any]) -> Any:
        """See `JSONCodec.decode`."""
        if value.keys() == {"__type__", "value"} and value["__type__"] in self._DECODERS:
            return self._DECODERS[value["__type__"]](value["value"])
        return value


def pack(value: Any, path: str = "") -> Any:
    """Return a copy of the value as plain JSON values.

    Args:
        path: of the value, for errors.

    Raises:
        TypeError, ValueError: the value, or one inside it, is not JSON and not supported by the site's codec, or
            would be decoded to another value.
    """
    codec_path = conf.settings().taskqueue.json_codec
    if codec_path is None:
        return serialization.normalize(value, path)
    codec, load = _load_codec(codec_path)
    plain = serialization.normalize(_encode(value, codec), path)
    if not _is_same(value, load(serialization.encode(plain, path).decode())):
        text = f"{path or 'value'} is {short_repr(value)}"
        raise ValueError(f"{text}: the codec in JSON_CODEC does not decode it to an equal value.")
    return plain


def check_codec() -> None:
    """Raise ConfigurationError if the site's codec cannot be used."""
    if (path := conf.settings().taskqueue.json_codec) is not None:
        _load_codec(path)


def unpack(data: bytes) -> Any:
    """Return the value of encoded data."""
    codec_path = conf.settings().taskqueue.json_codec
    return serialization.decode(data) if codec_path is None else _load_codec(codec_path)[1](data.decode())


@lru_cache(maxsize=8)
def _load_codec(path: str) -> tuple[JSONCodec, Callable[[str], Any]]:
    """Return the codec of a dotted path, and a JSON decoder that uses it.

    Raises:
        ConfigurationError: it cannot be imported, or is no codec.
    """
    setting = f'REDIS_COMPONENTS["TASKQUEUE"]["JSON_CODEC"]: {path!r}'
    try:
        found = import_string(path)
        codec: JSONCodec = found() if isinstance(found, type) else found
    except Exception as exc:
        raise ConfigurationError(f"{setting} cannot be imported: {exc}") from exc
    if not all(callable(getattr(codec, name, None)) for name in ("encode", "decode")):
        raise ConfigurationError(f"{setting} is {short_repr(codec)}: expected an object with encode() and decode().")
    return codec, json.JSONDecoder(object_hook=codec.decode).decode


def _encode(value: Any, codec: JSONCodec, depth: int = 0) -> Any:
    """Encode values of other types; what the codec does not support is left to `serialization.normalize`."""
    if isinstance(value, (*_PLAIN, MultiValueDict)) or depth > serialization.MAX_DEPTH:
        return value
    if isinstance(value, list | tuple):
        return [_encode(item, codec, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: _encode(item, codec, depth + 1) for key, item in value.items()}
    try:
        return codec.encode(value)
    except TypeError:
        return value


def _is_same(value: Any, decoded: Any) -> bool:
    """Whether the decoded value is equal and has the same type; tuples are decoded as lists."""
    if isinstance(value, list | tuple):
        return (
            isinstance(decoded, list)
            and len(value) == len(decoded)
            and all(_is_same(*pair) for pair in zip(value, decoded, strict=True))
        )
    if isinstance(value, dict):
        return (
            isinstance(decoded, dict)
            and value.keys() == decoded.keys()
            and all(_is_same(item, decoded[key]) for key, item in value.items())
        )
    is_type_kept = isinstance(decoded, _PLAIN) if isinstance(value, _PLAIN) else type(value) is type(decoded)
    try:
        return is_type_kept and bool(value == decoded)
    except Exception:  # noqa: BLE001 - a signaling NaN, or the site's own __eq__
        return False
