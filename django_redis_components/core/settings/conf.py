"""The setting `REDIS_COMPONENTS`: read and validated on first use, and again after it changes.

Each section is a frozen dataclass; its fields have their own checks (`sections`). The key in the dict is the name of
the field in upper case, without a trailing ``_s``.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from django.conf import settings as django_settings
from django.core.signals import setting_changed

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import sections
from django_redis_components.core.settings.checks import line, text
from django_redis_components.core.settings.lazy_values import evaluated
from django_redis_components.core.settings.secrets import Hidden, mask_credentials

#: Name of the Django setting.
SETTING = "REDIS_COMPONENTS"

_S = TypeVar("_S")
_current: sections.Settings | None = None
_on_change: list[Callable[[], None]] = []


class _Errors(list[str]):
    """Validation errors. With `strict`, also those that do not prevent the site from starting."""

    def __init__(self, *, strict: bool) -> None:
        super().__init__()
        self.strict = strict


def settings() -> sections.Settings:
    """Return the validated settings.

    Raises:
        ConfigurationError: the first error found: setting, value and what is accepted.
    """
    global _current
    if _current is None:
        errors = _Errors(strict=False)
        found = _build(errors)
        if errors:
            raise ConfigurationError(errors[0])
        _current = found
    return _current


def validation_errors() -> list[str]:
    """Return all errors in the setting.

    This includes errors that only affect the code that uses the value, such as braces in the name of a site.
    """
    found = _Errors(strict=True)
    _build(found)
    return list(found)


def on_change(callback: Callable[[], None]) -> None:
    """Register a function that is called when `REDIS_COMPONENTS` or `CACHES` changes, as in tests."""
    _on_change.append(callback)


def key_of(field: dataclasses.Field[Any]) -> str:
    """Return the dict's key for a field: ``SOCKET_TIMEOUT`` for ``socket_timeout_s``."""
    return field.name.removesuffix("_s").upper()


def _build(errors: _Errors) -> sections.Settings:
    given = getattr(django_settings, SETTING, {})
    if not isinstance(given, Mapping):
        errors.append(_error(SETTING, _without_content(given), "a dict"))
        return sections.Settings()
    return _section(sections.Settings, given, SETTING, errors)


def _section(kind: type[_S], configured: Mapping[str, Any], path: str, errors: _Errors) -> _S:
    fields = {key_of(field): field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    errors.extend(_unknown(configured, list(fields), path))
    values = {}
    for name, field in fields.items():
        if name in configured:
            values[field.name] = _value(field, configured[name], f'{path}["{name}"]', errors)
    return kind(**values)


def _value(field: dataclasses.Field[Any], value: Any, path: str, errors: _Errors) -> Any:
    value = evaluated(value)
    for kind, build in (("section", _section), ("table", _table)):
        if kind in field.metadata:
            if isinstance(value, Mapping):
                return build(field.metadata[kind], value, path, errors)
            if _has_secret(field.metadata[kind]):
                value = _without_content(value, is_section=kind == "section")
            errors.append(_error(path, value, "a dict"))
            return _default(field)
    problem = field.metadata["check"](value) or (errors.strict and field.metadata["strict"](value))
    if problem:
        errors.append(_error(path, Hidden(value) if field.metadata.get("is_secret") else value, problem))
        return _default(field)
    convert = field.metadata["convert"]
    return value if convert is None or value is None else convert(value)


def _has_secret(kind: type[Any]) -> bool:
    return any(field.metadata.get("is_secret") for field in dataclasses.fields(kind))


def _without_content(value: Any, *, is_section: bool = False) -> Any:
    """Return what is in the place of a dict with secrets, for an error: it may have what belongs into the dict.

    Text is usually the URL of a connection, whose credentials are hidden later; in the place of a section it is not.
    """
    is_shown = value is None or (isinstance(value, str) and not is_section)
    return value if is_shown else Hidden(value)


def _table(kind: type[Any], value: Mapping[str, Any], path: str, errors: _Errors) -> dict[str, Any]:
    rows = {}
    if not value:
        errors.append(_error(path, value, "at least one entry"))
    for name, row in value.items():
        row_path = f'{path}["{name}"]'
        problem = text(name) or (errors.strict and line(name))
        if problem:
            errors.append(f"{path} has the key {name!r}: expected {problem}.")
        elif not isinstance(row, Mapping):
            errors.append(_error(row_path, _without_content(row), kind.EXPECTED))
        else:
            before = len(errors)
            rows[name] = _section(kind, row, row_path, errors)
            problem = rows[name].problem()
            if problem and len(errors) == before:
                errors.append(f"{row_path}: {problem}.")
    return rows


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _error(path: str, value: Any, expected: str) -> str:
    return f"{path} = {mask_credentials(repr(value))}: expected {expected}."


def _unknown(names: Mapping[str, Any], accepted: list[str], path: str) -> Iterator[str]:
    for name in names:
        if name not in accepted:
            near = difflib.get_close_matches(str(name).upper(), accepted, n=1)
            hint = f'Did you mean "{near[0]}"?' if near else f"Known are {', '.join(sorted(accepted))}."
            yield f'{path}["{name}"] is unknown. {hint}'


def _changed(*, setting: str, **_: Any) -> None:
    global _current
    if setting in (SETTING, "CACHES"):
        _current = None
        for callback in _on_change:
            callback()


setting_changed.connect(_changed, dispatch_uid="django_redis_components.conf")
