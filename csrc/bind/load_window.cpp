#include "core/load_window.h"

#include <pybind11/stl.h>

#include "bind/bind.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

using OfModel = double (LoadWindow::*)(u32) const;

py::dict shown(const LoadWindow& window, const Load& load, OfModel queue_wait_s, OfModel step_s) {
  py::list waits, steps;
  for (u32 m = 0; m < window.models(); m++) waits.append((window.*queue_wait_s)(m)), steps.append((window.*step_s)(m));
  return py::dict("seconds"_a = load.seconds, "asked"_a = load.asked, "errors"_a = load.errors, "items"_a = load.items,
                  "in_flight"_a = load.in_flight, "slots"_a = load.slots, "dispatcher"_a = load.dispatcher,
                  "frontdoor"_a = load.frontdoor, "device"_a = load.device, "queue_wait_s"_a = waits,
                  "step_s"_a = steps);
}

}  // namespace

void register_load_window(py::module_& m) {
  py::class_<LoadWindow>(m, "LoadWindow", "What the whole server did in the last 10 s, and in the last second.")
      .def(py::init(
               [](const SegmentHandle& s, const BusyUnion& busy) { return new LoadWindow(s.segment, busy, now_ns()); }),
           "segment"_a, "busy"_a, py::keep_alive<1, 3>())
      .def(
          "look", [](LoadWindow& self) { self.look(now_ns()); },
          "Reads all counters; ten times a second, after BusyUnion.update.")
      .def(
          "long",
          [](const LoadWindow& self) {
            return shown(self, self.over_long(), &LoadWindow::queue_wait_long_s, &LoadWindow::step_long_s);
          },
          "Means over 10 s: items per second, items in flight, shares of 1; by model queue_wait_s, the p95, and "
          "step_s.")
      .def(
          "short",
          [](const LoadWindow& self) {
            return shown(self, self.over_short(), &LoadWindow::queue_wait_short_s, &LoadWindow::step_short_s);
          },
          "The same over one second.")
      .def_property_readonly("items_waiting", &LoadWindow::items_waiting, "At the last look.")
      .def_property_readonly("items_running", &LoadWindow::items_running, "At the last look.");
}

}  // namespace fastqps::bind
