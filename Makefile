# Needs Linux, make, Python 3.11 to 3.13 with venv, Java 17 or 21 (`install` sees to Java for root on Debian or Ubuntu) and the
# package registries. The first target is the one a newcomer wants.
# PYTHON= names one; otherwise the newest that runs and can make an environment.
PYTHONS := 3.13 3.12 3.11
PYTHON ?=
PIP_AUDIT_VERSION := 2.10.1
# The packages without a wheel: pure Python, so they build everywhere.
BUILT := pure-sasl pyspark
BIN := .venv/bin
# A company's own certificate authority stands in the system's store, which uv reads only when told; bare images have none.
CERTIFICATES := $(wildcard /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt)
UV := $(BIN)/uv $(if $(CERTIFICATES),--system-certs)
# Without the name, uv installs into the environment that the shell has activated, or the system's where UV_SYSTEM_PYTHON is set.
INSTALL := $(UV) pip install --python $(BIN)/python --quiet --require-hashes --no-deps --compile-bytecode
STAMP := .venv/.installed
# Two files at once: more are slower on two cores. Files that need servers come first.
PYTEST := $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile --no-loadscope-reorder
CLASSES := build/spark.jsa
CODE := $(wildcard coordinator_tasks spark_apps dags plugins)
ALL := $(CODE) $(wildcard tests benchmarks hatch_build.py)
export PYTHONPATH := $(CURDIR):$(CURDIR)/plugins

.PHONY: demo demo-stop help install check quick test test-all lint format types imports dead reader faults clusters docs simulate search mutants freeze sbom audit clean

demo: install  ## shows a join, a drain and a crash on real servers; KEEP=1 leaves all running, ENSEMBLE=1 starts three of each
	@$(BIN)/python -m coordinator_tasks.devstack.demo $(if $(ENSEMBLE),--ensemble) $(if $(KEEP),--keep)

demo-stop: install  ## ends what "make demo KEEP=1" left running
	@$(BIN)/python -m coordinator_tasks.devstack.demo --stop

help:  ## prints the targets with their sentences
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "make %-10s %s\n", $$1, $$2 }'

install: $(STAMP)  ## installs everything into .venv
	@$(BIN)/python -m coordinator_tasks.devstack.embedded.host
	@$(BIN)/python -m coordinator_tasks.devstack.reader_jar

$(STAMP): requirements.txt requirements-uv.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { for python in $(or $(PYTHON),$(addprefix python,$(PYTHONS))); do "$$python" -c "import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] not in '$(PYTHONS)'.split())" >/dev/null 2>&1 && exec "$$python" -m venv .venv; done; echo "no Python of $(PYTHONS) with the module venv was found: install one (Debian and Ubuntu: apt-get install python3-venv), or call make PYTHON=/path/to/it" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-uv.txt
	$(BIN)/python -m pip uninstall --quiet --yes --disable-pip-version-check pyspark-client 2>/dev/null
	$(INSTALL) -r requirements.txt
	$(BIN)/python -c "import pyspark.core.context" || $(INSTALL) --reinstall-package pyspark -r requirements.txt
	touch $@

check: install format  ## what needs no server, for every save: format, lint, types, imports, dead code, unit tests
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target quick types imports dead

test: install  ## format, types, imports, dead code, tests without servers, each promise on the real stack
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types lint imports dead $(CLASSES)
	@$(PYTEST) --part=first

test-all: install $(CLASSES)  ## all tests that "make test" leaves out: on real servers, under faults, in simulated histories
	@$(PYTEST) --part=rest

lint: install  ## finds what breaks the rules of style
	$(BIN)/ruff check $(ALL)
	$(BIN)/ruff format --check $(ALL)
	@$(BIN)/python -m tests.java_style

format: install  ## writes the code in the form that lint asks for
	$(BIN)/ruff check --fix $(ALL)
	$(BIN)/ruff format $(ALL)
	@$(BIN)/python -m tests.java_style --write

types: install  ## checks the types
	$(BIN)/mypy $(ALL)

imports: install  ## checks which part imports which
	$(BIN)/lint-imports

dead: install  ## finds what nothing calls
	$(BIN)/vulture $(ALL)

quick: quick-others quick-coordinator_tasks  ## runs the unit tests, which need no server

quick-coordinator_tasks: install
	$(BIN)/python -m pytest -q -m "not clusters and not rest" --durations=0 --durations-min=10 tests/unit/coordinator_tasks

quick-others: install
	$(BIN)/python -m pytest -q -m "not clusters and not rest" --durations=0 --durations-min=10 tests/unit --ignore tests/unit/coordinator_tasks

$(CLASSES): $(STAMP) tests/integration/spark_classes.py  # with them Spark starts in two thirds of the time
	@mkdir -p build
	@$(BIN)/python -m tests.integration.spark_classes 2> $(basename $@).log || { cat $(basename $@).log >&2; exit 1; }

clusters: install  ## the tests on YARN, Kubernetes, Docker, Celery and ensembles, and the longest others; ONLY= words; goes on where it ended
	@$(BIN)/python -m tests.clusters $(if $(ONLY),--only $(ONLY))

docs: install  ## writes the site of the documents into build/site; fetches nothing
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

simulate: install  ## SEEDS histories; START= the first seed, drawn without
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),10000) $(if $(START),--start $(START))

search: install  ## every state that the rules can reach, within the bounds of tests/simulation/search.py; LIMIT= seconds, goes on where it ended
	@mkdir -p build
	@$(BIN)/python -m tests.simulation.search --folder build $(if $(LIMIT),--limit-s $(LIMIT))

mutants: install  ## which suite notices which broken rule; LIMIT= seconds, goes on where build/mutants.json ends
	@$(BIN)/python -m tests.simulation.mutation $(if $(LIMIT),--limit-s $(LIMIT))

reader: install  ## the reader in the JVM on SEEDS topics of random content; START= the first seed, as a failure names it
	READER_SEEDS=$(or $(SEEDS),100) READER_START=$(START) $(BIN)/python -m pytest tests/integration/test_reader_content.py -k never_tried

faults: install  ## the long part of the fault tests: deaths at all listed points, pairs; ONLY= a word; goes on where it ended
	@$(BIN)/python -m tests.clusters --only tests/faults/test_$(ONLY)

freeze: install  ## writes requirements.txt anew from requirements.in, and checks that each Python gets every package
	@mkdir -p build
	$(UV) pip compile --quiet --upgrade --universal --generate-hashes --python-version $(lastword $(PYTHONS)) --no-header --no-annotate --no-emit-index-url --no-emit-package pyspark-client requirements.in > build/requirements.txt
	@for version in $(PYTHONS); do $(UV) pip install --quiet --dry-run --target build/nowhere --python-version $$version --require-hashes --no-deps --only-binary :all: $(addprefix --no-binary ,$(BUILT)) -r build/requirements.txt || exit 1; done
	mv build/requirements.txt requirements.txt

sbom: install  ## writes build/sbom.json: every frozen package and jar with its checksum, in CycloneDX
	@$(BIN)/python -m tests.sbom

audit: install  ## asks a public database for known weaknesses of the frozen packages; pip-audit comes into an environment of its own
	$(UV) tool run --from pip-audit==$(PIP_AUDIT_VERSION) pip-audit --require-hashes --disable-pip -r requirements.txt

clean:  ## removes what was built here, and ends what "make demo KEEP=1" left running; the cache of fetched files stays
	@test ! -e build/demo/kept.json || $(BIN)/python -m coordinator_tasks.devstack.demo --stop
	rm -rf build .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
