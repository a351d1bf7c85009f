# make demo   the walkthrough, then its capture judged
# make lab    the walkthrough in the kernel: namespaces as pods, real connections (needs root)
# make test   everything: style, types, layers, tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo lab test quick lint bench bench-agent deep clean

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("knp needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# The agent's extra is compiled, and for Linux only.
$(VENV)/.agent: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[agent]' || \
	  (echo "knp: the extra [agent] cannot be built here (Debian: apt install gcc libnetfilter-queue-dev)"; false)
	touch $@

# Without it the tests that need it say so and are skipped.
$(VENV)/.dev: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	-$(MAKE) $(VENV)/.agent
	touch $@

demo: $(VENV)/.demo
	$(BIN)/knp test examples/agent-sandbox
	$(BIN)/knp replay examples/agent-sandbox/phase4.pcap --manifests examples/agent-sandbox/manifests

lab: $(VENV)/.agent
	$(BIN)/knp lab test examples/agent-sandbox

test: lint
	$(BIN)/python -m pytest

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow"

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=. $(BIN)/lint-imports

deep: $(VENV)/.dev
	HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest tests/property

bench: $(VENV)/.dev
	$(BIN)/python -m pytest bench --benchmark-columns=min,median,ops --benchmark-sort=name -s

bench-agent: $(VENV)/.dev
	$(BIN)/python -m bench.agent

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
