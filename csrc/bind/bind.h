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
void register_decode(pybind11::module_& m);
void register_sim(pybind11::module_& m);
void register_cuda(pybind11::module_& m);
void register_cpu_ops(pybind11::module_& m);
void register_cpu_decode(pybind11::module_& m);
void register_text(pybind11::module_& m);
void register_trace(pybind11::module_& m);

// The segment as Python holds it.
struct SegmentHandle {
  Segment segment;
};

}  // namespace fastqps::bind
