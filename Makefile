# make run    install into .venv and serve a queue on http://127.0.0.1:8080, its root in /tmp/mq
# make test   install what tests need and run them all
# make crash  the long form of the crash tests, and their figures; the image with Spark
# make bench-spark  messages per second through Spark, on BENCH_ROOT
# make lint   ruff and mypy
# make lock   write requirements.lock anew, with the newest versions that pyproject.toml allows
# make clean  remove everything that these made
#
# Nothing outside this folder changes, except that root on Debian gets the packages of
# tests/apt.txt. `make PYTHON=/path/to/python3.12 run` chooses the Python of .venv.

VENV := .venv
PIP := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check
PYTHON := python3.13 python3.12 python3.11 python3

# A name on PATH may be a shim that does not run, too old, or Debian's python3 without venv.
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
CAN_MAKE_VENV := import ensurepip, venv
IS_ROOT_ON_DEBIAN := test "$$(id -u)" = 0 && test -e /etc/debian_version
APT_INSTALL := apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends

# Tests mostly wait, for a process or a disk. More at once are no faster, but more at the mercy of
# each other.
TEST_PROCESSES ?= 2
BENCH_ROOT ?= /tmp

.PHONY: run test crash bench-spark lock lint clean apt

run: $(VENV)/installed
	@exec $(VENV)/bin/mq --standalone

test: $(VENV)/installed-dev apt
	@$(VENV)/bin/python -m pytest -n $(TEST_PROCESSES)

crash: $(VENV)/installed-dev apt
	@$(VENV)/bin/python -m pytest tests/crash tests/spark tests/deploy -m crash_long

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench-spark: $(VENV)/installed-dev
	@$(VENV)/bin/python benchmarks/spark.py $(BENCH_ROOT)

# For every Python and machine that is supported. No address of an index gets in: whoever installs
# chooses where from, and the hashes say whether it is the same.
lock: $(VENV)/bin/python
	@$(PIP) install 'uv>=0.8'
	@{ echo "# What MQ needs, by version and hash; written by 'make lock'. To install from it:"; \
	echo "#   pip install --require-hashes -r requirements.lock && pip install --no-deps ."; \
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade \
		pyproject.toml; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What is installed follows pyproject.toml; the code itself is used where it lies.
$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing MQ into $(VENV)"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing MQ and what its tests need into $(VENV)"
	@$(PIP) install --editable '.[dev,spark]'
	@touch $(VENV)/installed $@

$(VENV)/bin/python:
	@find_python() { \
		for python in $(PYTHON); do \
			"$$python" -c "$$1" >/dev/null 2>&1 && echo "$$python" && return; \
		done; \
	}; \
	if test -z "$$(find_python '$(IS_NEW_ENOUGH)')"; then \
		echo "MQ needs Python 3.11 or newer; none of these runs and is: $(PYTHON)." \
			"Install one, or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	if test -z "$$(find_python '$(CAN_MAKE_VENV); $(IS_NEW_ENOUGH)')" && $(IS_ROOT_ON_DEBIAN); then \
		echo "installing python3-venv" && $(APT_INSTALL) python3-venv; \
	fi; \
	python=$$(find_python '$(CAN_MAKE_VENV); $(IS_NEW_ENOUGH)'); \
	if test -z "$$python"; then \
		echo "$$(find_python '$(IS_NEW_ENOUGH)') cannot make a virtual environment:" \
			"install the package python3-venv (apt-get install python3-venv)" >&2; \
		exit 1; \
	fi; \
	"$$python" -m venv --clear $(VENV)

# Without them tests that need them skip and name the package, so failing here is no error.
apt:
	@if $(IS_ROOT_ON_DEBIAN); then \
		missing=$$(sed 's/#.*//' tests/apt.txt | while read -r package _; do \
			test -z "$$package" || \
			dpkg-query -W -f='$${db:Status-Status}' "$$package" 2>/dev/null | grep -qx installed || \
			echo "$$package"; \
		done); \
		if test -n "$$missing"; then \
			echo "installing packages for the tests:" $$missing; \
			{ $(APT_INSTALL) $$missing; } || echo "not installed; tests that need them will skip" >&2; \
		fi; \
	fi
