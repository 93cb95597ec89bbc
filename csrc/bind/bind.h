// csrc/bind is the only place that sees pybind11. One register_ function for each type or noun; module files call them
// in order.
#pragma once
#include <pybind11/pybind11.h>

#include "core/segment.h"
#include "core/wake.h"

namespace fastqps::bind {

void register_segment(pybind11::module_& m);
void register_processes(pybind11::module_& m);
void register_load(pybind11::module_& m);
void register_upstreams(pybind11::module_& m);
void register_models(pybind11::module_& m);
void register_load_window(pybind11::module_& m);
void register_step(pybind11::module_& m);
void register_options(pybind11::module_& m);
void register_decode(pybind11::module_& m);
void register_sim(pybind11::module_& m);
void register_cuda(pybind11::module_& m);
void register_cpu_ops(pybind11::module_& m);
void register_cpu_decode(pybind11::module_& m);
void register_text(pybind11::module_& m);
void register_trace(pybind11::module_& m);
void register_edge(pybind11::module_& m);
void register_wire(pybind11::module_& m);
void register_json(pybind11::module_& wire);  // adds parse_json to that submodule

// The segment as Python holds it.
struct SegmentHandle {
  Segment segment;
};

// Which version and which sources an extension was built from. setup.py writes the definitions, one file for each
// extension; fastqps/_native.py compares them when the extension is imported.
extern const char* const kBuiltVersion;
extern const char* const kBuiltSources;

// First of all in a module: throws ImportError if the extension is not the one of the Python code around it.
inline void check_identity(const char* name) {
  pybind11::module_::import("fastqps._native").attr("check")(name, kBuiltVersion, kBuiltSources);
}

}  // namespace fastqps::bind
