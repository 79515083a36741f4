# Everything a person needs: `make demo`, `make test`, `make check`. Needs Python 3.11 to 3.14 and a package index.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test check format bench clean

$(INSTALLED): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(INSTALLED)

demo: $(INSTALLED)
	$(BIN)/loopwright run matmul --policy polyhedral --size large --evaluations 6

test: $(INSTALLED)
	$(BIN)/python -m pytest -m "not long and not alone" -n logical --maxprocesses 4 --dist worksteal
	$(BIN)/python -m pytest -m "not long and alone"

check: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(INSTALLED)
	$(BIN)/python -m pytest benchmarks --benchmark-enable --benchmark-only

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache build dist
