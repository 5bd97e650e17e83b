# make run    install into .venv and serve a queue on http://127.0.0.1:8080, its root in /tmp/mq
# make test   install what tests need and run them all
# make retest those that failed the last time, if they are three at most, one after the other
# make quick  those that start no process, within a minute: for between two edits
# make crash  the long form of the crash tests, and their figures; the image with Spark
# make soak   a million messages with kills, stops, clock steps, a full disk, failed syncs: one seed
# make bench  how fast MQ is here, beside ceilings and other servers: docs/performance.md
# make pipeline  messages from a queue to a lake and back with Spark, compared: docs/pipeline.md
# make bench-spark  messages per second through Spark, on BENCH_ROOT
# make lint   ruff and mypy
# make lock   write requirements.lock and requirements-build.lock again, with the newest versions
#             that pyproject.toml allows
# make clean  remove everything that these targets made
# make help   this text
#
# Nothing outside this folder changes, except that root on Debian gets the packages of
# tests/apt.txt. `make PYTHON=/path/to/python3.12 run` chooses the Python of .venv.

VENV := .venv
PIP := $(VENV)/bin/python -m pip --quiet --disable-pip-version-check
PYTHON := python3.13 python3.12 python3.11 python3

# What the native part of file calls is made of.
NATIVE := hatch_build.py mq/disk/native.c

# A name on PATH may be a shim that does not run, too old, or Debian's python3 without venv.
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
CAN_MAKE_VENV := import ensurepip, venv
IS_ROOT_ON_DEBIAN := test "$$(id -u)" = 0 && test -e /etc/debian_version
APT_INSTALL := apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends

# Tests start thousands of processes; without bytecode each of them compiles what it imports of MQ.
unexport PYTHONDONTWRITEBYTECODE

# Tests mostly wait for a process or a disk. More processes are not faster, and disturb each other
# more.
TEST_PROCESSES ?= 2
BENCH_ROOT ?= /tmp
BENCH_OPTIONS ?=
PIPELINE_OPTIONS ?=
SOAK_OPTIONS ?=

.PHONY: run test retest quick crash soak bench bench-spark pipeline lock lint clean help apt

run: $(VENV)/installed
	@exec $(VENV)/bin/mq --standalone

test: $(VENV)/installed-dev apt
	@$(VENV)/bin/python -m pytest -n $(TEST_PROCESSES)

# Most tests race real processes. One in thousands may miss what it waits for beside all the others;
# that is a defect to find, and the summary names it, but not one of the change that is tested. More
# than three that failed are no accident, and a test that fails twice is none either.
retest: $(VENV)/installed-dev
	@failed=$$($(VENV)/bin/python -c 'import json; \
		print(len(json.load(open(".pytest_cache/v/cache/lastfailed"))))' 2>/dev/null || echo 0); \
	test "$$failed" -ge 1 -a "$$failed" -le 3 || { echo "$$failed tests failed, not 1 to 3"; exit 1; }; \
	echo "$$failed failed; once more, with nothing beside" && \
	exec $(VENV)/bin/python -m pytest --last-failed -v

quick: $(VENV)/installed-dev
	@$(VENV)/bin/python -m pytest -m quick -n $(TEST_PROCESSES) -q

crash: $(VENV)/installed-dev apt
	@$(VENV)/bin/python -m pytest -m crash_long

soak: $(VENV)/installed-dev apt
	@$(VENV)/bin/python -m tests.soak.run $(SOAK_OPTIONS)

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

bench: $(VENV)/installed
	@$(VENV)/bin/python benchmarks/bench.py $(BENCH_OPTIONS)

pipeline: $(VENV)/installed-dev
	@$(VENV)/bin/python examples/pipeline.py $(PIPELINE_OPTIONS)

bench-spark: $(VENV)/installed-dev
	@$(VENV)/bin/python benchmarks/spark.py $(BENCH_ROOT)

# The lock files are for every supported Python and machine. They name no index: you choose where to
# install from, and the hashes prove that the packages are the same.
lock: $(VENV)/bin/python
	@$(PIP) install 'uv>=0.8'
	@{ echo "# What MQ needs, by version and hash; written by 'make lock'. To install from it:"; \
	echo "#   pip install --require-hashes -r requirements-build.lock -r requirements.lock"; \
	echo "#   pip install --no-deps --no-build-isolation ."; \
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade \
		pyproject.toml; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock
	@{ echo "# What builds MQ, by version and hash; written by 'make lock'."; \
	printf 'hatchling\neditables\n' | \
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --upgrade \
		-; } > requirements-build.lock.new
	@mv requirements-build.lock.new requirements-build.lock

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f mq/disk/_native*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The packages follow pyproject.toml; the code itself is used in place, and so is the native part,
# which this compiles if it can. pip accepts nothing whose hash is not in the lock files, including
# what builds MQ.
$(VENV)/installed: pyproject.toml requirements.lock requirements-build.lock $(NATIVE) | $(VENV)/bin/python
	@echo "installing MQ into $(VENV)"
	@$(PIP) install --require-hashes -r requirements-build.lock -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# A pip older than 23.3 takes twice the time to choose among the versions that an index has: here,
# and in each environment that the tests of packages make.
$(VENV)/installed-dev: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	@echo "installing MQ and what its tests need into $(VENV)"
	@$(PIP) install 'pip>=23.3'
	@$(PIP) install --editable '.[dev,spark]'
	@touch $(VENV)/installed $@

$(VENV)/bin/python:
	@find_python() { \
		for python in $(PYTHON); do \
			"$$python" -c "$$1" >/dev/null 2>&1 && echo "$$python" && return; \
		done; \
	}; \
	if test -z "$$(find_python '$(IS_NEW_ENOUGH)')"; then \
		echo "MQ needs Python 3.11 or newer, and found none among $(PYTHON)." \
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

# A test that misses one of these packages is skipped and names it, so a failure here is harmless.
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
