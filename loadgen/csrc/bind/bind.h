// The extension loadgen._native; loadgen/_native.pyi describes what each part adds to it.
#pragma once
#include <pybind11/pybind11.h>

#include "record/histogram.h"

namespace loadgen {

void bind_engine(pybind11::module_& module);
void bind_server(pybind11::module_& module);
void bind_histogram(pybind11::module_& module);

pybind11::dict to_dict(const Histogram& histogram);

}  // namespace loadgen
