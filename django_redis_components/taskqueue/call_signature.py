"""Validation of arguments against a task's function, at the call and not in the worker.

`CallSignature.check` costs two set comparisons for a valid call; `inspect.Signature.bind` costs microseconds.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter
from typing import Any

#: Kinds of parameters that a position may give, and those that a name may give.
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class CallSignature:
    """The parameters of a function, prepared for many checks.

    Args:
        func: the function, decorated or not.
        supplied: how many positional arguments the worker inserts before those of the caller.

    Raises:
        TypeError, ValueError: Python cannot determine the function's parameters.
    """

    def __init__(self, func: Callable[..., Any], supplied: int = 0) -> None:
        signature = inspect.signature(_declaration_of(func), follow_wrapped=False)
        parameters = list(signature.parameters.values())
        positional = [parameter for parameter in parameters if parameter.kind in POSITIONAL]
        keyword_only = [parameter for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY]
        kinds = {parameter.kind for parameter in parameters}
        self._takes_any_positional = Parameter.VAR_POSITIONAL in kinds
        self._takes_any_keyword = Parameter.VAR_KEYWORD in kinds
        #: Maximum number of positional arguments; below 0: the function does not accept those that the worker inserts.
        self._most = len(positional) - supplied
        first = min(supplied, len(positional))
        #: The parameters that callers give, in order.
        self.parameters = tuple(parameters[first:])
        open_after = [[*positional[count:], *keyword_only] for count in range(first, len(positional) + 1)]
        #: By the number of positional arguments: the names required as keywords, and those accepted.
        self._required = [
            _names(parameter for parameter in some if parameter.default is Parameter.empty) for some in open_after
        ]
        self._accepted = [_names(parameter for parameter in some if parameter.kind in _NAMED) for some in open_after]
        #: Names of positional arguments, which no keyword may repeat.
        self._once = _names(parameter for parameter in positional if parameter.kind in _NAMED)
        self._signature = str(signature.replace(return_annotation=signature.empty))
        if supplied:
            names = ", ".join(repr(parameter.name) for parameter in positional[:supplied])
            self._signature += f"; the worker supplies {names or 'the first argument'}"
        self._is_declared_elsewhere = hasattr(func, "__wrapped__") and not hasattr(func, "__signature__")

    def check(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise TypeError if the function does not accept these arguments.

        Args:
            name: of the task, for the error.

        Raises:
            TypeError: a parameter is missing, unknown or given twice; the message names it.
        """
        count = len(args)
        if count > self._most:
            if not self._takes_any_positional:
                raise self._error(name, args, kwargs)
            count = max(0, self._most)
        if not kwargs:
            if self._required[count]:
                raise self._error(name, args, kwargs)
        elif not self._required[count] <= kwargs.keys() or not self._accepts(count, kwargs):
            raise self._error(name, args, kwargs)

    def _accepts(self, count: int, kwargs: Mapping[str, Any]) -> bool:
        unknown = kwargs.keys() - self._accepted[count]
        return not unknown or (self._takes_any_keyword and unknown.isdisjoint(self._once))

    def _error(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError:
        count = max(0, min(len(args), self._most))
        accepted, required = self._accepted[count], self._required[count]
        refused = [each for each in kwargs if each not in accepted]
        problems = []
        if len(args) > self._most and not self._takes_any_positional:
            problems.append(f"too many positional arguments: {len(args)}, at most {max(0, self._most)}")
        for each in refused:
            if each in self._once:
                problems.append(f"multiple values for argument {each!r}")
            elif not self._takes_any_keyword:
                problems.append(f"got an unexpected keyword argument {each!r}{_similar(each, accepted)}")
        problems += [f"missing a required argument: {each!r}" for each in sorted(required - kwargs.keys())]
        hint = " A decorator that supplies arguments must set __signature__." if self._is_declared_elsewhere else ""
        function = name.rpartition(".")[2]
        return TypeError(
            f"{name} does not take these arguments: {'; '.join(problems)}. It is {function}{self._signature}.{hint}"
        )


@lru_cache(maxsize=4_096)
def signature_of(func: Callable[..., Any], supplied: int) -> CallSignature | None:
    """Return the signature of a function; None if Python cannot determine its parameters."""
    try:
        return CallSignature(func, supplied)
    except (TypeError, ValueError):
        return None


def _declaration_of(func: Callable[..., Any]) -> Callable[..., Any]:
    """The function below decorators that pass on all arguments; it declares the parameters."""
    declaration: Callable[..., Any] = inspect.unwrap(
        func, stop=lambda each: hasattr(each, "__signature__") or not _passes_on_all(each)
    )
    return declaration


def _passes_on_all(func: Callable[..., Any]) -> bool:
    parameters = inspect.signature(func, follow_wrapped=False).parameters.values()
    return [each.kind for each in parameters] == [Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD]


def _names(parameters: Iterable[Parameter]) -> frozenset[str]:
    # No keyword can be equal to the name of a positional-only parameter.
    only = Parameter.POSITIONAL_ONLY
    return frozenset(f"{each.name} (positional)" if each.kind is only else each.name for each in parameters)


def _similar(name: str, accepted: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(accepted), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
