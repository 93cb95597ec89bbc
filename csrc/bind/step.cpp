#include <pybind11/stl.h>

#include "bind/bind.h"
#include "step/stepper.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

template <class T>
T* address(u64 value) {
  return reinterpret_cast<T*>(value);
}

// Keeps what the stepper refers to alive.
struct StepperHandle {
  WakeFds fds;
  Stepper stepper;
  StepperHandle(Segment segment, const WakeFds& wake, u32 me, u32 epoch, u32 route, BatchLimits limits)
      : fds(wake), stepper(segment, &fds, me, epoch, route, limits) {}
  const Step& at(u32 s) const { return stepper.step(s); }
};

}  // namespace

void register_step(py::module_& m) {
  py::class_<StepperHandle>(m, "Stepper",
                            "A dispatcher's moves around the device; see csrc/step/stepper.h. One thread.")
      .def(py::init([](const SegmentHandle& s, const WakeFds& fds, u32 me, u32 epoch, u32 route, u32 items, u32 tokens,
                       u64 delay_ns) {
             const Sizes& sizes = s.segment.sizes();
             if (me >= sizes.dispatchers || route >= sizes.routes()) throw py::index_error();
             return new StepperHandle(s.segment, fds, me, epoch, route, BatchLimits{items, tokens, delay_ns});
           }),
           "segment"_a, "wake_fds"_a, "me"_a, py::kw_only(), "epoch"_a, "route"_a, "max_items"_a, "max_tokens"_a,
           "delay_ns"_a)
      .def(
          "add",
          [](StepperHandle& self, u64 input_ids, u64 position_ids, u64 token_type_ids, u64 cu_seqlens, u64 output,
             u32 max_items, u32 max_tokens, u32 width) {
            return self.stepper.add({address<i32>(input_ids), address<i32>(position_ids), address<i32>(token_type_ids),
                                     address<i32>(cu_seqlens), address<const float>(output), max_items, max_tokens,
                                     width});
          },
          py::kw_only(), "input_ids"_a, "position_ids"_a, "token_type_ids"_a, "cu_seqlens"_a, "output"_a, "max_items"_a,
          "max_tokens"_a, "width"_a, "Adds a set of buffers by their addresses; returns its step's index.")
      .def(
          "gather",
          [](StepperHandle& self, u32 s, u32 in_flight, int timeout_ms) {
            py::gil_scoped_release nogil;
            return int(self.stepper.gather(s, in_flight, timeout_ms));
          },
          "step"_a, "in_flight"_a, "timeout_ms"_a,
          "1: the step holds items; 0: nothing now; -1: declared dead, exit at once.")
      .def(
          "ahead_s", [](const StepperHandle& self) { return double(self.stepper.ahead_ns()) / 1e9; },
          "Seconds until it is time to gather the next step while the newest one runs.")
      .def(
          "launch", [](StepperHandle& self, u32 s) { return self.stepper.launch(s); }, "step"_a,
          "False: declared dead.")
      .def(
          "scatter", [](StepperHandle& self, u32 s) { return self.stepper.scatter(s); }, "step"_a,
          "False: declared dead.")
      .def(
          "shape",
          [](const StepperHandle& self, u32 s) {
            return py::make_tuple(self.at(s).n_items, self.at(s).n_tokens, self.at(s).len_max);
          },
          "step"_a, "(items, tokens, longest item's tokens) of a gathered step.")
      .def("set_ready", [](StepperHandle& self) { self.stepper.set_ready(); })
      .def("leave", [](StepperHandle& self) { self.stepper.leave(); });
}

}  // namespace fastqps::bind
