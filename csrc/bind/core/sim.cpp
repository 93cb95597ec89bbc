// Modelled devices for Python: fastqps/devices/sim.py is what runs on them.
#include <pybind11/stl.h>

#include "bind/bind.h"
#include "core/clock.h"
#include "step/sim/sim_timeline.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

using Points = std::vector<std::pair<double, double>>;

// A device's costs, and its word: of the segment where dispatchers share the device, else its own.
struct SimDevice {
  SimDevice(SimCost cost, u64 launch_ns, std::atomic<u64>* shared_until_ns)
      : cost(std::move(cost)), launch_ns(launch_ns), timeline(shared_until_ns ? *shared_until_ns : own_until_ns_) {}
  SimCost cost;
  u64 launch_ns;
  SimTimeline timeline;

 private:
  std::atomic<u64> own_until_ns_{0};
};

struct SimStream {
  std::shared_ptr<SimDevice> device;
  u64 end_ns = 0;  // of its newest step
};

std::pair<u64, u64> launch(SimStream& self, u32 tokens, u32 items) {
  SimDevice& device = *self.device;
  burn_cpu(device.launch_ns);  // with the GIL, as a real launch from Python
  const auto [start, end] = device.timeline.reserve(now_ns(), self.end_ns, device.cost.of(tokens, items));
  self.end_ns = end;
  return {start, end};
}

}  // namespace

void register_sim(py::module_& m) {
  py::class_<SimStream>(m, "SimStream", "Steps of a modelled device that run one behind the other.")
      .def("launch", &launch, "tokens"_a, "items"_a, "Pays for the launch; (start, end) of the step, in ns.");
  py::class_<SimDevice, std::shared_ptr<SimDevice>>(
      m, "SimDevice", "A modelled device, as this process sees it; see csrc/step/sim/sim_timeline.h.")
      .def(py::init([](double fixed_ns, double overlap, Points tokens, Points items, u64 launch_ns,
                       std::optional<SegmentHandle> segment, u32 index) {
             if (segment && index >= segment->segment.sizes().devices) throw py::index_error();
             return std::make_shared<SimDevice>(SimCost{fixed_ns, overlap, {std::move(tokens)}, {std::move(items)}},
                                                launch_ns,
                                                segment ? &segment->segment.device(index).sim_until_ns : nullptr);
           }),
           py::kw_only(), "fixed_ns"_a, "overlap"_a, "tokens"_a, "items"_a, "launch_ns"_a = 0, "segment"_a = py::none(),
           "index"_a = 0)
      .def("stream", [](std::shared_ptr<SimDevice> self) { return SimStream{std::move(self)}; })
      .def(
          "step_ns",
          [](const SimDevice& self, u32 tokens, u32 items) {
            const SimStep step = self.cost.of(tokens, items);
            return step.shared_ns + step.hidden_ns;
          },
          "tokens"_a, "items"_a, "How long a step takes that has the device for itself.");
  m.def(
      "wait_until",
      [](u64 ns) {
        py::gil_scoped_release nogil;
        return wait_until(ns);
      },
      "ns"_a, "Sleeps until that moment of CLOCK_MONOTONIC. False: a signal came first.");
}

}  // namespace fastqps::bind
