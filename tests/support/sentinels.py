"""One master, one replica and one sentinel on loopback."""

from __future__ import annotations

from pathlib import Path

import redis

from tests.support.killing import killed_unless_all_start
from tests.support.waiting import eventually
from tools.localserver import LocalServer

#: The name by which the sentinel knows the pair.
SERVICE = "drc-tests"


def start_sentinel(binary: Path, directory: Path) -> list[LocalServer]:
    """Return master, replica and sentinel once the sentinel knows both and the replica is in step."""
    with killed_unless_all_start() as servers:

        def start(name: str, *args: str, config: Path | None = None) -> LocalServer:
            servers.append(
                LocalServer(binary, directory=directory / name, config=config, extra_args=args, die_with_parent=True)
            )
            return servers[-1].start()

        master = start("master", "--repl-diskless-sync-delay", "0")
        replica = start("replica", "--replicaof", f"127.0.0.1 {master.port}")
        config = _write_config(directory / "sentinel", master)
        sentinel = start("sentinel", "--sentinel", config=config)
        eventually(lambda: _is_in_step(replica))
        eventually(lambda: _knows_both(sentinel))
    return servers


def _write_config(directory: Path, master: LocalServer) -> Path:
    directory.mkdir(parents=True)
    path = directory / "sentinel.conf"
    path.write_text(
        f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} 1\n"
        f"sentinel down-after-milliseconds {SERVICE} 1000\n"
        f"sentinel failover-timeout {SERVICE} 3000\n"
    )
    return path


def _is_in_step(replica: LocalServer) -> bool:
    with redis.Redis.from_url(replica.url) as client:
        return client.info("replication")["master_link_status"] == "up"


def _knows_both(sentinel: LocalServer) -> bool:
    with redis.Redis.from_url(sentinel.url) as client:
        return len(client.sentinel_slaves(SERVICE)) == 1
