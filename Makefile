# Needs Python 3.11 or newer with venv, make and a shell. Another Python: make test PYTHON=python3.13
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: help demo test docs messages sync clean

help:
	@echo "make demo   start the example market: site, worker, poller and an embedded Valkey (REDIS_URL uses yours)"
	@echo "make test   every gate: format, lint, types, architecture, tests, docs, browser"
	@echo "make docs   build the documentation into .data/site and the public API page docs/api.md; warnings are errors"
	@echo "make sync   generate the sync client (core/client/_sync) from the async one"
	@echo "make messages  take new words into the translations, and compile them (needs gettext)"
	@echo "make clean  remove what was built and cached; .venv and the demo's data stay"
	@echo ""
	@echo "PYTHON=...  the Python that $(VENV) is made with, 3.11 or newer (now: $(PYTHON))"

demo: $(VENV)/.installed-demo
	@exec $(BIN)/python manage.py demo

test: $(VENV)/.installed-test
	@exec $(BIN)/python -m tests.gate

docs: $(VENV)/.installed-test
	$(BIN)/python docs/_extensions/public_api.py
	$(BIN)/python -m sphinx -W --keep-going -q -d .data/doctrees -b html docs .data/site
	@echo "Built .data/site/index.html"

sync: $(VENV)/.installed-test
	$(BIN)/python tools/generate_sync.py

messages: $(VENV)/.installed-test
	cd django_redis_components && ../$(BIN)/python -m django makemessages -l zh_Hans --no-wrap --no-location --no-obsolete
	cd django_redis_components && ../$(BIN)/python -m django compilemessages -l zh_Hans

clean:
	rm -rf build dist *.egg-info .data/coverage .data/mypy .data/ruff .data/pytest

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is not Python 3.11 or newer. Name another: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.installed-test: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,docs,test]'
	@touch $@ $(VENV)/.installed-demo
