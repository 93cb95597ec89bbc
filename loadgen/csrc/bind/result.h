// Results as Python's dicts.
#pragma once
#include <pybind11/pybind11.h>

#include "engine.h"

namespace loadgen {

pybind11::dict to_dict(const Interval& interval);
// Throws std::logic_error until the run has ended.
pybind11::dict result_of(Engine& engine);

}  // namespace loadgen
