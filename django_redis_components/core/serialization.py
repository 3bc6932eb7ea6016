"""JSON serialization of arguments and return values. Errors name the path of the value.

Tuples become lists; named tuples are rejected, because their names would be lost. Dict keys must be strings. NaN and
infinities are rejected, because they are not JSON.
"""

from __future__ import annotations

import inspect
import json
import math
from typing import Any

from django.utils.datastructures import MultiValueDict

from django_redis_components.core.arguments import short_repr

_SCALARS = (str, int, bool, type(None))
_LISTS = (list, tuple)
#: Types that need no conversion. Most values have one of these, so they are checked first.
_PLAIN = frozenset(_SCALARS)
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, check_circular=False)
#: `JSONEncoder.encode` makes this for each call, which is half of the time of a short one. PyPy does not have it.
_make = getattr(json.encoder, "c_make_encoder", None)
_chunks = (
    _make(None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    if _make
    else None
)
_dump_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False, check_circular=False).encode
_load = json.JSONDecoder().decode
#: What `_load` calls between two searches for whitespace, which take twice as long as a short text.
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
#: The deepest nesting of lists and dicts.
MAX_DEPTH = 100


def normalize(value: Any, path: str = "", depth: int = 0) -> Any:
    """Return a copy of the value as decoding its JSON would return it.

    Args:
        path: the path of the value, for errors: ``args[0]["when"]``.

    Raises:
        TypeError: the value, or one inside it, is not JSON or would lose data; the message names path and type.
        ValueError: NaN, an infinity, or nested too deeply (perhaps a cycle).
    """
    kind = type(value)  # `isinstance` takes a lazy object for what it stands for, and the encoder does not
    is_plain_list = kind is tuple or kind is list  # first: most calls, since the scalars in them need none
    if not is_plain_list and _is_scalar(value, kind, path):
        return value
    if depth >= MAX_DEPTH:
        raise ValueError(f"{path[:80]}… is nested deeper than {MAX_DEPTH} levels.")
    if is_plain_list or isinstance(value, _LISTS):
        if not is_plain_list and hasattr(kind, "_fields"):
            raise _named_tuple(kind, path)
        return [
            item if type(item) in _PLAIN else normalize(item, f"{path}[{index}]", depth + 1)
            for index, item in enumerate(value)
        ]
    if isinstance(value, dict):
        if isinstance(value, MultiValueDict):
            raise several_values(value, path)
        return {
            _key(key, path): item if type(item) in _PLAIN else normalize(item, f"{path}[{short_repr(key)}]", depth + 1)
            for key, item in value.items()
        }
    if inspect.iscoroutine(value) or inspect.isasyncgen(value) or inspect.isgenerator(value):
        raise _has_not_run(value, path)
    verb = "Return" if path.startswith("the return value") else "Send"
    raise TypeError(
        f"{path or 'value'} is a {kind.__module__}.{kind.__qualname__}: expected JSON"
        f" (str, int, float, bool, None, and lists and dicts of these). {verb} an id or a string instead."
    )


def _is_scalar(value: Any, kind: type[Any], path: str) -> bool:
    """Return whether a value needs no conversion. Raises ValueError for NaN and infinities."""
    if issubclass(kind, _SCALARS):
        return True
    if not issubclass(kind, float):
        return False
    if math.isfinite(value):
        return True
    raise ValueError(f"{path or 'value'} is {value!r}: JSON has no NaN and no infinities.")


def _named_tuple(kind: type[Any], path: str) -> TypeError:
    """Return the error for a named tuple: as a list it would have lost the names that the receiver reads."""
    return TypeError(
        f"{path or 'value'} is a {kind.__module__}.{kind.__qualname__}, a named tuple: it would arrive as a list."
        " Send value._asdict() or list(value)."
    )


def _has_not_run(value: Any, path: str) -> TypeError:
    """Return the error for what a call of an async or generator function returns, and close it."""
    kind = "a coroutine" if inspect.iscoroutine(value) else "a generator"
    text = f"{path or 'value'} is {kind}, so {value.__qualname__}() has not run"
    if not inspect.iscoroutine(value):
        return TypeError(f"{text} to its end. Expected JSON: collect its items in a list.")
    value.close()  # else Python warns that it was never awaited
    return TypeError(
        f"{text}: nothing has awaited it. A decorator of an async function must itself be an async function, or pass"
        " inspect.iscoroutinefunction() (see inspect.markcoroutinefunction)."
    )


def several_values(value: MultiValueDict[Any, Any], path: str) -> TypeError:
    """Return the error for form data: only the last value of each name would be sent."""
    return TypeError(
        f"{path or 'value'} is a {type(value).__name__}, of which only the last value of each name would be sent."
        " Pass value.dict() for that, or dict(value.lists()) for all values."
    )


def encode(value: Any, *paths: str) -> bytes:
    """Return normalized data as compact JSON in UTF-8. Lone surrogates are escaped.

    Args:
        paths: of the value, for errors; several: of its items.

    Raises:
        ValueError: an integer has more digits than Python converts.
    """
    try:
        return ("".join(_chunks(value, 0)) if _chunks else _encoder.encode(value)).encode()
    except UnicodeEncodeError:
        return _dump_ascii(value).encode()
    except ValueError as exc:  # Python converts integers of 4,300 digits at most
        items = zip(paths, value, strict=False) if len(paths) > 1 else [("".join(paths), value)]
        found = next(filter(None, (_unconvertible(item, path) for path, item in items)), "")
        found = found or "an integer in the value"
        raise ValueError(f"{found} has too many digits: send it as a string.") from exc


def _unconvertible(value: Any, path: str) -> str:
    """Return path and size of an integer that Python does not convert to text; "" without one."""
    if isinstance(value, int):
        shown = short_repr(value)
        return f"{path or 'value'}, {shown}," if shown.startswith("an integer") else ""
    items = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    return next(filter(None, (_unconvertible(item, f"{path}[{short_repr(key)}]") for key, item in items)), "")


def decode(data: bytes) -> Any:
    """Return the data of a JSON text."""
    text = data.decode()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        return _load(text)
    return value if end == len(text) else _load(text)


def _key(key: Any, path: str) -> str:
    if isinstance(key, str) and issubclass(type(key), str):
        return key
    raise TypeError(f"{path or 'value'} has the key {short_repr(key)}: JSON objects have strings as keys.")
