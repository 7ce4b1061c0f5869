# `make` lists the targets. Everything runs in .venv, which is made when missing
# and brought up to date when pyproject.toml changes.

BIN   := .venv/bin
PIP    = $(BIN)/python -m pip -qq --disable-pip-version-check

# torch goes in first and at an exact version: pip then takes a CPU wheel of it where one is
# offered, whereas a range resolved from nothing may fetch gigabytes of CUDA libraries.
TORCH ?= 2.13.0

PYTHON ?= $(shell python3.11 -c 'print("python3.11")' 2>/dev/null || echo python3)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test slow lowest newest lint format bench versus-strong docs dist clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

demo: .venv/.installed ## train on a small example and compare the errors
	$(BIN)/decoupled demo

# One thread per worker: torch's own threads under two workers would fight for the cores.
test: export OMP_NUM_THREADS := 1
test: lint ## lint, then run all tests and doctests but the slow ones
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow"
	@echo "all checks passed"

slow: export OMP_NUM_THREADS := 1
slow: .venv/.installed-dev ## run the slow tests: studies at the paper's sizes
	$(BIN)/pytest -n 2 --dist loadfile -m slow

# What pyproject.toml promises, at its oldest, for pip's --constraint; torch is chosen apart.
LOWEST = sed -n '/^dependencies/,/^sweep/p' pyproject.toml | \
    grep -oE '"[a-z-]+(\[[a-z]+\])?>=[0-9.]+' | sed -E 's/"([a-z-]+).*>=/\1==/' | grep -v '^torch=='

# The oldest versions that pyproject.toml promises, and the newest there are, each in an
# environment of its own. Python and torch can be chosen: make newest PYTHON=python3.13 TORCH=2.15.0
lowest: ## run the tests with the oldest versions promised, in .venv-lowest
	@$(PYTHON) -m venv .venv-lowest
	@$(LOWEST) > .venv-lowest/constraints.txt
	$(MAKE) --no-print-directory with ENVIRONMENT=.venv-lowest \
	    OPTIONS="--constraint .venv-lowest/constraints.txt"

newest: ## run the tests with the newest versions there are, in .venv-newest
	@$(PYTHON) -m venv .venv-newest
	$(MAKE) --no-print-directory with ENVIRONMENT=.venv-newest \
	    OPTIONS="--upgrade --upgrade-strategy eager"

.PHONY: with
with: export OMP_NUM_THREADS := 1
with:
	$(ENVIRONMENT)/bin/python -m pip -q install --upgrade pip
	$(ENVIRONMENT)/bin/python -m pip -q install torch==$(TORCH)
	echo torch==$(TORCH) > $(ENVIRONMENT)/torch.txt
	$(ENVIRONMENT)/bin/python -m pip -q install -e '.[dev]' $(OPTIONS) \
	    --constraint $(ENVIRONMENT)/torch.txt
	$(ENVIRONMENT)/bin/python -m pip freeze > $(ENVIRONMENT)/versions.txt
	$(ENVIRONMENT)/bin/pytest $(if $(TESTS),$(TESTS),-n 2 --dist loadfile -m "not slow")

lint: .venv/.installed-dev ## check formatting, style and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/.installed-dev ## format the code and apply safe fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: .venv/.installed-dev ## run the benchmarks; read the ratios, not the seconds
	$(BIN)/pytest benchmarks --benchmark-warmup=on --benchmark-sort=min \
	    --benchmark-group-by=group --benchmark-columns=min,median,iqr,rounds

# Contenders that need hundreds of megabytes have an environment of their own. DECOUPLED_DATA names
# the folder with the tables; what strong.jsonl has already is not repeated.
versus-strong: export OMP_NUM_THREADS := 1
versus-strong: ## compare with CatBoost, RealMLP and xRFM, in .venv-strong (an hour)
	@test -d "$(DECOUPLED_DATA)" || { \
	    echo "error: DECOUPLED_DATA='$(DECOUPLED_DATA)' is not a folder; it must have the tables" >&2; exit 2; }
	$(PYTHON) -m venv .venv-strong
	.venv-strong/bin/python -m pip -q install torch==$(TORCH)
	.venv-strong/bin/python -m pip -q install -e . catboost pytabkit xrfm
	.venv-strong/bin/python studies/strong.py run --out studies/strong.jsonl --data $(DECOUPLED_DATA)
	.venv-strong/bin/python studies/strong.py table studies/strong.jsonl --data $(DECOUPLED_DATA)

docs: .venv/.installed-docs ## build the site into docs/_build/html; warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -n docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# The wheel is built from the source distribution, so both are tried: with the newest versions of
# what it needs, and with the oldest that pyproject.toml promises.
dist: ## build sdist and wheel, and try the wheel in two empty environments, .venv-dist…
	rm -rf dist
	$(PYTHON) -m venv --clear .venv-dist
	.venv-dist/bin/python -m pip -q install build
	.venv-dist/bin/python -m build
	$(MAKE) --no-print-directory tried ENVIRONMENT=.venv-dist
	$(MAKE) --no-print-directory tried ENVIRONMENT=.venv-dist-lowest OPTIONS="--constraint oldest.txt"
	@echo "dist/ has what can be released"

# -I keeps the sources of this folder out of sight.
.PHONY: tried
tried:
	$(PYTHON) -m venv --clear $(ENVIRONMENT)
	$(LOWEST) > $(ENVIRONMENT)/oldest.txt
	$(ENVIRONMENT)/bin/python -m pip -q install torch==$(TORCH)
	cd $(ENVIRONMENT) && bin/python -m pip -q install ../dist/*.whl $(OPTIONS)
	$(ENVIRONMENT)/bin/python -m pip check
	$(ENVIRONMENT)/bin/python -m pip freeze > $(ENVIRONMENT)/versions.txt
	cd $(ENVIRONMENT) && bin/decoupled --help > /dev/null
	cd $(ENVIRONMENT) && bin/python -I ../examples/own_training_loop.py
	cd $(ENVIRONMENT) && bin/python -I -c "from sklearn.datasets import load_iris; \
	    load_iris(as_frame=True).frame.to_csv('iris.csv', index=False)"
	cd $(ENVIRONMENT) && bin/decoupled train iris.csv --target target --out result > result.txt
	cd $(ENVIRONMENT) && bin/decoupled predict result iris.csv --out predictions.csv

clean: ## remove caches and build products, keep .venv
	rm -rf build dist docs/_build docs/auto_examples docs/reference .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "error: Python 3.11 or newer is needed, $(PYTHON) is not; try make PYTHON=/path/to/python" >&2; \
	    exit 1; }
	@echo "creating .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv

.venv/.torch-$(TORCH): | .venv/bin/python
	@echo "installing torch $(TORCH) (about a minute, once)…"
	@$(PIP) install --upgrade pip
	@$(BIN)/python -m pip --disable-pip-version-check install torch==$(TORCH) # with its progress bar
	@touch $@

.venv/.installed: pyproject.toml .venv/.torch-$(TORCH)
	@echo "installing decoupled-descent and what it needs (about a minute, once)…"
	@$(BIN)/python -m pip --disable-pip-version-check install -e . # with its progress bar
	@touch $@

.venv/.installed-dev: pyproject.toml .venv/.torch-$(TORCH)
	@echo "installing decoupled-descent and the development tools…"
	@$(PIP) install -e '.[dev]'
	@touch .venv/.installed $@

.venv/.installed-docs: pyproject.toml .venv/.torch-$(TORCH)
	@echo "installing decoupled-descent and what builds the site…"
	@$(PIP) install -e '.[docs]'
	@touch .venv/.installed $@
