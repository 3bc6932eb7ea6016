"""The name for each call of a decorated function: a constant, a template over its arguments, or a function of them.

    NameTemplate("order:{order.pk}", func, "lock name").format(args, kwargs)

Attributes, items and format specifications work as in `str.format`, and default arguments are applied. Errors in a
template are raised when the function is decorated, not at its first call.

Two calls have the same name only if all fields of the template have the same text: 7 and "7" have, and None and "None".
So in a template of several fields percent signs and the first character of each text between two fields are escaped as
in URLs: "page:{owner}:{slug}" gives "page:a:b%3Ac" and "page:a%3Ab:c". Fields without a text between them, or with one
that an escape may contain, are separated by "%,". The only field of a template stays as it is.

The caller validates or hashes the name: values may contain anything.
"""

from __future__ import annotations

import functools
import inspect
import re
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.decorators import function_name, refuse_awaitable, refuse_deferred_function
from django_redis_components.core.names import validate_name

_ROOT = re.compile(r"[^.\[]*")
#: Separates two fields if the text between them does not.
_SEPARATOR = "%,"
#: First characters of a text that does not separate fields: an escape may contain them.
_IN_ESCAPES = frozenset("%0123456789ABCDEF")


class NameTemplate:
    """Makes the name for a call of a function from the arguments of the call."""

    def __init__(self, name: str | Callable[..., str], func: Callable[..., Any], what: str) -> None:
        """Validate the name against the function's parameters.

        Args:
            name: the constant, the template, or the function.
            func: the decorated function.
            what: what the name is for, in errors ("lock name").

        Raises:
            TypeError: the name is neither a string nor callable, or `func` is not callable.
            ValueError: the template is invalid, or names an argument that `func` does not have.
        """
        if not callable(func):
            raise TypeError(f"{short_repr(func)} is not a function: pass the {what} to the decorator, in parentheses.")
        self._name = name
        self._signature = inspect.signature(_unwrapped(func))
        self._is_template = False
        #: The arguments used by the template.
        self._roots: frozenset[str] = frozenset()
        #: Each field as a template, the texts before the fields and after the last one, and what is escaped in fields.
        self._fields: list[str] = []
        self._texts: list[str] = []
        self._escaped: re.Pattern[str] | None = None
        if isinstance(name, str):
            self._where = f"{what} {name!r} of {function_name(func)}()"
            self._is_template = self._check(name, what)
        elif not callable(name):
            raise TypeError(f"{what} {short_repr(name)}: expected a string, a template or a callable.")
        refuse_deferred_function(name, what)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the template, each as a separate template; none of a constant or a function."""
        return tuple(self._fields)

    def format(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Return the name for a call with these arguments, not yet validated.

        Raises:
            TypeError: the arguments do not match the function's signature.
            ValueError: the template uses an argument of ``**kwargs``, an attribute or an item that does not exist.
        """
        if not isinstance(self._name, str):
            name: Any = self._name(*args, **kwargs)
            if not isinstance(name, str):
                refuse_awaitable(name, self._name, "the name is needed before the call")
            return cast(str, name)
        if not self._is_template:
            return self._name
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        values = dict(bound.arguments)
        for parameter in self._signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                values.update(values.pop(parameter.name))
        for root in self._roots - values.keys():
            raise ValueError(f"{self._where}: this call has no argument {root!r}.")
        try:
            found = [field.format_map(values) for field in self._fields]
        except (AttributeError, LookupError, TypeError, ValueError) as exc:
            raise ValueError(f"{self._where}: {type(exc).__name__}: {str(exc).rstrip('.')}.") from exc
        if self._escaped is not None:
            found = [self._escaped.sub(_quoted, value) for value in found]
        *texts, last = self._texts
        return "".join([text + value for text, value in zip(texts, found, strict=True)]) + last

    def _check(self, template: str, what: str) -> bool:
        try:
            literals = "".join(literal for literal, *_ in string.Formatter().parse(template))
            fields = list(_fields(template))
        except ValueError as exc:
            raise ValueError(f"{self._where}: {exc}.") from None
        if literals or not fields:
            validate_name(literals, what)
        for field in fields:
            self._check_field(field)
        self._roots = frozenset(fields)
        self._compile(template)
        try:
            for each in self._fields:
                each.format_map(dict.fromkeys(fields, _ANY_VALUE))
        except ValueError as exc:
            raise ValueError(f"{self._where}: {str(exc).rstrip('.')}.") from None
        return bool(fields)

    def _compile(self, template: str) -> None:
        """Split the template into its fields and the texts around them."""
        self._texts = [""]
        for text, field, specification, conversion in string.Formatter().parse(template):
            self._texts[-1] += text
            if field is not None:
                placeholder = f"{field}!{conversion}" if conversion else field
                self._fields.append(f"{{{placeholder}:{specification}}}" if specification else f"{{{placeholder}}}")
                self._texts.append("")
        if len(self._fields) > 1:
            between = [text if text[:1] not in _IN_ESCAPES | {""} else _SEPARATOR + text for text in self._texts[1:-1]]
            self._texts[1:-1] = between
            firsts = "".join({text[0] for text in between if not text.startswith("%")})
            self._escaped = re.compile(f"[%{re.escape(firsts)}]")

    def _check_field(self, field: str) -> None:
        parameters = self._signature.parameters
        if not field or field.isdigit():
            raise ValueError(f"{self._where}: name the argument, as in {{{next(iter(parameters), 'order_id')}}}.")
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        if field not in parameters and not takes_any:
            existing = ", ".join(parameters) or "no arguments"
            raise ValueError(f"{self._where}: the function takes no argument {field!r}; it has {existing}.")


class _AnyValue:
    """An argument that has all attributes and items, and accepts each format specification."""

    def __getattr__(self, name: str) -> _AnyValue:
        return self

    def __getitem__(self, key: object) -> _AnyValue:
        return self

    def __format__(self, specification: str) -> str:
        return ""


_ANY_VALUE = _AnyValue()


def template_of(name: str | Callable[..., Any], func: Callable[..., Any], what: str) -> NameTemplate:
    """Return the template of a name, made once for a name and a function. See `NameTemplate`."""
    try:
        return _cached(name, func, what)
    except Exception:
        if _is_hashable(name):
            raise
        return NameTemplate(name, func, what)  # an object of a dataclass with `__call__`, for example


@functools.lru_cache(maxsize=2_048)
def _cached(name: str | Callable[..., Any], func: Callable[..., Any], what: str) -> NameTemplate:
    return NameTemplate(name, func, what)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except Exception:  # noqa: BLE001 - the site's own __hash__
        return False
    return True


def _unwrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    """Django's `method_decorator` passes a partial of a bound method whose ``__wrapped__`` takes ``self`` as well."""
    return functools.partial(func.func, *func.args, **func.keywords) if isinstance(func, functools.partial) else func


def _quoted(match: re.Match[str]) -> str:
    return "".join([f"%{byte:02X}" for byte in match[0].encode()])


def _fields(template: str) -> Iterator[str]:
    """Yield the arguments used by a template, including those in format specifications."""
    for _, field, specification, _ in string.Formatter().parse(template):
        if field is not None:
            root = _ROOT.match(field)
            yield root[0] if root else ""
            yield from _fields(specification or "")
