// The extension loadgen._native: the engine, and a server of known behaviour for proofs. All times are int64
// nanoseconds. Instants of one run count from its start.
#pragma once
#include <pybind11/numpy.h>

#include "engine.h"

namespace loadgen {

using Times = pybind11::array_t<i64, pybind11::array::c_style | pybind11::array::forcecast>;
using Indexes = pybind11::array_t<u32, pybind11::array::c_style | pybind11::array::forcecast>;

// An engine, and the arrays that its run reads, which outlive it.
struct PyEngine {
  explicit PyEngine(Options options) : engine(std::move(options)) {}
  ~PyEngine() {
    pybind11::gil_scoped_release free;
    engine.stop(0);
  }
  Times times;
  Indexes payload_index;
  Engine engine;
};
using EngineClass = pybind11::class_<PyEngine>;

EngineClass bind_engine(pybind11::module_& module);
void bind_histogram(pybind11::module_& module);
void bind_result(pybind11::module_& module, EngineClass& engine);  // what an engine returns

}  // namespace loadgen
