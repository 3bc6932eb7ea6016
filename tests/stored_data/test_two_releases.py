"""Processes of the release before and of the working tree run tasks on one server, as during a rolling deployment."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from django_redis_components.taskqueue import Cursor, get_result
from django_redis_components.taskqueue.iteration import encode_cursor
from tests.support import Child, Store, eventually
from tests.support.processes import ROOT, UNMEASURED, Children
from tests.taskqueue.support import base_key

pytestmark = pytest.mark.unmeasured

#: The release that runs beside the working tree. With 1.1, name the newest tag of the minor release before.
RELEASE = "v1.0.0"
#: What runs instead until that tag exists: the last commit whose processes know no formats of stored data.
COMMIT_BEFORE = "862e3056bf335db665ae795c0a277fbe0e46a806"

PACKAGE = "django_redis_components"
NEW, OLD = "new", "old"

SETTINGS = """
import json, os
SECRET_KEY = "for the test only"
INSTALLED_APPS = ["django_redis_components", "fleet"]
REDIS_COMPONENTS = json.loads(os.environ["FLEET_SETTINGS"])
USE_TZ = True
"""
#: The site's only app. Each run adds the release that made it and the task's word to a list.
TASKS = """
import os
import redis
from django_redis_components.taskqueue import every, task

@task(timeout=60)
def note(word):
    with redis.Redis.from_url(os.environ["FLEET_URL"]) as client:
        client.rpush(os.environ["FLEET_RAN"], f"{os.environ['FLEET_RELEASE']} {word}")
    return word

@task(unique=True, rate="100/s", concurrency=4, max_attempts=3)
def limited(word):
    return note.func(word)

@task(timeout=60)
def hold(word):
    note.func(word)
    with redis.Redis.from_url(os.environ["FLEET_URL"], socket_timeout=None) as client:
        client.blpop(os.environ["FLEET_RAN"] + ":go", timeout=60)
    return word
"""
#: Sends tasks for both releases, for one of them, and at a later time; prints where the package is, and the ids.
SEND = """
import json, os, sys, django
django.setup()
import django_redis_components
from django_redis_components.taskqueue import chain
from fleet.tasks import hold, limited, note
sender = os.environ["FLEET_RELEASE"]
other = {"new": "old", "old": "new"}[sender]
sent = [note.using(queue_name=other).enqueue(f"{sender}-{number}") for number in range(5)]
sent += [limited.using(queue_name=other).enqueue(f"{sender}-limited-{number}") for number in range(5)]
sent += [note.using(queue_name=other, run_after=0.5, priority=5).enqueue(f"{sender}-later")]
sent += [note.using(queue_name="both").enqueue(f"{sender}-both-{number}") for number in range(5)]
chain(note.using(queue_name=other).s(f"{sender}-chain"), note.using(queue_name=sender).s()).enqueue()
sent += [hold.using(queue_name=sender).enqueue(f"{sender}-held")]
print(json.dumps([django_redis_components.__file__, *(result.id for result in sent)]))
"""
#: Prints the return values of the tasks whose ids it gets.
READ = """
import json, sys, django
django.setup()
from django_redis_components.taskqueue import get_result
print(json.dumps([get_result(task_id).return_value for task_id in sys.argv[1:]]))
"""


def old_commit() -> str:
    """Return the commit of the release before. Skip the test in a tree without its history."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("This tree has no history from which to take the release before: it is no git repository.")
    for name in (RELEASE, COMMIT_BEFORE):
        found = subprocess.run(
            ["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode == 0:
            return found.stdout.strip()
    pytest.skip(f"The repository has neither the tag {RELEASE} nor {COMMIT_BEFORE}: it is a shallow clone.")


class Fleet:
    """The processes of one release."""

    def __init__(self, name: str, package_parent: Path, site: Path, store: Store, children: Children) -> None:
        self.name = name
        self._children = children
        components = {
            "PREFIX": store.prefix,
            "CONNECTIONS": {"default": {"URL": store.url}},
            "TASKQUEUE": {"LEASE": 3, "GRACE": 1},
        }
        self.env = UNMEASURED | {
            "PYTHONSAFEPATH": "1",  # else the package of the working directory would be imported
            "PYTHONPATH": os.pathsep.join([str(package_parent), str(site)]),
            "DJANGO_SETTINGS_MODULE": "fleet_settings",
            "FLEET_RELEASE": name,
            "FLEET_URL": store.url,
            "FLEET_RAN": f"{store.prefix}:ran",
            "FLEET_SETTINGS": json.dumps(components),
        }

    def python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{self.name}: {done.stderr}"
        return done.stdout

    def start_worker(self, *queues: str) -> Child:
        child = self._children.manage("runworker", *queues, "--threads", "2", env=self.env)
        child.wait_for("Worker: queues")
        return child


@pytest.fixture
def fleets(redis_server: Store, children: Children, tmp_path: Path) -> dict[str, Fleet]:
    archive = subprocess.run(
        ["git", "archive", "--format=tar", old_commit(), PACKAGE], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(tmp_path / OLD, filter="data")
    (tmp_path / "site" / "fleet").mkdir(parents=True)
    for name, text in {"fleet_settings.py": SETTINGS, "fleet/__init__.py": "", "fleet/tasks.py": TASKS}.items():
        (tmp_path / "site" / name).write_text(text)
    return {
        name: Fleet(name, parent, tmp_path / "site", redis_server, children)
        for name, parent in ((OLD, tmp_path / OLD), (NEW, ROOT))
    }


def ran(store: Store) -> list[str]:
    return sorted(each.decode() for each in store.raw.lrange(f"{store.prefix}:ran", 0, -1))


def expected(sender: str, runner: str) -> set[str]:
    """Return the words of the tasks that a release sends to the other one."""
    words = [f"{sender}-{number}" for number in range(5)] + [f"{sender}-limited-{number}" for number in range(5)]
    return {f"{runner} {word}" for word in (*words, f"{sender}-later", f"{sender}-chain")}


def test_releases_run_each_other_s_tasks_and_recover_them(redis_server: Store, fleets: dict[str, Fleet]) -> None:
    sent = {name: json.loads(fleet.python("-c", SEND)) for name, fleet in fleets.items()}
    assert [Path(paths[0]).is_relative_to(ROOT) for paths in sent.values()] == [False, True]
    iterating = sent[NEW][1]  # as if a worker of the new release had been stopped in the middle of it
    redis_server.raw.hset(base_key(redis_server, "t", iterating), "I", encode_cursor(Cursor(0, "pk", 7, 7)))
    workers = {name: fleet.start_worker(name, "both") for name, fleet in fleets.items()}
    wanted = expected(OLD, NEW) | expected(NEW, OLD) | {"old old-chain", "new new-chain"}
    wanted |= {"old old-held", "new new-held"}

    eventually(lambda: wanted <= set(ran(redis_server)) and len(ran(redis_server)) == len(wanted) + 10, 30)

    both = [line.split()[1] for line in ran(redis_server) if "-both-" in line]
    assert sorted(both) == sorted(f"{name}-both-{number}" for name in fleets for number in range(5))
    assert len(set(ran(redis_server))) == len(ran(redis_server)), "a task ran twice"
    for name in fleets:
        assert json.loads(fleets[name].python("-c", READ, *sent[name][1:4])) == [f"{name}-{at}" for at in range(3)]
    stored = get_result(iterating)
    assert (stored.state, stored.cursor) == ("successful", Cursor(0, "pk", 7, 7)), "the old release leaves the cursor"

    # The old release is killed while it runs a task; the new one has the queue from now on.
    workers[OLD].close()
    fleets[NEW].start_worker(OLD)

    eventually(lambda: "new old-held" in ran(redis_server), 30)
