"""Write docs/api.md: every public name with its signature, on one page.

Members whose docstring, or comment, ends with ``:meta private:`` are for other modules of the package: neither this
page nor the reference, which Sphinx writes, shows them.

Usage: python docs/_extensions/public_api.py [--check]
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic

from django.dispatch import Signal
from sphinx.pycode import ModuleAnalyzer

PAGE = Path(__file__).resolve().parents[1] / "api.md"
PACKAGE = "django_redis_components"

#: Component or module below the package, in the order of the page.
MODULES = {
    "locks": "Locks",
    "semaphores": "Semaphores",
    "ratelimits": "Rate limits",
    "ratelimits.signals": "Rate limits: signals",
    "transactions": "Transactions",
    "expiry": "Expiry",
    "expiry.cache": "Expiry: cache backend",
    "taskqueue": "Task queue",
    "taskqueue.signals": "Task queue: signals",
    "taskqueue.logs": "Task queue: logs",
    "autocomplete": "Autocomplete",
    "autocomplete.admin": "Autocomplete: admin",
    "search": "Search",
    "analytics": "Analytics",
    "bloom": "Bloom filters",
    "files": "File channels",
    "geoip": "IP geolocation",
    "aggregation": "Aggregation",
    "messaging": "Messaging",
    "dashboard": "Dashboard",
    "dashboard.admin": "Dashboard: other admin sites",
    "testing": "Testing",
    "contrib.prometheus": "Prometheus",
    "contrib.opentelemetry": "OpenTelemetry",
    "contrib.drf": "Django REST framework",
    "contrib.django_tasks": "Django's Tasks framework",
    "exceptions": "Base exceptions",
}

#: The public names of modules that have no `__all__`, and whose other names are not public.
NAMES = {
    "dashboard.admin": ("register",),
    "taskqueue.logs": ("JsonFormatter", "TaskFilter", "TextFormatter"),
}

#: Sphinx's mark of a member that is for other modules of the package.
PRIVATE = ":meta private:"

#: A line "name, name: text" of the section Attributes of a docstring.
_ATTRIBUTES = re.compile(r"^    (\w+(?:, \w+)*): ", re.M)


#: Classes whose objects only the package makes: their constructors are not public.
MADE_BY_THE_PACKAGE = {
    "AsyncPipe", "EmbeddedServer", "FileConsumer", "FlowResult", "MemberFlow", "Messages", "Pipe", "RemoteFile",
    "ResultReference", "RunContext", "SearchPage", "SearchPaginator", "Signature", "Subscription", "Task",
    "TaskContext", "TaskResult", "UserSet",
}  # fmt: skip

#: What classes state about themselves for other modules of the package.
INTERNAL_ATTRIBUTES = {
    "catalog_kind",
    "component",
    "framework",
    "name_label",
    "own_middleware",
    "register_module",
    "register_task",
}


def render() -> str:
    """The page as Markdown."""
    return "\n".join(
        [
            "# Public API",
            "",
            "Every public name on one page. A method with an async twin is marked with the twin's name.",
            "What a class has from one of another library, as a form field has from Django's, is documented there.",
            "",
            *(line for module, title in MODULES.items() for line in _module_lines(module, title)),
            *_tag_lines(),
            *_url_lines(),
        ]
    )


def _module_lines(name: str, title: str) -> Iterator[str]:
    module = importlib.import_module(f"{PACKAGE}.{name}")
    own = [key for key, value in vars(module).items() if _is_own(value, module)]
    public = NAMES.get(name) or getattr(module, "__all__", None) or own
    yield from (f"## {title}", "", f"`from {PACKAGE}.{name} import …`", "", "```text")
    for key in sorted(public, key=_kind_of(module)):
        yield from _name_lines(key, getattr(module, key))
    yield from ("```", "")


def _tag_lines() -> Iterator[str]:
    module = importlib.import_module(f"{PACKAGE}.templatetags.redis_components")
    yield from ("## Template tags", "", "`{% load redis_components %}`", "", "```text")
    for kind, names in (("tag", module.register.tags), ("filter", module.register.filters)):
        for name in sorted(names):
            function = inspect.unwrap(getattr(module, name))
            yield f"{kind} {name}{_signature(function, without=('context',))}"
    yield from ("```", "")


def _url_lines() -> Iterator[str]:
    """Yield the URLs that a site includes. `async_urls` has the same with async views."""
    module = importlib.import_module(f"{PACKAGE}.urls")
    include = f'`include("{PACKAGE}.urls")`, under ASGI `include("{PACKAGE}.async_urls")`'
    yield from ("## URLs and views", "", include, "", "```text")
    for pattern in module.urlpatterns:
        view = inspect.unwrap(pattern.callback)
        yield f"{module.app_name}:{pattern.name}  {pattern.pattern}  {view.__module__}.{view.__name__}"
    yield from ("```", "")


def _is_own(value: Any, module: Any) -> bool:
    if isinstance(value, Signal):
        return True
    return inspect.isclass(value) and value.__module__ == module.__name__ and not value.__name__.startswith("_")


def _kind_of(module: Any) -> Any:
    def key(name: str) -> tuple[bool, bool, str]:
        value = getattr(module, name)
        is_class = inspect.isclass(value)
        return is_class and issubclass(value, BaseException), not is_class, name.lower()

    return key


def _name_lines(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value) and issubclass(value, BaseException):
        yield f"{name}({', '.join(base.__name__ for base in value.__bases__)})"
    elif isinstance(value, Signal):
        yield f"{name}: Signal"
    elif _is_named_tuple(value):
        yield f"{name}({', '.join(_tuple_fields(value))})"
        yield from _member_lines(value, shown=set(value._fields))
    elif inspect.isclass(value):
        is_made = _has_own_constructor(value)
        yield f"{name}{_signature(value) if is_made else ''}"
        yield from _member_lines(value, shown=_parameters(value) if is_made else set())
    elif typing.get_origin(value):
        yield f"{name} = {inspect.formatannotation(value)}"
    elif callable(value) and not name.isupper():
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name} = {value!r}" if name.isupper() else name


def _is_named_tuple(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, tuple) and hasattr(value, "_fields")


def _tuple_fields(kind: Any) -> Iterator[str]:
    for name in kind._fields:
        annotation = _Text.of(kind.__annotations__.get(name, "Any"))
        default = f" = {kind._field_defaults[name]!r}" if name in kind._field_defaults else ""
        yield f"{name}: {annotation!r}{default}"


def _has_own_constructor(kind: type) -> bool:
    """Whether the package, and not a framework that it extends, defines how an object is made; and callers make it."""
    if kind.__name__ in MADE_BY_THE_PACKAGE:
        return False
    if dataclasses.is_dataclass(kind):
        return all(base.__module__.startswith(PACKAGE) or base in (object, Generic) for base in kind.__mro__)
    makers = (vars(base).get(name) for base in kind.__mro__ for name in ("__new__", "__init__"))
    first = next((maker for maker in makers if maker is not None), None)
    return str(getattr(getattr(first, "__func__", first), "__module__", "")).startswith(PACKAGE)


def _member_lines(kind: type, *, shown: set[str]) -> Iterator[str]:
    """Yield the members of a class, those of the package's base classes first.

    Args:
        shown: names that the line of the class has shown.
    """
    bases = [base for base in reversed(kind.__mro__) if base.__module__.startswith(PACKAGE)]
    extended = [base for base in kind.__mro__ if base not in (*bases, object)]
    others = {name: member for base in reversed(extended) for name, member in vars(base).items()}
    members = {
        name: member
        for base in bases
        for name, member in vars(base).items()
        if not (name.startswith("_") or _only_overrides(member, others.get(name)) or _is_private(base, name, member))
    }
    for base in bases:
        for name in _attributes(base):
            if name not in members and name not in shown:
                yield f"    .{name}{_type_of(base, name)}"
                shown = shown | {name}
    for name, member in members.items():
        is_twin = name.startswith("a") and name[1:] in members and callable(getattr(kind, name[1:]))
        if is_twin or name in shown or _only_refuses(member) or name in INTERNAL_ATTRIBUTES:
            continue
        twin = f"  · a{name}" if callable(getattr(kind, name)) and f"a{name}" in members else ""
        yield f"    {_member(name, member)}{twin}"


def _attributes(kind: type) -> list[str]:
    """Return the attributes that a class describes: in its docstring, or in a comment above an annotation."""
    if kind.__module__.startswith(f"{PACKAGE}.core."):
        return []  # private
    section = inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:\n")[2]
    described = [name for names in _ATTRIBUTES.findall(section.partition("\n\n")[0]) for name in names.split(", ")]
    return described + [name for name in _annotations(kind) if PRIVATE not in (_comment(kind, name) or PRIVATE)]


def _annotations(kind: type) -> dict[str, Any]:
    return {name: type_ for name, type_ in vars(kind).get("__annotations__", {}).items() if not name.startswith("_")}


def _type_of(kind: type, name: str) -> str:
    annotation = _annotations(kind).get(name)
    return f": {_Text.of(annotation)!r}" if annotation else ""


def _only_overrides(member: Any, extended: Any) -> bool:
    """Whether a member is one of another library's class, without further parameters."""
    if not (inspect.isfunction(member) and inspect.isfunction(extended)):
        return extended is not None
    return set(inspect.signature(member).parameters) <= set(inspect.signature(extended).parameters)


def _is_private(kind: type, name: str, member: Any) -> bool:
    """Whether the docstring of a member, or the comment above an attribute, says that it is private."""
    return PRIVATE in f"{member.__doc__} {_comment(kind, name)}"


def _comment(kind: type, name: str) -> str:
    """Return the comment above an attribute; "" without one."""
    comments = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    return " ".join(comments.get((kind.__name__, name), []))


def _only_refuses(member: Any) -> bool:
    """Whether a method is there only to refuse what its base class does."""
    return inspect.isfunction(member) and member.__annotations__.get("return") == "NoReturn"


def _parameters(kind: type) -> set[str]:
    """What the constructor's signature already shows."""
    try:
        return set(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        return set()


def _member(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f".{name}{_returns(member.fget)}"
    function = getattr(member, "__func__", member)
    return f".{name}{_signature(function)}" if inspect.isfunction(function) else f".{name}"


def _signature(value: Any, *, without: tuple[str, ...] = ("self", "cls")) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    kept = [_readable(item) for item in signature.parameters.values() if item.name not in without]
    returns = inspect.Signature.empty if inspect.isclass(value) else signature.return_annotation
    return str(signature.replace(parameters=kept, return_annotation=_Text.of(returns)))


def _readable(parameter: inspect.Parameter) -> inspect.Parameter:
    default = parameter.default
    if default is not inspect.Parameter.empty and " at 0x" in repr(default):
        default = _Text(getattr(default, "__name__", "…"))
    return parameter.replace(annotation=_Text.of(parameter.annotation), default=default)


class _Text:
    """An annotation or a default that is shown as this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    @classmethod
    def of(cls, annotation: Any) -> Any:
        """Show an annotation as written in the source."""
        if annotation is inspect.Parameter.empty:
            return annotation
        annotation = getattr(annotation, "__forward_arg__", annotation)
        text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        return cls(text.strip("\"'").replace(f"{PACKAGE}.", ""))


def _returns(getter: Any) -> str:
    annotation = getattr(getter, "__annotations__", {}).get("return")
    return f": {annotation}" if annotation else ""


def main() -> int:
    """Write the page, or with --check only compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 when docs/api.md is out of date")
    check = parser.parse_args().check
    if check:
        return int(PAGE.read_text() != render())
    PAGE.write_text(render())
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(PAGE.parents[1]))
    import django
    from django.conf import settings

    apps = [f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "messages", "sessions")]
    settings.configure(INSTALLED_APPS=[*apps, PACKAGE], USE_TZ=True)
    django.setup()
    sys.exit(main())
