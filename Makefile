# Everything happens in this folder: the environment is .venv, compiled files are in build/.
# Nothing is done twice: an unchanged tree is neither installed nor compiled again.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
WEIGHTS ?= bf16
PROMPT ?= What is the capital of France?
JOBS ?= $(shell nproc)

VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
DEMO := build/demo
MODEL := $(DEMO)/smollm2
ENGINE := $(DEMO)/smollm2-$(WEIGHTS).engine

export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# The wheel and the C++ tests are two build trees: relative paths let them share compiled objects.
export CCACHE_BASEDIR := $(CURDIR)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

SOURCES := CMakeLists.txt pyproject.toml README.md LICENSE \
  $(shell find builder plugins python runtime_cpp -type f -not -path '*/__pycache__/*')
PYTHON_FOLDERS := builder plugins python tests benchmarks examples runtime_cpp .ci/requirements .ci/check-editable
CXX_FILES = $(shell git ls-files -co --exclude-standard '*.cc' '*.cpp' '*.h')

.PHONY: help deps docs fuzz setup setup-test demo test test-cpp test-python test-full sanitize soak bench \
  lint lint-python lint-types lint-cpp format clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: $(VENV)/.installed  ## system packages, .venv, build and install

setup-test: $(VENV)/.deps-test $(VENV)/.installed  ## the same, and what the tests need

# What a build without Python needs (the CMake preset `runtime`), made once, anywhere.
deps: build/deps/unicode_tables.inc  ## what the CMake preset `runtime` needs

build/deps/unicode_tables.inc: $(VENV)/.deps runtime_cpp/src/text/generate_unicode_tables.py
	mkdir -p $(@D)
	$(BIN)/python runtime_cpp/src/text/generate_unicode_tables.py $@

$(VENV)/.packages: .ci/packages.apt .ci/setup-packages
	.ci/setup-packages
	mkdir -p $(VENV) && touch $@

$(VENV)/.deps: pyproject.toml .ci/requirements $(VENV)/.packages
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python .ci/requirements fetch > $@.txt
	$(BIN)/pip install -q -r $@.txt
	touch $@

$(VENV)/.deps-test: $(VENV)/.deps .ci/packages.apt
	.ci/setup-packages test
	$(BIN)/python .ci/requirements test > $@.txt
	$(BIN)/pip install -q -r $@.txt
	touch $@

# Without build isolation: the paths of its temporary environment would make every file compile again.
$(VENV)/.installed: $(VENV)/.deps $(SOURCES)
	$(BIN)/pip install -q --no-build-isolation --no-deps .
	touch $@

demo: $(ENGINE)  ## a real small model: fetch, compile to one file, generate
	$(BIN)/slipstream run $(ENGINE) --prompt "$(PROMPT)"

$(MODEL)/config.json: $(VENV)/.installed
	$(BIN)/slipstream fetch smollm2-135m-instruct -o $(MODEL)
	touch $@

$(ENGINE): $(MODEL)/config.json
	$(BIN)/build-engine $(MODEL) -o $@ --weights $(WEIGHTS)

test: test-cpp test-python  ## all quick tests; needs no torch

test-cpp: build/cpp/.built  ## the C++ tests alone
	ctest --test-dir build/cpp --output-on-failure -j $(JOBS)

build/cpp/.built: $(VENV)/.deps $(SOURCES) $(shell find tests/cpp tests/fuzz -type f -not -path '*/__pycache__/*')
	cmake -S . -B build/cpp -G Ninja -DSLIPSTREAM_TESTS=ON -DPython_EXECUTABLE=$(BIN)/python
	cmake --build build/cpp
	touch $@

test-python: setup-test  ## the Python tests alone, against the installed wheel
	$(BIN)/python -m pytest -m "not full"

test-full: test-cpp setup-test sanitize  ## every test, the long ones too, and the C++ tests under sanitizers
	$(BIN)/python -m pytest

sanitize: sanitize-address,undefined sanitize-thread  ## the C++ tests under ASan, UBSan and TSan

# ThreadSanitizer does not start where the kernel randomizes addresses too widely for it; the tests run during the build, too.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

sanitize-%: $(VENV)/.deps
	cmake -S . -B build/$@ -G Ninja -DSLIPSTREAM_TESTS=ON -DSLIPSTREAM_SANITIZE=$* \
	  -DPython_EXECUTABLE=$(BIN)/python
	$(FIXED_ADDRESSES) cmake --build build/$@
	$(FIXED_ADDRESSES) ctest --test-dir build/$@ --output-on-failure -j $(JOBS)

MINUTES ?= 20
soak: setup-test  ## requests of every kind for MINUTES=20: answers as alone, no block lost, memory flat
	$(BIN)/python tests/soak/soak.py --minutes $(MINUTES)

# Every parser of untrusted bytes, FUZZ_SECONDS each. A crash is written to build/fuzz and belongs into
# tests/fuzz/corpus, whose files are replayed by the C++ tests.
FUZZ_SECONDS ?= 60
fuzz: setup-test  ## fuzz the parsers of untrusted bytes, a minute each
	.ci/setup-packages fuzz
	cmake -S . -B build/fuzz -G Ninja -DSLIPSTREAM_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++-14 \
	  -DPython_EXECUTABLE=$(BIN)/python
	cmake --build build/fuzz
	$(BIN)/python tests/fuzz/make_seeds.py build/fuzz/seeds
	cd build/fuzz && for target in tests/fuzz/fuzz_*; do \
	  name=$${target##*/fuzz_}; mkdir -p seeds/$$name; \
	  $$target -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=4000 -print_final_stats=1 \
	    seeds/$$name $(CURDIR)/tests/fuzz/corpus/$$name; \
	done
	cd build/fuzz && $(BIN)/python $(CURDIR)/tests/fuzz/safetensors_fuzz.py $(FUZZ_SECONDS)

docs: build/docs/.built  ## the C++ API as HTML, in build/docs

build/docs/.built: docs/Doxyfile $(VENV)/.packages $(wildcard runtime_cpp/include/slipstream/*.h docs/*.md docs/design/*.md)
	.ci/setup-packages docs
	mkdir -p build/docs
	doxygen docs/Doxyfile
	touch $@

bench:  ## tokens per second of SmolLM2 in f32 and bf16 on this machine
	$(MAKE) WEIGHTS=f32 $(DEMO)/smollm2-f32.engine
	$(MAKE) WEIGHTS=bf16 $(DEMO)/smollm2-bf16.engine
	$(BIN)/python benchmarks/cpu/run.py --engine f32=$(DEMO)/smollm2-f32.engine \
	  --engine bf16=$(DEMO)/smollm2-bf16.engine

# mypy knows one root a package: links give it the layout of the wheel.
build/types/slipstream: $(SOURCES)
	rm -rf $@ && mkdir -p $@
	ln -s $(CURDIR)/python/slipstream/* $@
	ln -s $(CURDIR)/builder $(CURDIR)/plugins/kernels $@
	touch $@

lint: lint-python lint-types lint-cpp  ## ruff, mypy, clang-format

lint-python: $(VENV)/.deps-test
	$(BIN)/ruff check $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)

lint-types: $(VENV)/.deps-test build/types/slipstream
	MYPYPATH=build/types $(BIN)/mypy -p slipstream

lint-cpp:
	clang-format-14 --dry-run -Werror $(CXX_FILES)

format: $(VENV)/.deps-test  ## let ruff and clang-format rewrite the files
	$(BIN)/ruff check --fix $(PYTHON_FOLDERS)
	$(BIN)/ruff format $(PYTHON_FOLDERS)
	clang-format-14 -i $(CXX_FILES)

clean:  ## remove build/ and .venv
	rm -rf build .venv
