#pragma once
#include <pybind11/pybind11.h>

namespace fastqps::bind {

// Adds the submodule `wire` to a module.
void register_wire(pybind11::module_& parent);

}  // namespace fastqps::bind
