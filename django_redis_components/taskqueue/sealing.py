"""Sealed arguments: encrypted before they leave the process, and decrypted where the task runs.

A sealed message is ``[null, null, {"sealed": token, …}]``. A worker of a version that does not know it fails the task:
it never calls the function with other arguments. `cryptography` is imported when the first message is sealed or opened.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.exception_text import class_module, class_name, traceback_of
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.exceptions import InvalidTask, SealedArguments
from django_redis_components.taskqueue.json_codec import unpack

#: Key of the token among the options that travel with the arguments.
SEALED_KEY = "sealed"
#: How a sealed message starts; no other does. Most messages are not sealed, so callers compare it before they decode.
SEALED_START = b"[null,null,"
#: Text of the errors of sealed tasks: that of an exception often has the values.
HIDDEN_TEXT = "The text is not stored: the arguments of the task are sealed."
_SETTING = 'REDIS_COMPONENTS["TASKQUEUE"]["SEAL_KEYS"]'
_MISSING = "Sealed tasks need the package cryptography: pip install 'django-redis-components[sealed]'."


def seal(name: str, sent: list[Any]) -> list[Any]:
    """Return a message, arguments and options as plain JSON values, with its arguments sealed by the first key.

    Args:
        name: of the task, for errors.

    Raises:
        InvalidTask: there is no key, or cryptography is not installed.
    """
    keys = conf.settings().taskqueue.seal_keys
    if not keys:
        raise InvalidTask(f"The arguments of {name} are to be sealed, and {_SETTING} has no key.")
    args, kwargs, *rest = sent
    try:
        cipher = _cipher(keys)
    except ImportError as exc:
        raise InvalidTask(_MISSING) from exc
    token = cipher.encrypt(serialization.encode([args, kwargs], "args", "kwargs")).decode()
    return [None, None, {**(rest[0] if rest else {}), SEALED_KEY: token}]


def is_sealed(body: bytes) -> bool:
    """Return whether the arguments of a stored message are sealed. It decodes only what may be."""
    if not body.startswith(SEALED_START):
        return False
    try:
        return SEALED_KEY in serialization.decode(body)[2]
    except (ValueError, LookupError, TypeError):  # written by another program
        return False


def open_body(body: bytes, decode: Callable[[bytes], Any] = unpack) -> list[Any]:
    """Return the arguments of a stored message, opened if they are sealed, and the options beside them.

    Args:
        decode: for JSON; by default with the site's codec.

    Raises:
        SealedArguments: no key of this process opens them, or cryptography is not installed.
    """
    message: list[Any] = decode(body)
    if body.startswith(SEALED_START) and SEALED_KEY in message[2]:
        args, kwargs = decode(_open(message[2][SEALED_KEY]))
        return [args, kwargs, {name: value for name, value in message[2].items() if name != SEALED_KEY}]
    return message


def without_text(exc: BaseException) -> BaseException:
    """Return an exception with qualified name and traceback of the original, without its text, cause and notes."""
    # Only the qualified name may be any text, as with null characters.
    names = {"__module__": class_module(type(exc)), "__qualname__": class_name(type(exc))}
    hidden: BaseException = type("HiddenError", (Exception,), names)(HIDDEN_TEXT)
    return hidden.with_traceback(traceback_of(exc))


def without_context(exc: BaseException, *, is_sealed: bool) -> BaseException:
    """Return an error that was raised while a failure was handled; if the task is sealed, it is logged without that."""
    if is_sealed:
        exc.__suppress_context__ = True
    return exc


def is_installed() -> bool:
    """Return whether cryptography can be imported."""
    try:
        import cryptography.fernet  # noqa: F401
    except ImportError:
        return False
    return True


def _open(token: Any) -> bytes:
    keys = conf.settings().taskqueue.seal_keys
    if not keys:
        raise SealedArguments(f"The arguments are sealed, and {_SETTING} has no key in this process.")
    try:
        cipher = _cipher(keys)
    except ImportError as exc:
        raise SealedArguments(_MISSING) from exc
    from cryptography.fernet import InvalidToken

    try:
        opened: bytes = cipher.decrypt(token)
    except (InvalidToken, TypeError):
        raise SealedArguments(
            f"The arguments are sealed, and no key in {_SETTING} of this process opens them."
        ) from None
    return opened


@lru_cache(maxsize=8)
def _cipher(keys: tuple[str, ...]) -> Any:
    from cryptography.fernet import Fernet, MultiFernet

    return MultiFernet([Fernet(key) for key in keys])
