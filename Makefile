# Every target makes the virtual environment it needs first, so each is one command on a fresh clone.
#
#   make test         the whole test suite             make mnist        data, training, evaluation,
#   make data         fetch and convert the data                         table: the paper's MNIST row
#   make tables       tables from results/             make uci-tables   the same for the UCI sets
#   make figures      figures and gallery              make bench        our speed beside our peers'
#   make lint setup doctor clean                       make torture      attack it (TIME=10m)
#
# ENGINE=theano|pytensor  DEVICE=cpu|jax-cpu|gpu  FRESH=1  JOBS=2  DATA_MIRROR=DIR_OR_URL
# BUDGET=10m (into results/<run>-budget; the runs in results/ stay as they are)
# PYTHON=python3.11

PYTHON ?=
ENGINE ?=
DEVICE ?=
BUDGET ?=
FRESH ?=
JOBS ?= 1
TIME ?= 10m
TESTS ?=
SEED ?= 0
COUNT ?= 25
DATA_MIRROR ?=

# The first interpreter that runs the engine: theano-pymc needs 3.9 to 3.11, PyTensor 3.11 or later.
FITS_theano := import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))
FITS_pytensor := import sys; sys.exit(sys.version_info[:2] < (3, 11))
find = $(firstword $(foreach p,$(if $(PYTHON),$(PYTHON),python3 $(2)),\
	$(shell $(p) -c "$(FITS_$(1))" 2>/dev/null && echo $(p))))

ifeq ($(ENGINE),)
  INTERPRETER := $(call find,theano,python3.11 python3.10 python3.9)
  ifneq ($(INTERPRETER),)
    override ENGINE := theano
  else
    override ENGINE := pytensor
    INTERPRETER := $(call find,pytensor,python3.13 python3.12)
    ifneq ($(INTERPRETER),)
      $(info No Python 3.9 to 3.11 here, which theano-pymc needs: using the engine pytensor)
    endif
  endif
else
  INTERPRETER := $(call find,$(ENGINE),python3.11 $(if $(filter theano,$(ENGINE)),python3.10 python3.9,python3.13 python3.12))
endif

VENV := $(if $(filter theano,$(ENGINE)),.venv,.venv-pytensor)
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := .venv-bench/.ready

export BIHM_ENGINE := $(ENGINE)
ifneq ($(DEVICE),)
  export BIHM_DEVICE := $(DEVICE)
endif
ifneq ($(DATA_MIRROR),)
  export BIHM_DATA_MIRROR := $(DATA_MIRROR)
endif

REPRODUCE = $(BIN)/bihm reproduce $(1) --jobs $(JOBS) $(if $(BUDGET),--budget $(BUDGET)) $(if $(FRESH),--fresh)

INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(ENGINE),cluster,test]'

.PHONY: help setup doctor data mnist uci-tables tables figures test test-slow torture mutation lint bench docs pretrained clean

help:
	@sed -n '2,12s/^# \{0,1\}//p' Makefile

# Another package may have replaced a pinned one since: install the pins again.
setup: $(READY)
	@$(BIN)/bihm doctor --quick > $(VENV)/doctor.log 2>&1 || { grep '^problem' $(VENV)/doctor.log; echo "make: installing the required versions again"; $(INSTALL); $(BIN)/bihm doctor --quick; }

$(READY): pyproject.toml
	@test -n "$(INTERPRETER)" || { echo "make: $(if $(PYTHON),$(PYTHON) does not fit,no fitting Python found) for engine $(ENGINE): install Python $(if $(filter theano,$(ENGINE)),3.11 (3.9 to 3.11 fit),3.11 or later), or name one with PYTHON=" >&2; exit 2; }
	test -x $(BIN)/python || $(INTERPRETER) -m venv $(VENV)
	$(INSTALL)
	@touch $@

doctor: $(READY)
	@$(BIN)/bihm doctor

data: $(READY)
	@$(BIN)/bihm data all

mnist: $(READY)
	@$(call REPRODUCE,mnist)

uci-tables: $(READY)
	@$(call REPRODUCE,uci)

tables: $(READY)
	@$(BIN)/bihm tables

figures: $(READY)
	@$(BIN)/bihm figures
	@$(BIN)/bihm gallery

test: $(READY)
	$(BIN)/python -m pytest

# Sweeps with killed workers, training on several devices and hosts (ENGINE=pytensor), the wheel in an
# environment of its own, scikit-learn's checks: some minutes; TESTS=tests/cluster for a part of them.
test-slow: $(READY)
	$(BIN)/python -m pytest -m slow $(TESTS)

# Damaged files, faults at every file operation, kills, hostile servers and names; see SECURITY.md.
torture: $(READY)
	$(BIN)/python -m tests.torture --time $(TIME) --seed $(SEED)

# Small changes to the code that tests have to notice; see CONTRIBUTING.md.
mutation: $(READY)
	$(BIN)/python -m tests.mutation --seed $(SEED) --count $(COUNT)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(if $(wildcard $(BIN)/mypy),$(BIN)/mypy,@echo 'make: mypy needs Python 3.10 or later: types are not checked')

$(BENCH_READY): pyproject.toml
	test -x .venv-bench/bin/python || $(INTERPRETER) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	@touch $@

# Both engines are measured, where there is a Python for each.
bench: $(READY) $(BENCH_READY)
	$(MAKE) --no-print-directory setup ENGINE=pytensor || echo "make: the bench goes on without PyTensor"
	$(BIN)/python -m benchmarks.run

DOCS_READY := $(VENV)/.docs-ready
$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(ENGINE),docs]'
	@touch $@

docs: $(DOCS_READY)
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build
	@echo "docs/_build/index.html"

# The trained models that come with the package, from results/.
pretrained: $(READY)
	$(BIN)/python -m bihm_repro.api.pretrained

clean:
	rm -rf .venv .venv-pytensor .venv-bench build dist docs/_build *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
