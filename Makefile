# Two commands do everything on a fresh machine with Python 3.11+, git and make:
#   make demo   runs the main job on the embedded dataset
#   make test   runs the tests
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check clean

demo: $(READY)
	$(BIN)/bench run

test: $(READY)
	$(BIN)/python -m pytest -n auto

# What CI checks beside the tests: style, and types of an installed copy (the mapped package names exist only there).
check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/typed build/lib
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --target build/typed .
	MYPYPATH=build/typed $(BIN)/mypy -p bench
	$(BIN)/mypy benchmarks/*.py

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "bench needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	# First and pinned: left to itself, sentence-transformers takes the newest build, with gigabytes of CUDA on Linux.
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $(READY)
