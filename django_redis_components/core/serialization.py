"""Arguments and return values are JSON and nothing else, and a refusal names the place.

Tuples become lists. Dict keys must be strings; NaN and infinities are refused, because other JSON
readers refuse them.
"""

from __future__ import annotations

import json
import math
from typing import Any

from django.utils.datastructures import MultiValueDict

_SCALARS = (str, int, bool, type(None))
_LISTS = (list, tuple)
#: Types of which a value is carried as it is. Most values are of these, so they are looked for first.
_PLAIN = frozenset(_SCALARS)
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
#: What `JSONEncoder.encode` makes anew at each call, and which takes half of the time of a short one. Not in PyPy.
_make = getattr(json.encoder, "c_make_encoder", None)
_chunks = (
    _make(None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    if _make
    else None
)
_dump_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False, check_circular=False).encode
_load = json.JSONDecoder().decode
#: Deepest nesting of lists and dicts that is carried.
MAX_DEPTH = 100


def normalise(value: Any, path: str = "", depth: int = 0) -> Any:
    """A copy of the value as JSON will give it back.

    Args:
        path: where the value stands, for the error: ``args[0]["when"]``.

    Raises:
        TypeError: the value, or one inside it, is not JSON, or would lose something; the message names the path and
            the type.
        ValueError: NaN, an infinity, or nested too deep (a cycle, perhaps).
    """
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise ValueError(f"{path or 'value'} is {value!r}: JSON has no NaN and no infinities.")
    if depth >= MAX_DEPTH:
        raise ValueError(f"{path[:80]}… is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, _LISTS):
        return [
            item if type(item) in _PLAIN else normalise(item, f"{path}[{index}]", depth + 1)
            for index, item in enumerate(value)
        ]
    if isinstance(value, dict):
        if isinstance(value, MultiValueDict):
            raise several_values(value, path)
        return {
            _key(key, path): item if type(item) in _PLAIN else normalise(item, f"{path}[{key!r}]", depth + 1)
            for key, item in value.items()
        }
    raise TypeError(
        f"{path or 'value'} is a {type(value).__module__}.{type(value).__qualname__}: expected JSON"
        " (str, int, float, bool, None, and lists and dicts of these). Send an id or a string instead."
    )


def several_values(value: MultiValueDict[Any, Any], path: str) -> TypeError:
    """The error for a form's data: of the values of a name all but the last would be lost on the way."""
    return TypeError(
        f"{path or 'value'} is a {type(value).__name__}, of which only the last value of each name would arrive."
        " Send value.dict() if that is meant, or dict(value.lists()) for all values."
    )


def encode(value: Any) -> bytes:
    """Normalised data as compact UTF-8; lone surrogates are escaped."""
    try:
        return ("".join(_chunks(value, 0)) if _chunks else _encoder.encode(value)).encode()
    except UnicodeEncodeError:
        return _dump_ascii(value).encode()


def decode(data: bytes) -> Any:
    """The data again."""
    return _load(data.decode())


def _key(key: Any, path: str) -> str:
    if isinstance(key, str):
        return key
    raise TypeError(f"{path or 'value'} has the key {key!r}: JSON objects have strings as keys.")
