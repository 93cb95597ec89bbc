# Compiles the C++ sources once, for the extensions, the native tests and the benchmarks alike. The Makefile includes
# this file; setup.py calls it alone and links the extensions.
#   SAN=address|thread|undefined  a sanitized build, in a folder of its own
#   NGHTTP2=DIR                   another nghttp2 than the system's: DIR/include, DIR/lib
#   PYTHON_TAG, PYTHON_FLAGS      of the Python that the extensions are for: a folder's name, and -I of its headers
CXX ?= g++
SAN ?=
NGHTTP2 ?=
NATIVE := build/native$(if $(SAN),-$(SAN))
FLAGS := -std=c++20 -g1 -Wall -Wextra -pthread -fPIC -fvisibility=hidden -fno-plt \
  $(if $(SAN),-O1 -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all,-O3) $(if $(NGHTTP2),-I$(NGHTTP2)/include)
LIBRARIES := -Wl,--as-needed $(if $(NGHTTP2),-L$(NGHTTP2)/lib) -lnghttp2 -lsimdjson -lz -lssl -lcrypto

PARTS := contract core text/unicode text/words text/spaced text/bpe text/unigram text/wordpiece text/load text step step/encode step/decode step/cpu step/cpu/products step/cuda step/sim \
  transport/net transport/tls transport/framing transport/standard transport/rpc transport/http transport/calls transport/http1 transport/http2 transport/loop \
  h2client edge/upstream edge/messages edge service service/formats service/tables service/intake service/answers \
  protocols protocols/json protocols/oip protocols/openai protocols/tei protocols/rerank protocols/cohere protocols/vllm protocols/ollama protocols/step
# A folder is one unit of compilation, since reading common headers takes most of the time. In these folders each file is
# one, with the same code for other instructions.
BY_FILE := step/cpu step/cpu/products
UNITS := $(patsubst %,$(NATIVE)/%.o,$(filter-out $(BY_FILE),$(PARTS)))
FILES := $(patsubst csrc/%.cpp,$(NATIVE)/%.o,$(foreach part,$(BY_FILE),$(wildcard csrc/$(part)/*.cpp)))
LOADGEN_UNITS := $(NATIVE)/loadgen/csrc.o $(patsubst %,$(NATIVE)/loadgen/csrc/%.o,connection record server)

# Vendored: third_party/README.md. Its version is here too, since the extensions' checksums cover this file: v1.1.
ZMIJ := $(NATIVE)/third_party/zmij/zmij.o

$(NATIVE)/libfastqps.a: $(UNITS) $(FILES) $(ZMIJ)
	@rm -f $@
	$(AR) rcs $@ $^
$(NATIVE)/libloadgen.a: $(LOADGEN_UNITS)
	@rm -f $@
	$(AR) rcs $@ $^

# A unit includes all files of its folder. It is written again when these are others.
sources = $(sort $(wildcard $(patsubst $(NATIVE)/units/%.cpp,%,$@)/*.cpp))
write_unit = mkdir -p $(@D); printf '\#include "%s"\n' $(sources) | cmp -s - $@ || printf '\#include "%s"\n' $(sources) >$@
.PHONY: always
$(UNITS:$(NATIVE)/%.o=$(NATIVE)/units/csrc/%.cpp) $(LOADGEN_UNITS:$(NATIVE)/%.o=$(NATIVE)/units/%.cpp): always
	@$(write_unit)
$(UNITS): $(NATIVE)/%.o: $(NATIVE)/units/csrc/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Wno-subobject-linkage -I. -Icsrc -MMD -MP -c $< -o $@
$(FILES): $(NATIVE)/%.o: csrc/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Icsrc -MMD -MP -c $< -o $@
$(ZMIJ): $(NATIVE)/%.o: %.cc $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -w -MMD -MP -c $< -o $@
$(LOADGEN_UNITS): $(NATIVE)/%.o: $(NATIVE)/units/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -I. -Iloadgen/csrc -Icsrc -MMD -MP -c $< -o $@

# Other flags make every object anew.
$(NATIVE)/flags: always
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' >$@

# ---- the extensions. setup.py writes build/identity/NAME.cpp: what NAME is built for and from.
PYTHON_TAG ?=
BIND := $(NATIVE)/$(PYTHON_TAG)
BIND_UNITS := $(BIND)/csrc/bind/core.o $(BIND)/csrc/bind/front.o $(BIND)/loadgen/csrc/bind.o
IDENTITIES := $(patsubst %,$(BIND)/identity/%.o,_core _front loadgen)

.PHONY: extensions
extensions: $(BIND)/fastqps._core.so $(BIND)/fastqps._front.so $(BIND)/loadgen._native.so
# Bindings come first: they take longest to compile.
$(BIND)/fastqps._core.so: $(BIND)/csrc/bind/core.o $(BIND)/identity/_core.o $(NATIVE)/libfastqps.a
	$(CXX) $(FLAGS) -shared $^ $(LIBRARIES) -o $@
$(BIND)/fastqps._front.so: $(BIND)/csrc/bind/front.o $(BIND)/identity/_front.o $(NATIVE)/libfastqps.a
	$(CXX) $(FLAGS) -shared $^ $(LIBRARIES) -o $@
$(BIND)/loadgen._native.so: $(BIND)/loadgen/csrc/bind.o $(BIND)/identity/loadgen.o $(NATIVE)/libloadgen.a $(NATIVE)/libfastqps.a
	$(CXX) $(FLAGS) -shared $^ $(LIBRARIES) -o $@
$(IDENTITIES): $(BIND)/identity/%.o: build/identity/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -c $< -o $@
$(BIND_UNITS:$(BIND)/%.o=$(NATIVE)/units/%.cpp): always
	@$(write_unit)
$(BIND_UNITS): $(BIND)/%.o: $(NATIVE)/units/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -I. $(if $(filter loadgen/%,$*),-Iloadgen/csrc) -Icsrc $(PYTHON_FLAGS) -MMD -MP -c $< -o $@

-include $(shell find $(NATIVE) -name '*.d' 2>/dev/null)
