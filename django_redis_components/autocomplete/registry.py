"""The registry of indexes that the widget and the JSON view may query, and their permissions.

Nothing is public by default: the view answers only for registered indexes, and their default permission requires a
signed-in user.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from django.core.signing import BadSignature, TimestampSigner
from django.http import HttpRequest

from django_redis_components.autocomplete.entries import Suggestion
from django_redis_components.autocomplete.exceptions import AutocompleteError, UnknownIndex
from django_redis_components.autocomplete.index import PrefixIndex
from django_redis_components.autocomplete.recents import RecentList
from django_redis_components.core.arguments import check_callable, check_flag, check_string, short_repr
from django_redis_components.core.decorators import refuse_awaitable, refuse_deferred_function
from django_redis_components.core.keys import validate_name
from django_redis_components.core.settings import conf
from django_redis_components.core.settings.checks import integer

#: Separates these signatures from every other use of the site's secret key.
SALT = "django_redis_components.autocomplete"

#: Returns whether a request may query an index. Arguments: the request and the scope ("" for none).
Permission = Callable[[HttpRequest, str], bool]

#: Bounds of `limit` and `min_length`; the settings of these names have the same.
LIMITS, MIN_LENGTHS = (1, 100), (0, 20)
#: Why a callback must not be a coroutine function: a coroutine is true.
_NOT_AWAITED = "autocomplete calls it without waiting"

_sources: dict[str, RegisteredIndex] = {}


class ScopeNeeded(AutocompleteError, ValueError):
    """Raised when a scope is missing for a scoped index, or given for an index without scopes."""


class InvalidScope(AutocompleteError, ValueError):
    """Raised when a scope cannot be part of an index name: braces, control characters, or too long."""


class RegisteredIndex:
    """A registered index. Subclass it where `register` is not enough.

    The callbacks are sync functions. A coroutine function raises TypeError, because a coroutine is true.

    Args:
        name: the name that widgets use.
        permission: returns whether a request may query the index; by default the user must be signed in.
        scoped: one index per scope (a guild, a tenant). The widget sends the scope signed, or `scope_for`
            determines it.
        scope_for: returns the scope of a request (the user's tenant). A request for which it returns None or ""
            is rejected.
        forward: names of other fields of the form whose values determine the scope (the chosen country for an index
            of cities); `scope_from` says how. It needs no `scope_for`.
        recents: returns the recent choices of the request's user, or None.
        limit: suggestions per response, 1 to 100; `REDIS_COMPONENTS["AUTOCOMPLETE"]["LIMIT"]` by default.
        min_length: characters before the index is queried, 0 to 20; the setting `MIN_LENGTH` by default.
        typos: whether the view corrects one typo where there are too few suggestions; `PrefixIndex.complete` says what
            it costs.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is invalid.
    """

    def __init__(
        self,
        name: str,
        *,
        permission: Permission | None = None,
        scoped: bool = False,
        scope_for: Callable[[HttpRequest], object] | None = None,
        forward: Sequence[str] = (),
        recents: Callable[[HttpRequest], RecentList | None] | None = None,
        limit: int | None = None,
        min_length: int | None = None,
        typos: bool = False,
        using: str = "default",
    ) -> None:
        self.name = validate_name(name, "index name")
        if "/" in name:
            raise ValueError(f"index name {name!r}: slashes are not accepted, because the name is part of a URL.")
        self.forward = _field_names(forward)
        self.scoped = check_flag(scoped, "scoped") or scope_for is not None or bool(self.forward)
        self.limit = _whole(limit, "limit", *LIMITS)
        self.min_length = _whole(min_length, "min_length", *MIN_LENGTHS)
        self.typos = check_flag(typos, "typos")
        self.using = using
        #: What the objects of this index remember together, see `completion`.
        self._filled: dict[int, bool] = {}
        for what, function in (("permission", permission), ("scope_for", scope_for), ("recents", recents)):
            _check_callback(what, function)
        self._permission = permission
        self._scope_for = scope_for
        self._recents = recents

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def is_permitted(self, request: HttpRequest, scope: str) -> bool:
        """Return whether the request may query the index of this scope."""
        return bool(_answer(self._permission or is_authenticated, request, scope))

    @property
    def has_permission_callback(self) -> bool:
        """Whether a permission was given, instead of the default.

        :meta private:
        """
        return self._permission is not None

    def _connect(self) -> None:
        """Start to follow the data of the index; called when it is registered."""

    def _disconnect(self) -> None:
        """Stop to follow the data of the index; called when it is unregistered or replaced."""

    def scope_for(self, request: HttpRequest) -> str | None:
        """Return the scope of the request, "" if it has none, or None if the widget must send it."""
        if self._scope_for is None:
            return None
        scope = _answer(self._scope_for, request)
        return "" if scope is None or isinstance(scope, bool) else str(scope)

    def scope_from(self, **values: str) -> str:
        """Return the scope for the values of the fields in `forward`, by name; "" while there is none.

        By default the values, joined by colons. The values come from the browser: `is_permitted` decides on the scope.
        """
        return ":".join(values.values()) if all(values.values()) else ""

    def index(self, scope: object = None) -> PrefixIndex:
        """Return the index of a scope.

        Raises:
            ScopeNeeded: the scope is missing, or the index has no scopes.
            InvalidScope: the scope cannot be part of a name.
        """
        if self.scoped == (scope in (None, "")):
            problem = "the index has one part per scope: pass the scope" if self.scoped else "the index has no scopes"
            raise ScopeNeeded(f"Index {self.name!r} with scope {scope!r}: {problem}.")
        if not self.scoped:
            return self._prefix_index(self.name)
        try:
            return self._prefix_index(f"{self.name}:{scope}")
        except ValueError as exc:
            raise InvalidScope(str(exc)) from None

    def _prefix_index(self, name: str) -> PrefixIndex:
        index = PrefixIndex(name, using=self.using)
        index._filled = self._filled
        return index

    def recents(self, request: HttpRequest) -> RecentList | None:
        """Return the recent choices to list first, or None."""
        return _answer(self._recents, request) if self._recents else None

    @property
    def finds_scope(self) -> bool:
        """Whether the request or other fields determine the scope, so that widgets need none.

        :meta private:
        """
        return self._scope_for is not None or bool(self.forward)

    @property
    def has_recents(self) -> bool:
        """Whether the index has recent choices to suggest for an empty field.

        :meta private:
        """
        return self._recents is not None


def find_by_text(index: RegisteredIndex, scope: object, text: str, limit: int) -> list[Suggestion]:
    """Return the entries of a scope with this text or term; none if the scope is impossible or not known yet.

    Raises:
        ScopeNeeded: the scope is missing, or the index has no scopes.
    """
    if index.forward and not scope:
        return []
    try:
        return index.index(scope).find_by_text(text, limit=limit)
    except InvalidScope:
        return []


def min_length_of(index: RegisteredIndex) -> int:
    """Return the minimum length of a query."""
    return conf.settings().autocomplete.min_length if index.min_length is None else index.min_length


def _answer(function: Callable[..., Any], *args: object) -> Any:
    """Call a callback and return its result.

    Raises:
        TypeError: the result is awaitable, such as that of a lambda around a coroutine function.
    """
    answer = function(*args)
    refuse_awaitable(answer, function, _NOT_AWAITED)
    return answer


def _check_callback(what: str, function: Any) -> None:
    if function is None:
        return
    refuse_deferred_function(check_callable(function, what), what)


def _field_names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise TypeError(f"forward={short_repr(names)}: expected a list of names of form fields.")
    return tuple(names)


def _whole(value: Any, what: str, low: int, high: int) -> int | None:
    problem = None if value is None else integer(low, high)(value)
    if problem:
        raise ValueError(f"{what}={short_repr(value)}: expected {problem}.")
    return None if value is None else int(value)


def is_authenticated(request: HttpRequest, scope: str) -> bool:
    """Return whether the user is signed in: the default permission."""
    user = getattr(request, "user", None)
    return bool(user and user.is_authenticated)


def register(name: str | RegisteredIndex | type[RegisteredIndex], **options: object) -> RegisteredIndex:
    """Register an index for the widget and the JSON view; call it in the module `indexes` of an installed app.

    A second registration of a name replaces the first.

    Args:
        name: the name, a subclass of `ModelIndex`, or a `RegisteredIndex` without options.
        options: the options of `RegisteredIndex`.

    Raises:
        ValueError: the index would share keys with a scope of another one.
    """
    if isinstance(name, type):
        source = name(**options)  # type: ignore[arg-type]
    else:
        source = name if isinstance(name, RegisteredIndex) else RegisteredIndex(name, **options)  # type: ignore[arg-type]
    _check_scopes(source)
    unregister(source.name)
    _sources[source.name] = source
    source._connect()
    return source


def _check_scopes(source: RegisteredIndex) -> None:
    """Raise unless the keys of an index and of the scopes of others are different.

    Otherwise a user who may query one of them reads the other: scope b of index a is stored as the index a:b.
    """
    for other in registered():
        outer, inner = (source, other) if len(source.name) < len(other.name) else (other, source)
        if outer.scoped and inner.name.startswith(f"{outer.name}:"):
            raise ValueError(
                f"index name {source.name!r}: {inner.name!r} is also the scope {inner.name[len(outer.name) + 1 :]!r} of"
                f" the index {outer.name!r}. Choose a name that does not begin with {outer.name + ':'!r}."
            )


def unregister(name: str) -> None:
    """Remove a name. An unknown name is ignored.

    Raises:
        TypeError: not a name.
    """
    if source := _sources.pop(check_string(name, "name"), None):
        source._disconnect()


def registered() -> list[RegisteredIndex]:
    """Return all registered indexes, ordered by name."""
    return [_sources[name] for name in sorted(_sources)]


def get_index(name: str) -> RegisteredIndex:
    """Return the registered index with this name.

    Raises:
        UnknownIndex: the name is not registered.
    """
    try:
        return _sources[check_string(name, "name")]
    except KeyError:
        raise UnknownIndex(name, _sources) from None


def index_of_model(model: type[Any]) -> RegisteredIndex:
    """Return the registered index of a model.

    Raises:
        AutocompleteError: there is none, or several.
    """
    found = [one for one in registered() if getattr(one, "model", None) is model]
    if len(found) != 1:
        names = ", ".join(repr(one.name) for one in found) or "none"
        raise AutocompleteError(
            f"Indexes of {model._meta.label}: {names}. Expected one: register a ModelIndex, or name the index."
        )
    return found[0]


def sign_scope(name: str, scope: object) -> str:
    """Sign a scope for use in a page: it is readable, but cannot be changed or used for another index.

    It is valid for `REDIS_COMPONENTS["AUTOCOMPLETE"]["SCOPE_MAX_AGE"]` seconds.
    """
    return TimestampSigner(salt=f"{SALT}:{name}").sign(str(scope))


def read_scope(name: str, signed: str) -> str | None:
    """Return the scope of a signed value, or None if it was modified or has expired."""
    max_age = timedelta(seconds=conf.settings().autocomplete.scope_max_age_s)
    try:
        return TimestampSigner(salt=f"{SALT}:{name}").unsign(signed, max_age=max_age)
    except BadSignature:
        return None
