#pragma once
#include <pybind11/pybind11.h>

namespace fastqps::bind {

// Adds parse_json to the submodule `wire`.
void register_json(pybind11::module_& wire);

}  // namespace fastqps::bind
