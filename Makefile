# Two commands on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
# The first interpreter of these that really runs (a shim can be there and not work).
first_python = $(firstword $(foreach p,$(1),$(shell $(p) -c 'import sys; print(sys.executable)' 2>/dev/null)))
PYTHON ?= $(or $(call first_python,python3.11 python3.12 python3.13 python3),python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Nothing is left outside the clone, and a network's own certificates count.
export UV_NO_CACHE := 1
export UV_SYSTEM_CERTS := 1
export UV_NATIVE_TLS := 1
export PIP_NO_CACHE_DIR := 1

.PHONY: setup reference burnysc2 clients test slow docs first-hour demo perf fuzz fuzz-counts fuzz-server soak lint clean

DEMO_GAMES ?= 12
DEMO_FRAMES ?= 20000

setup: $(STAMP)

# uv resolves in seconds; pip alone does the same in minutes, so it is the fallback.
$(STAMP): setup.py
	$(PYTHON) -c 'import sys; sys.exit(0 if (3, 11) <= sys.version_info < (3, 14) else "starmill needs Python 3.11, 3.12 or 3.13; found " + sys.version.split()[0] + ". Set PYTHON=...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv setuptools wheel
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]' \
	  || $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

# Compiles the embedded game first, once: tests are timed one by one, and this takes minutes.
test: setup
	$(BIN)/python -m starmill.engines.skirmish.warmup
	$(BIN)/python -m pytest -n 2 --dist loadfile $(ARGS)

# What the default run leaves out: long tests, a real Flink cluster, DeepMind's own code, and other
# people's clients.
slow: setup
	$(BIN)/python -m starmill.engines.skirmish.warmup
	$(BIN)/python -m pytest -m 'slow or flink or reference' -o timeout=1800 $(ARGS)
	$(MAKE) clients ARGS=

# DeepMind's own wheel needs CPython 3.10; tests marked `reference` use this environment, or
# the interpreter that STARMILL_REFERENCE_PYTHON names, and skip where there is neither.
PYTHON310 ?= $(call first_python,python3.10 $(wildcard $(HOME)/.pyenv/versions/3.10*/bin/python))
reference: .venv-reference/.installed
.venv-reference/.installed: tests/reference/requirements.txt
	test -n "$(PYTHON310)" || { echo "no python3.10 found; set PYTHON310=..."; exit 2; }
	$(PYTHON310) -m venv .venv-reference
	.venv-reference/bin/python -m pip install --quiet --requirement tests/reference/requirements.txt
	.venv-reference/bin/python -m pip install --quiet --no-deps pysc2==4.0.0
	touch .venv-reference/.installed

# python-sc2 brings a protobuf package of the same import name as pysc2's: an environment of its own.
burnysc2: .venv-burnysc2/.installed
.venv-burnysc2/.installed: setup
	$(PYTHON) -m venv .venv-burnysc2
	$(BIN)/uv pip install --quiet --python .venv-burnysc2/bin/python burnysc2
	touch .venv-burnysc2/.installed

# pysc2's own game tests, unmodified, and bots of python-sc2, on Skirmish; each outcome is compared
# with a list.
clients: .venv-clients/.installed .venv-burnysc2/.installed
	$(BIN)/python -m tests.engines.skirmish.clients.run_pysc2 $(ARGS)
.venv-clients/.installed: setup
	$(PYTHON) -m venv .venv-clients
	$(BIN)/uv pip install --quiet --python .venv-clients/bin/python pysc2==4.0.0 's2clientprotocol>=5.0.14' 'protobuf>=6.31,<7'
	touch .venv-clients/.installed

fuzz-server: setup
	$(BIN)/python -m tests.engines.skirmish.server.fuzz_requests --requests $(or $(REQUESTS),50000)

# The documentation's site, in site/; fails at a broken link. The pages are plain Markdown in docs/.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# What a new user does: a wheel in an empty environment, then each extra and the quickstart.
first-hour: setup
	$(BIN)/python -m tests.first_hour $(ARGS)

lint: setup
	./check --no-tests

# The main job, whole but small: replays, dataset, check, page, agent, games. Everything is in
# demo/; run again, each step carries on or finds its work done. `rm -r demo` starts over.
demo: setup
	@$(BIN)/python deploy/demo.py --games $(DEMO_GAMES) --frames $(DEMO_FRAMES) --out demo

perf: setup
	$(BIN)/python -m perf $(if $(ONLY),--only $(ONLY))

# Attacks everything that is read, for a time, or COUNTS times (chunks=10000,tables=1000,...); every
# input is a function of SEED and its number.
fuzz: setup
	$(BIN)/python -m tests.hostile.fuzz $(if $(COUNTS),--counts $(COUNTS),--minutes $(or $(MINUTES),10)) --seed $(or $(SEED),0) $(if $(ONLY),--only $(ONLY))

# The numbers that docs/security.md promises, with the peak memory of each.
fuzz-counts: setup
	$(BIN)/python -m tests.hostile.fuzz --counts chunks=10000,tables=1000,manifests=1000,checkpoints=1000 --seed $(or $(SEED),0)

clean:
	rm -rf build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# Every runner, every accident, one digest; faults of every kind, and endurance. An hour on two idle
# cores; three with FULL=1.
soak: setup
	$(BIN)/python -m tests.soak $(if $(FULL),--full) $(if $(ONLY),--only $(ONLY)) $(if $(GAMES),--games $(GAMES))
