// The extension loadgen._native; loadgen/_native.pyi describes what each part adds to it.
#pragma once
#include <pybind11/pybind11.h>

#include "engine.h"

namespace loadgen {

void bind_engine(pybind11::module_& module);

pybind11::dict to_dict(const Histogram& histogram);
pybind11::dict to_dict(const Interval& interval);
// The result of an engine whose run has ended.
pybind11::dict result_of(Engine& engine);

}  // namespace loadgen
