"""Validation of the arguments of messaging."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any
from uuid import UUID

from django_redis_components.core import serialization
from django_redis_components.core.arguments import check_int, check_iterable, id_text
from django_redis_components.core.names import validate_name

#: A user: a primary key, or any text.
User = int | str | UUID
#: Largest body of a message, as JSON in UTF-8. Larger data belongs elsewhere; send its id.
MAX_BODY_BYTES = 64 * 1024
#: Bytes of bodies that a chat or a mailbox keeps by default: 10,000 messages of 1,600 bytes, or 256 of the largest.
DEFAULT_LOG_BYTES = 16 * 1024 * 1024
#: Largest limit of these bytes.
MAX_LOG_BYTES = 1024 * 1024 * 1024
#: Most messages of one fetch.
MAX_FETCH = 1_000
#: Largest id: what JavaScript and Lua represent exactly.
MAX_ID = 2**53 - 1
#: Seconds for which a `key` is remembered. A device that was offline sends again within a day.
KEY_TTL_S = 86_400
#: Seconds for which the token of a send without a key is kept: RETRY_S of lua/shared/sent.lua. Retries end sooner.
TOKEN_TTL_S = 60


def check_user(user: object, what: str = "user") -> str:
    """Return the id of a user as text.

    Raises:
        TypeError: neither a string, an integer nor a UUID.
        ValueError: not a valid name.
    """
    return validate_name(id_text(user, what), what)


def check_members(members: object) -> list[str]:
    """Return the ids of members as text."""
    return [check_user(user, "user in members") for user in check_iterable(members, "members", "user ids")]


def check_body(body: Any) -> bytes:
    """Return the body as JSON.

    Raises:
        TypeError: not a JSON value.
        ValueError: NaN or an infinity, a lone surrogate, or too large.
    """
    normalized = serialization.normalize(body, "body")
    data = serialization.encode(normalized, "body")
    if b"\\ud" in data and not _is_encodable(normalized):  # as `encode` escapes lone surrogates
        raise ValueError("body has a lone surrogate: expected text that UTF-8 can encode, for pages and streams.")
    if len(data) > MAX_BODY_BYTES:
        raise ValueError(f"body has {len(data):,} bytes as JSON: expected at most {MAX_BODY_BYTES:,}.")
    return data


def _is_encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def check_id(id: object, what: str = "id", *, low: int = 0) -> int:
    """Return the id of a message, or a cursor."""
    return check_int(id, what, low, MAX_ID)


def send_token(key: object, sender: str) -> tuple[bytes, int]:
    """Return the token of a send and its TTL in seconds: of a key and the sender, or a random one.

    Raises:
        TypeError: the key is not a string.
        ValueError: the key is not a valid name.
    """
    if key is None:
        return secrets.token_bytes(8), TOKEN_TTL_S
    name = f"{sender}\0{validate_name(key, 'key')}"
    return hashlib.blake2b(name.encode(), digest_size=16).digest(), KEY_TTL_S
