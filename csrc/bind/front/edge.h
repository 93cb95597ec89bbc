// The dispatcher of an edge, for Python.
#pragma once
#include <pybind11/pybind11.h>

namespace fastqps::bind {

// Registers EdgeDispatcher.
void register_edge(pybind11::module_& m);

}  // namespace fastqps::bind
