"""The Redis users of deploy/redis/users.acl."""

from __future__ import annotations

from dataclasses import dataclass

from tests.architecture.sources import ROOT

USERS_FILE = ROOT / "deploy" / "redis" / "users.acl"
#: The setting PREFIX that the file is written for.
PREFIX = "drc"


@dataclass(frozen=True)
class RedisUser:
    """A line of the file."""

    name: str
    rights: tuple[str, ...]

    @property
    def commands(self) -> set[str]:
        """Return the commands that it may run."""
        return {right.removeprefix("+") for right in self.rights if right.startswith("+")}

    def rights_with(self, prefix: str) -> list[str]:
        """Return the rights for another prefix of keys."""
        return [
            right.replace(f"~{PREFIX}:", f"~{prefix}:").replace(f"&{PREFIX}:", f"&{prefix}:") for right in self.rights
        ]


def redis_users() -> dict[str, RedisUser]:
    """Return the users by name."""
    lines = [line.split() for line in USERS_FILE.read_text().splitlines() if line and not line.startswith("#")]
    assert all(words[0] == "user" for words in lines)
    return {words[1]: RedisUser(words[1], tuple(words[2:])) for words in lines}
