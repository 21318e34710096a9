# Every target sets up what it needs. Only Python 3.11+ is required.
#
#   make demo                      run an agent with tools on the model in the box, and see what
#                                  the model saw; fetches 93 MB of weights the first time
#   make test                      everything in `check`, then the tests; google-adk, other agent
#                                  libraries, clients of OpenAI's API and
#                                  servers of MCP have environments of their own
#   make coverage                  the tests with branch coverage, which takes 2.5 times as long
#   make check                     format, lint, layers, types
#   make prices                    the list of prices in the package again, from the genai-prices in .venv
#   make reference                 docs/reference.md again, from the docstrings
#   make bench                     measurements against json.dumps and other agent libraries
#   make side-by-side RUNS=FILE    Weft, Headroom and what people do by hand on recorded runs
#   make PYTHON=python3.12 test    use another Python
#   make UV= test                  use pip even where uv is installed

PYTHON ?= python3
UV ?= $(shell command -v uv 2>/dev/null)
JOBS ?= 2

# What a command prints must not depend on it.
unexport PYTHONUNBUFFERED

BIN := .venv/bin
BENCH := .venv-bench
ADK := .venv-adk
CLIENTS := .venv-clients
HEADROOM := .venv-headroom
HOSTS := .venv-hosts
MCP := .venv-mcp
RECENT := import sys; sys.exit(sys.version_info < (3, 11))

# An environment whose interpreter no longer runs is made again, whatever its stamps say.
$(foreach venv,.venv $(BENCH) $(ADK) $(CLIENTS) $(HEADROOM) $(HOSTS) $(MCP),$(shell $(venv)/bin/python -c '$(RECENT)' 2>/dev/null || rm -f $(venv)/.made-*))

# Tests wait for processes, servers and browsers about a third of their time: one worker more than
# jobs keeps the cores busy.
WORKERS ?= $(shell expr $(JOBS) + 1)

# worksteal: a worker takes a run of neighbours, which share what is set up for them, and helps
# the others when it is done.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Two checks at a time, each with its output in one piece where make can do that.
TOGETHER := $(MAKE) --no-print-directory -j $(JOBS) $(if $(filter output-sync,$(.FEATURES)),--output-sync)

.PHONY: help demo test coverage check prices bench clean browser sandbox \
    check-style check-mypy check-pyright check-layers test-adk test-hosts test-collect test-suite reference side-by-side

help:
	@sed -n 's/^#   //p' Makefile

demo: .venv/.made-local
	$(BIN)/weft model get
	$(BIN)/python examples/local.py

# What needs one core goes first, two at a time: the environments, then the types, google-adk's tests
# and the compiling of all tests, which each worker would do for itself. After that all cores are for
# the tests.
test:
	@$(MAKE) --no-print-directory -j $(JOBS) .venv/.made-dev $(ADK)/.made-adk $(CLIENTS)/.made-node \
	    $(HOSTS)/.made-hosts $(MCP)/.made-node
	@$(TOGETHER) check-style check-mypy check-pyright test-adk test-hosts check-layers test-collect browser sandbox
	@$(MAKE) --no-print-directory test-suite

# Browsers, servers and databases are started for real and share the cores with everything else.
# A test that failed is run once more, alone. What fails again has failed. What passes depends on
# timing and is named in the last lines. Many failures are not repeated.
test-suite:
	$(PYTEST) $(TESTS) || { [ $$? = 1 ] && echo "Once more, alone, the tests that failed:" && \
	    $(BIN)/python -m pytest -v -n 0 -p tests.support.second_try --last-failed \
	    --last-failed-no-failures none --maxfail 3 $(TESTS); }

test-adk:
	$(ADK)/bin/python -m pytest tests/interop tests/test_docs.py -k "interop or adk or hosts"

# The adapters for other agent libraries, and their pages.
test-hosts:
	$(HOSTS)/bin/python -m pytest tests/interop/hosts tests/test_docs.py -k "hosts"

# What is wrong with a test is said when it is run.
test-collect:
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || :

# The pages are tested in Chromium, full Python in a sandbox of bubblewrap. Where one is not installed
# and cannot be, its tests are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	    { $(call get_program,chromium,there is no browser here; the tests of the pages); }

sandbox:
	@command -v bwrap >/dev/null || \
	    { $(call get_program,bubblewrap,there is no bubblewrap here; the tests of CPythonTool); }

define get_program
apt="apt-get -o DPkg::Lock::Timeout=400 -o Acquire::Retries=3"; \
get() { DEBIAN_FRONTEND=noninteractive $$apt install -y --no-install-recommends $(1) >/dev/null 2>&1 </dev/null; }; \
[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "installing $(1)" && \
{ get || { $$apt update >/dev/null 2>&1; get; } || { sleep 20; $$apt update >/dev/null 2>&1; get; }; } || \
echo "NOTE: $(2) will be skipped" >&2
endef

coverage: .venv/.made-dev
	$(PYTEST) --cov --cov-report=term

check: .venv/.made-dev
	@$(TOGETHER) check-style check-mypy check-pyright check-layers

check-pyright:
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

check-mypy:
	$(BIN)/mypy

check-layers:
	$(BIN)/lint-imports --no-logo

check-style:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

prices: .venv/.made-dev
	$(BIN)/python tests/dialects/make_prices.py

reference: .venv/.made-dev
	$(BIN)/python -m tests.top.make_reference

bench: $(BENCH)/.made-bench .venv/.made-dev
	$(BENCH)/bin/python bench/run.py

side-by-side: $(HEADROOM)/.made-headroom .venv/.made-dev
	$(BIN)/python bench/side_by_side.py $(RUNS) --headroom $(HEADROOM)/bin/python

clean:
	rm -rf .venv $(BENCH) $(ADK) $(CLIENTS) $(HEADROOM) $(HOSTS) $(MCP) build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Keep a working environment; make a missing or half-made one from the start.
define make_venv
	@if $(1)/bin/python -c '$(RECENT)' 2>/dev/null \
	    && { [ -n "$(UV)" ] || $(1)/bin/python -m pip --version >/dev/null 2>&1; }; then :; \
	else \
	    $(PYTHON) -c '$(RECENT)' 2>/dev/null || { \
	        echo "error: Weft needs Python 3.11 or newer; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)" >&2; \
	        echo "  hint: name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	        exit 1; }; \
	    rm -rf $(1); \
	    if [ -n "$(UV)" ]; then "$(UV)" venv --quiet --python "$(PYTHON)" $(1); \
	    else $(PYTHON) -m venv $(1); fi; \
	fi
	@touch $@
endef

# A registry may fail for a moment, and an old pip on a new package: then pip is upgraded, and the
# same is tried again. Modules are compiled when they are first imported, and most never are.
define install
	@echo "installing $(2) into $(1)"
	@get() { \
	    if [ -n "$(UV)" ]; then "$(UV)" pip install --quiet --python $(1)/bin/python "$$@"; \
	    else $(1)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile "$$@"; fi; \
	}; \
	for pause in 5 30; do \
	    get $(3) && exit 0; \
	    echo "installing $(2) failed; once more in $$pause seconds" >&2; \
	    sleep $$pause; \
	    [ -n "$(UV)" ] || get --upgrade pip || :; \
	done; \
	get $(3)
	@touch $@
endef

.venv/.made-venv:
	$(call make_venv,.venv)

.venv/.made-local: .venv/.made-venv pyproject.toml constraints.txt
	$(call install,.venv,.[local],-c constraints.txt -e ".[local]")

.venv/.made-dev: .venv/.made-venv pyproject.toml constraints.txt
	$(call install,.venv,.[dev],-c constraints.txt -e ".[dev]")
	@touch .venv/.made-local

$(BENCH)/.made-venv:
	$(call make_venv,$(BENCH))

$(BENCH)/.made-bench: $(BENCH)/.made-venv pyproject.toml bench/constraints.txt
	$(call install,$(BENCH),.[bench],-c bench/constraints.txt -e ".[bench]")

$(ADK)/.made-venv:
	$(call make_venv,$(ADK))

$(ADK)/.made-adk: $(ADK)/.made-venv pyproject.toml bench/constraints.txt
	$(call install,$(ADK),.[adk-test],-c bench/constraints.txt -e ".[adk-test]")

$(HEADROOM)/.made-venv:
	$(call make_venv,$(HEADROOM))

$(HEADROOM)/.made-headroom: $(HEADROOM)/.made-venv bench/headroom.txt
	$(call install,$(HEADROOM),bench/headroom.txt,--no-deps -r bench/headroom.txt)

$(HOSTS)/.made-venv:
	$(call make_venv,$(HOSTS))

$(HOSTS)/.made-libraries: $(HOSTS)/.made-venv pyproject.toml bench/constraints.txt
	$(call install,$(HOSTS),.[hosts-test],-c bench/constraints.txt -e ".[hosts-test]")

$(HOSTS)/.made-hosts: $(HOSTS)/.made-libraries tests/interop/hosts/packages.txt
	$(call install,$(HOSTS),tests/interop/hosts/packages.txt,--no-deps -r tests/interop/hosts/packages.txt)

$(CLIENTS)/.made-venv:
	$(call make_venv,$(CLIENTS))

# Programs that the tests start: nothing of Weft is installed there.
$(CLIENTS)/.made-clients: $(CLIENTS)/.made-venv tests/server/clients.txt
	$(call install,$(CLIENTS),tests/server/clients.txt,-r tests/server/clients.txt)

$(MCP)/.made-venv:
	$(call make_venv,$(MCP))

$(MCP)/.made-servers: $(MCP)/.made-venv tests/tools/mcp-servers.txt
	$(call install,$(MCP),tests/tools/mcp-servers.txt,--no-deps -r tests/tools/mcp-servers.txt)

# Where there is no npm, or it gets nothing, the tests of its packages are skipped, and say so.
define get_packages
	@echo "installing $(2) into $(1)"
	@npm install --silent --ignore-scripts --no-save --no-package-lock --prefix $(1) \
	    $$(grep -v '^#' $(2)) && touch $@ || \
	    echo "NOTE: there is no npm here; $(3) will not be tested" >&2
endef

$(CLIENTS)/.made-node: $(CLIENTS)/.made-clients tests/server/clients-node.txt
	$(call get_packages,$(CLIENTS),tests/server/clients-node.txt,the clients of AG-UI and Vercel)

$(MCP)/.made-node: $(MCP)/.made-servers tests/tools/mcp-servers-node.txt
	$(call get_packages,$(MCP),tests/tools/mcp-servers-node.txt,some servers of MCP)
