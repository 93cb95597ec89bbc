# Compiles every C++ source once, for the extensions, the native tests and the benchmarks alike. The Makefile includes
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

PARTS := core text/unicode text/words text/spaced text/bpe text/unigram text/wordpiece text step step/encode step/decode step/cpu step/cpu/int8 step/cuda step/sim wire net/tls net grpc/services grpc http calls calls/rare http1 http2 front \
  predict predict/formats predict/tables predict/intake predict/tokenize predict/answers predict/upkeep json oip openai tei
OBJECTS := $(patsubst csrc/%.cpp,$(NATIVE)/%.o,$(foreach part,$(PARTS),$(wildcard csrc/$(part)/*.cpp)))
LOADGEN_OBJECTS := $(patsubst loadgen/csrc/%.cpp,$(NATIVE)/loadgen/%.o,$(wildcard loadgen/csrc/*.cpp $(foreach part,connection record server,loadgen/csrc/$(part)/*.cpp)))

$(NATIVE)/libfastqps.a: $(OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^
$(NATIVE)/libloadgen.a: $(LOADGEN_OBJECTS)
	@rm -f $@
	$(AR) rcs $@ $^
$(NATIVE)/loadgen/%.o: loadgen/csrc/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Iloadgen/csrc -MMD -MP -c $< -o $@
$(NATIVE)/%.o: csrc/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Icsrc -MMD -MP -c $< -o $@

# Other flags make every object anew.
.PHONY: always
$(NATIVE)/flags: always
	@mkdir -p $(@D)
	@echo '$(FLAGS)' | cmp -s - $@ || echo '$(FLAGS)' >$@

# ---- the extensions. setup.py writes build/identity/NAME.cpp: what NAME is built for and from.
PYTHON_TAG ?=
BIND := $(NATIVE)/$(PYTHON_TAG)
core_OBJECTS := $(patsubst csrc/bind/%.cpp,$(BIND)/%.o,$(wildcard csrc/bind/core/*.cpp)) $(BIND)/identity/_core.o
front_OBJECTS := $(patsubst csrc/bind/%.cpp,$(BIND)/%.o,$(wildcard csrc/bind/front/*.cpp)) $(BIND)/identity/_front.o
loadgen_OBJECTS := $(patsubst loadgen/csrc/bind/%.cpp,$(BIND)/loadgen/%.o,$(wildcard loadgen/csrc/bind/*.cpp)) $(BIND)/identity/loadgen.o

.PHONY: extensions
extensions: $(BIND)/fastqps._core.so $(BIND)/fastqps._front.so $(BIND)/loadgen._native.so
# Bindings come first: they take longest to compile.
$(BIND)/fastqps._core.so: $(core_OBJECTS) $(NATIVE)/libfastqps.a
	$(CXX) $(FLAGS) -shared $^ -o $@
$(BIND)/fastqps._front.so: $(front_OBJECTS) $(NATIVE)/libfastqps.a
	$(CXX) $(FLAGS) -shared $^ $(LIBRARIES) -o $@
$(BIND)/loadgen._native.so: $(loadgen_OBJECTS) $(NATIVE)/libloadgen.a
	$(CXX) $(FLAGS) -shared $^ $(LIBRARIES) -o $@
$(BIND)/identity/%.o: build/identity/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Icsrc -c $< -o $@
$(BIND)/loadgen/%.o: loadgen/csrc/bind/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Iloadgen/csrc $(PYTHON_FLAGS) -MMD -MP -c $< -o $@
$(BIND)/%.o: csrc/bind/%.cpp $(NATIVE)/flags
	@mkdir -p $(@D)
	$(CXX) $(FLAGS) -Icsrc $(PYTHON_FLAGS) -MMD -MP -c $< -o $@

-include $(shell find $(NATIVE) -name '*.d' 2>/dev/null)
