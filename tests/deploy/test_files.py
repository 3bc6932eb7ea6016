"""The files below deploy/ are valid, and name commands, options, metrics and ports that exist."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from django_redis_components.core.client.endpoint import known_options
from django_redis_components.core.client.urls import from_url
from django_redis_components.core.settings import conf
from django_redis_components.core.settings.sections import ConnectionSettings, Settings
from django_redis_components.management.redis.doctor.permissions import expected_permissions
from tests.architecture.sources import ROOT
from tests.support import Store
from tools.localserver import LocalServer, valkey_binary

DEPLOY = ROOT / "deploy"
YAML_FILES = sorted(DEPLOY.rglob("*.yaml"))
#: Recipes of autoscalers.
SCALING = [DEPLOY / "kubernetes" / name for name in ("keda.yaml", "keda-without-prometheus.yaml", "hpa.yaml")]
#: Pages for operators, whose commands are checked as well.
PAGES = [
    ROOT / "docs" / "guides" / f"{name}.md"
    for name in (
        "backup",
        "connections",
        "deployment",
        "production-checklist",
        "security",
        "sizing",
        "troubleshooting",
        "upgrades",
    )
]


#: Rows of a table with a figure, and the command that measured it.
MEASURED = re.compile(r"^\| [^|]+ \| ([^|]+) \| `python -m (benchmarks[^`]*)` \|$", re.MULTILINE)


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def commands(value: Any) -> Iterator[list[str]]:
    """Yield the words after manage.py of each command in a YAML document."""
    if isinstance(value, dict):
        for each in value.values():
            yield from commands(each)
    elif isinstance(value, list):
        if "manage.py" in value:
            yield value[value.index("manage.py") + 1 :]
        for each in value:
            yield from commands(each)


def commands_of_text(text: str) -> Iterator[list[str]]:
    """Yield the words after manage.py of each command in Markdown, a unit or a Dockerfile."""
    for line in re.findall(
        r"manage\.py ((?:redis|run\w+|rebuild\w+|reconcile\w+|load\w+|check|migrate)\b[^`\n|]*)", text
    ):
        yield shlex.split(line.partition(" #")[0])
    for line in re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE):
        yield from commands(json.loads(line))


ALL_COMMANDS = [
    (path, words)
    for path in (*PAGES, *(path for path in sorted(DEPLOY.rglob("*")) if path.is_file()))
    for words in (
        (words for document in documents(path) for words in commands(document))
        if path in YAML_FILES
        else commands_of_text(path.read_text() if path.exists() else "")
    )
]


@pytest.mark.parametrize(
    ("path", "words"), ALL_COMMANDS, ids=lambda value: value.name if isinstance(value, Path) else " ".join(value)
)
def test_command_exists_with_its_options(path: Path, words: list[str]) -> None:
    command = load_command_class(get_commands()[words[0]], words[0])

    command.create_parser("manage.py", words[0]).parse_args(words[1:])


def test_worker_reports_its_health_where_it_is_checked() -> None:
    [worker, _] = documents(DEPLOY / "kubernetes" / "worker.yaml")
    [container] = worker["spec"]["template"]["spec"]["containers"]
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())["services"]["worker"]

    ports = {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe")}
    assert ports == {container["ports"][0]["containerPort"]}
    assert container["command"][-2:] == ["--health-port", str(*ports)]
    assert compose["command"][-2] == "--health-file"
    assert compose["command"][-1] in compose["healthcheck"]["test"][1]


def test_disruption_budgets_select_the_pods_of_a_deployment() -> None:
    for name in ("web", "worker"):
        kinds = {each["kind"]: each for each in documents(DEPLOY / "kubernetes" / f"{name}.yaml")}
        labels = kinds["Deployment"]["spec"]["template"]["metadata"]["labels"]
        assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_manifests_are_built_by_kustomize() -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("there is no kubectl here")  # .ci/run cannot install it

    done = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    kinds = sorted(each["kind"] for each in yaml.safe_load_all(done.stdout))
    assert kinds == ["Deployment"] * 3 + ["PodDisruptionBudget"] * 2 + ["Service"]


def test_mounted_and_copied_files_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())["services"]
    mounted = [volume.split(":")[0] for volume in compose["valkey"]["volumes"] if volume.startswith(".")]
    built = compose["web"]["build"]

    assert [name for name in mounted if not (DEPLOY / "docker" / name).is_file()] == []
    assert (DEPLOY / "docker" / built["context"] / built["dockerfile"]).is_file()


def test_metrics_of_alerts_and_scaling_are_exported() -> None:
    rules = documents(DEPLOY / "prometheus" / "rules.yaml")[0]["groups"][0]["rules"]
    texts = [*(rule["expr"] for rule in rules), *(path.read_text() for path in SCALING)]
    reference = (ROOT / "docs" / "reference" / "metrics.rst").read_text()

    used = {name for text in texts for name in re.findall(r"redis_components_(\w+)", text)}
    assert {name for name in used if f"``{name}``" not in reference} == set()
    assert all(rule["labels"]["severity"] in ("critical", "warning") for rule in rules)


@pytest.mark.parametrize("path", SCALING, ids=lambda path: path.stem)
def test_autoscalers_divide_by_the_slots_of_a_pod_and_select_its_queues(path: Path) -> None:
    worker = documents(DEPLOY / "kubernetes" / "worker.yaml")[0]
    [container] = worker["spec"]["template"]["spec"]["containers"]
    words = container["command"]
    options = load_command_class(get_commands()["runworker"], "runworker").create_parser("manage.py", "runworker")
    parsed = options.parse_args(words[words.index("runworker") + 1 :])

    scaler = documents(path)[-1]["spec"]
    text = path.read_text()

    assert scaler["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    [slots] = re.findall(r'(?:threshold|targetValue|averageValue): "(\d+)"', text)
    assert int(slots) == parsed.processes * parsed.threads
    [queues] = re.findall(r'queue=~?"([^"]+)"|values: \[([^\]]+)\]', text)
    assert set(re.split(r"\W+", "".join(queues))) <= set(parsed.queues)


def test_server_starts_with_the_options_and_the_users(tmp_path: Path, redis_server: Store) -> None:
    users = ("--aclfile", str(DEPLOY / "redis" / "users.acl"))
    options = DEPLOY / "redis" / "server.conf"

    with LocalServer(valkey_binary(), directory=tmp_path, config=options, appendonly=True, extra_args=users) as server:
        assert server.running


def test_figures_of_the_page_of_sizing_were_measured_by_programs_that_exist() -> None:
    rows = MEASURED.findall((ROOT / "docs" / "guides" / "sizing.md").read_text())
    results = [ROOT / "benchmarks" / "RESULTS.md", *(ROOT / "docs" / "components").glob("*.md")]
    known = "".join(path.read_text() for path in results)
    parts = (ROOT / "benchmarks" / "__main__.py").read_text()

    figures = {figure for text, _ in rows for figure in re.findall(r"\d+(?:[.,]\d+)*", text)}
    assert {figure for figure in figures if not re.search(rf"(?<![\d.,]){re.escape(figure)}(?!\d)", known)} == set()
    programs = [command.split() for _, command in rows]
    assert [words for words in programs if words[1:2] == ["--part"] and f'"{words[2]}": ' not in parts] == []
    modules = {ROOT / "benchmarks" / f"{words[0].partition('.')[2] or '__main__'}.py" for words in programs}
    assert [path for path in modules if not path.is_file()] == []


def test_urls_and_options_of_the_page_of_connections_are_accepted() -> None:
    text = (ROOT / "docs" / "guides" / "connections.md").read_text()
    urls = re.findall(r"^\| [^|]+ \| `([a-z+]+://[^`]+)` \|$", text, re.MULTILINE)
    rows = re.findall(r"^\| (`[^|]+) \| [^|]+ \|$", text.partition("| Option in the query |")[2], re.MULTILINE)

    assert {from_url("default", url, ConnectionSettings()).kind for url in urls} == {
        "standalone",
        "sentinel",
        "cluster",
    }
    options = {name for row in rows for name in re.findall(r"`([a-z_]+)", row) if name.startswith(("ssl_", "db"))}
    assert options - known_options("tls") == set()
    assert len(options) == 7


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_settings_and_permissions_of_a_page_exist(path: Path) -> None:
    text = path.read_text()
    sections = {conf.key_of(field): field for field in dataclasses.fields(Settings)}
    permissions = re.findall(
        r"`((?:view|release|reset|block|pause|purge|retry|delete|run|cancel|quiet|restart)_\w+)`", text
    )

    for section, key in re.findall(r'`([A-Z]+)\["([A-Z_]+)"\]', text):
        keys = {conf.key_of(field) for field in dataclasses.fields(sections[section].metadata["section"])}
        assert key in keys, f"{section}[{key!r}]"
    assert set(permissions) - expected_permissions() == set()
