# Two commands do everything on a fresh machine with Python 3.11+, git and make:
#   make demo   runs the main job on the embedded dataset
#   make test   runs the tests
# and one is for every change:
#   make near   runs the tests near to what has changed since the last commit
PYTHON ?= python3
BIN := .venv/bin
# What the demo needs, and what everything else needs besides.
DEMO := .venv/.demo
READY := .venv/.ready
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python

# The versions that CI uses, each with the hashes of its files; `make lock` renews it.
LOCK := requirements.lock
# Pinned, and not in the lock: which of its builds fits, and with which files of CUDA, is the machine's matter.
TORCH := torch==2.13.0
# The versions of the lock alone, torch's included.
PINS := { sed -n 's/^\([^ \#]*==[^ ]*\).*/\1/p' $(LOCK); echo $(TORCH); }

# Compiled files are kept, whatever the environment says: uv leaves it to the first import to make them.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo near test test-all cover check types gate light lock sbom audit site board docs axe typescript clean

demo: $(DEMO)
	$(BIN)/bench run

# On all cores; a worker that has nothing left to do takes tests of another.
PYTEST := $(BIN)/python -m pytest
SIDE_BY_SIDE := -n auto --dist worksteal

near: $(READY)
	$(PYTEST) -n auto --maxschedchunk=1 --near -q

test: $(READY)
	$(PYTEST) $(SIDE_BY_SIDE) $(ALL)

# The slow tests too, in the same run.
test-all: ALL := --all
test-all: test

# Lines and branches that the tests run.
cover: $(READY)
	$(BIN)/python benchmarks/cover.py run
	$(BIN)/python benchmarks/cover.py show

# What CI checks in addition to the tests: style and types.
check: $(READY) types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy sees the package as it is installed, with the three folders next to `bench/` inside it, through a folder of links.
types: $(READY)
	rm -rf build/typed && mkdir -p build/typed/bench
	ln -s $(CURDIR)/bench/* $(CURDIR)/datasets $(CURDIR)/leaderboard $(CURDIR)/methods build/typed/bench/
	$(BIN)/mypy --num-workers 2 build/typed/bench tests benchmarks

# Retrieval against blessed baselines; what a method answers may change on purpose only (EFFECTIVENESS.md).
# nearest-query learns from past queries, and apibank has none.
GATED := bm25@starter dense@starter tgr@starter nearest-query@starter bm25@apibank dense@apibank tgr@apibank
GATE_RESULTS := build/gate

gate: export BENCH_MIRROR ?= $(wildcard ../shared/mirror)
gate: export BENCH_RESULTS = $(GATE_RESULTS)
gate: export BENCH_OFFLINE = 1
gate: $(READY)
	rm -rf $(GATE_RESULTS)
	$(BIN)/bench run --quiet -m bm25 -m dense -m tgr -m nearest-query -d starter
	$(BIN)/bench run --quiet -m bm25 -m dense -m tgr -d apibank
	@set -e; for name in $(GATED); do \
		file=baselines/$${name#*@}-$${name%@*}.json; \
		echo "gate $$name: $$file"; \
		$(BIN)/bench gate "$$name" --baseline $$file --policy baselines/gate.toml > $(GATE_RESULTS)/report.txt \
			|| { code=$$?; cat $(GATE_RESULTS)/report.txt; exit $$code; }; \
	done

# The base installation in an environment of its own: its time and size, and the main verbs without any extra.
LIGHT := build/light

light: $(READY)
	rm -rf $(LIGHT) && $(PYTHON) -m venv --without-pip $(LIGHT)/venv
	$(PINS) > $(LIGHT)/pins
	@started=$$(date +%s); \
		$(BIN)/uv pip install --quiet --python $(LIGHT)/venv/bin/python --constraint $(LIGHT)/pins . && \
		echo "installed in $$(( $$(date +%s) - started )) s, $$(du -sm $(LIGHT)/venv | cut -f1) MB"
	PATH="$(CURDIR)/$(LIGHT)/venv/bin:$$PATH" sh .ci/light $(LIGHT)/work

# The newest versions that work together, tried in a fresh environment, with the hashes of all their files, so that the
# lock holds on every machine. It names no index.
lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/pip install --quiet $(TORCH)
	build/lock/bin/pip install --quiet ".[dev]"
	build/lock/bin/pip freeze --quiet --exclude tool-retrieval-bench --exclude torch > build/lock/frozen
	build/lock/bin/pip install --quiet uv
	build/lock/bin/uv pip compile --quiet --no-config --no-deps --no-header --no-annotate --generate-hashes \
		--output-file build/lock/hashed build/lock/frozen
	echo "# The versions that CI uses, with the hashes of their files. Written by \`make lock\`." > build/lock/$(LOCK)
	cat build/lock/hashed >> build/lock/$(LOCK)
	mv build/lock/$(LOCK) $(LOCK)

# What is installed, as a bill of materials in CycloneDX' format; and advisories for the locked versions, from PyPI: that one
# needs the network, and fails if there is no pin or if PyPI does not know one of them.
SUPPLY := build/supply

$(SUPPLY)/.ready:
	rm -rf $(SUPPLY) && $(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/pip install --quiet "cyclonedx-bom>=7" "pip-audit>=2.9"
	touch $@

sbom: $(READY) $(SUPPLY)/.ready
	$(SUPPLY)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json $(BIN)/python

audit: $(SUPPLY)/.ready
	$(PINS) > $(SUPPLY)/pins
	test $$(wc -l < $(SUPPLY)/pins) -gt 1
	$(SUPPLY)/bin/pip-audit --strict --requirement $(SUPPLY)/pins --no-deps --disable-pip

# The site of the results in SITE_RESULTS, by default those that the repository keeps; only pages that changed are written.
# REPRODUCTION is a report of `bench reproduce` that is shown with them, BASELINES are shown over time, RANKING_SET lists
# the reference systems.
SITE_RESULTS ?= board/results
SITE ?= site
REPRODUCTION ?= $(if $(filter board/results,$(SITE_RESULTS)),board/reproduction.json)
BASELINES ?= $(if $(filter board/results,$(SITE_RESULTS)),baselines)
RANKING_SET ?= $(if $(filter board/results,$(SITE_RESULTS)),board/ranking_set.toml)

site: export BENCH_MIRROR ?= $(wildcard ../shared/mirror)
site: $(READY)
	$(BIN)/bench leaderboard build --results $(SITE_RESULTS) --out $(SITE) \
		$(if $(REPRODUCTION),--reproduction $(REPRODUCTION)) $(if $(BASELINES),--baselines $(BASELINES)) \
		$(if $(RANKING_SET),--ranking-set $(RANKING_SET))

# Recreates the results that the repository keeps: manifests, metrics and per-query values of all, rankings where they
# are small; and lists the reference systems. With BENCH_DATA=. the models of `bench reproduce train` are in models/;
# without them what needs them is
# left out. Results in BOARD that are still valid are kept.
BOARD := build/board
LARGEST_RANKING := 128k
STRESSED := bm25 tfidf bm25-fields dense hybrid recommended rrf names mcp-zero random
STRESSED_DATA := starter livemcpbench github-mcp apibank toollens-domains

board: export BENCH_MIRROR ?= $(wildcard ../shared/mirror)
board: export BENCH_DATA = .
board: $(READY)
	@set -e; for file in board/experiments/*.toml; do \
		case $$file in */trained-*) [ -d models ] || continue;; esac; \
		echo "bench run $$file"; \
		$(BIN)/bench run $$file --results $(BOARD)/results --quiet > /dev/null; \
	done
	$(BIN)/bench reproduce all --results $(BOARD)/reproduction --out $(BOARD) --quiet > /dev/null
	rm -rf board/results
	cp -r $(BOARD)/results board/results
	find board/results -name run.parquet -size +$(LARGEST_RANKING) -printf '%h\0' \
		| xargs -0 $(BIN)/bench results rm --ranking --yes > /dev/null
	find board/results -mindepth 1 \( -name '.*' -o -name stress.json \) -prune -exec rm -rf {} +
	cp $(BOARD)/reproduction.json board/reproduction.json
	$(BIN)/bench leaderboard references board/ranking_set.toml --results board/results
	$(BIN)/bench submit check --without-runs board/results > $(BOARD)/check.txt || { cat $(BOARD)/check.txt; exit 1; }
	@set -e; for data in $(STRESSED_DATA); do \
		$(BIN)/bench stress $(STRESSED) --dataset $$data --results $(BOARD)/results --quiet > /dev/null; \
	done
	cd $(BOARD)/results && find . -name stress.json -exec cp --parents {} $(CURDIR)/board/results \;

# The engine that judges the site's pages for accessibility; tests of them are skipped without it. Needs npm.
AXE := build/axe
AXE_VERSION := 4.14.1

axe:
	npm install --silent --prefix $(AXE) --no-save --no-package-lock --ignore-scripts --no-audit --no-fund axe-core@$(AXE_VERSION)

# What runs and checks the example of a retriever in TypeScript; tests of it are skipped without it. Needs npm.
TYPESCRIPT := build/typescript
TYPESCRIPT_PACKAGES := tsx@4.23.15 typescript@7.0.2 @types/node@20.19.43

typescript:
	npm install --silent --prefix $(TYPESCRIPT) --no-save --no-package-lock --ignore-scripts --no-audit --no-fund $(TYPESCRIPT_PACKAGES)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

# pip brings uv, in the lock's version, and torch, whose build pip alone is told of on some machines; uv installs the rest,
# in seconds. Each file is held against the lock's hashes.
$(DEMO): pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "bench needs Python 3.11 or newer; name one with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' $(LOCK) > .venv/uv.txt
	$(BIN)/pip install --quiet --require-hashes --no-deps --requirement .venv/uv.txt
	$(BIN)/pip install --quiet --no-compile --no-deps $(TORCH)
	$(UV) --constraint $(LOCK) hatchling
	$(UV) --constraint $(LOCK) --no-build-isolation --editable ".[models]"
	touch $(DEMO)

$(READY): $(DEMO)
	$(UV) --require-hashes --no-deps --requirement $(LOCK)
	touch $(READY)

# The documentation as a site in build/docs. Strict: a broken link or an undocumented name of the API fails.
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(READY)
	$(BIN)/python docs/pages.py build/docs-pages
	$(BIN)/python -m mkdocs build --strict --quiet
