# Needs Python 3.11 or newer with venv, make and a shell. To choose the Python: make test PYTHON=python3.13
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: help install demo test coverage docs messages sync clean

help:
	@echo "make install   make the environment $(VENV), with what tests and documentation need"
	@echo "make demo      start the example shop: site, worker, poller and an embedded Valkey (or the server of REDIS_URL)"
	@echo "make test      run all checks: format, lint, architecture, tests, browser, types, docs"
	@echo "               some of them: $(BIN)/python -m tests.run_checks lint types"
	@echo "make coverage  run the tests once more and measure which lines of the package they reach (twice as slow)"
	@echo "make docs      build docs/api.md and the documentation in .data/site; warnings are errors"
	@echo "make sync      generate the sync client (core/client/_sync) from the async one"
	@echo "make messages  update and compile the translations (needs gettext)"
	@echo "make clean     remove build results and caches; keep $(VENV) and the data of the demo"
	@echo ""
	@echo "STRICT=1       make test fails for a flaky test too: one that fails beside others and passes alone"
	@echo "PYTHON=...     the Python for $(VENV), 3.11 or newer (now: $(PYTHON))"

install: $(VENV)/.installed-test
	@echo "$(VENV) is ready. Next: make demo, or a component's tests: $(BIN)/python -m pytest tests/locks"

demo: $(VENV)/.installed-demo
	@exec $(BIN)/python manage.py demo

test: $(VENV)/.installed-test
	@exec $(BIN)/python -m tests.run_checks $(if $(STRICT),--strict)

coverage: $(VENV)/.installed-test
	@exec $(BIN)/python -m tests.run_checks coverage

docs: $(VENV)/.installed-test
	$(BIN)/python docs/_extensions/public_api.py
	$(BIN)/python -m sphinx -W --keep-going -q -d .data/doctrees -b html docs .data/site
	@echo "Built .data/site/index.html"

sync: $(VENV)/.installed-test
	$(BIN)/python tools/generate_sync.py

messages: $(VENV)/.installed-test
	cd django_redis_components && ../$(BIN)/python -m django makemessages -l zh_Hans --no-wrap --no-location --no-obsolete
	cd django_redis_components && ../$(BIN)/python -m django compilemessages -l zh_Hans
	cd example_project/market && ../../$(BIN)/python -m django makemessages -l zh_Hans --no-wrap --no-location --no-obsolete
	cd example_project/market && ../../$(BIN)/python -m django compilemessages -l zh_Hans

clean:
	rm -rf build dist *.egg-info .data/coverage .data/mypy .data/ruff .data/pytest

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is not Python 3.11 or newer. Name another: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing the demo's packages into $(VENV); the first time this takes a minute or more"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.installed-test: setup.cfg pyproject.toml | $(BIN)/python
	@echo "Installing what tests and documentation need into $(VENV); the first time this takes some minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,docs,test]'
	@touch $@ $(VENV)/.installed-demo
