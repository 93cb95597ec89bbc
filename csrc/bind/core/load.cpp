// Exports the processes' counters and the load that follows from them.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bind/segment.h"
#include "core/load_window.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

py::dict histogram(const Histogram& h) {
  py::array_t<u64> buckets(Histogram::kBuckets);
  u64* out = buckets.mutable_data();
  for (u32 i = 0; i < Histogram::kBuckets; i++) out[i] = h.bucket[i].load(kRelaxed);
  return py::dict("count"_a = h.count.load(kRelaxed), "sum"_a = h.sum.load(kRelaxed), "buckets"_a = buckets);
}

template <size_t N>
py::dict named(const std::atomic<u64> (&values)[N], const char* const (&names)[N]) {
  py::dict out;
  for (size_t i = 0; i < N; i++) out[names[i]] = values[i].load(kRelaxed);
  return out;
}

py::dict stats(const SegmentHandle& self, u32 i) {
  const Segment& g = self.segment;
  if (i >= g.sizes().doors + g.sizes().dispatchers) throw py::index_error();
  const Stats& s = i < g.sizes().doors ? g.door_stats(i) : g.dispatcher_stats(i - g.sizes().doors);
  py::dict out, stage;
  for (u32 k = 0; k < kStages; k++) stage[kStageNames[k]] = histogram(s.stage[k]);
  out["stage"] = stage;
  py::list request;  // by model and method
  for (u32 m = 0; m < g.sizes().models; m++) {
    py::list of_model;
    for (const Histogram& of_method : s.request[m]) of_model.append(histogram(of_method));
    request.append(of_model);
  }
  out["request"] = request;
  out["batch_items"] = histogram(s.batch_items);
  out["batch_tokens"] = histogram(s.batch_tokens);
  using Shape = std::vector<py::ssize_t>;
  py::array_t<u64> requests(Shape{kModelsMax, kMethods, kCodes}), items(Shape{kModelsMax, kCodes});
  auto r = requests.mutable_unchecked<3>();
  auto t = items.mutable_unchecked<2>();
  for (u32 m = 0; m < kModelsMax; m++)
    for (u32 c = 0; c < kCodes; c++) {
      t(m, c) = s.items[m][c].load(kRelaxed);
      for (u32 k = 0; k < kMethods; k++) r(m, k, c) = s.requests[m][k][c].load(kRelaxed);
    }
  out["requests"] = requests;
  out["items"] = items;
  out["rejected"] = named(s.rejected, kRejectNames);
  out["expired"] = named(s.expired, kStageNames);
  out["idle_ns"] = named(s.idle_ns, kIdleNames);
  for (const CounterRow& row : kCounters) out[row.name] = (s.*row.counter).load(kRelaxed);
  out["transport"] = named(s.transport, kTransportNames);
  return out;
}

py::dict load(const LoadLine& l) {
  const u64 updated = l.updated_ns.load(kAcquire);  // pairs with the release in set_load
  return py::dict("updated_ns"_a = updated, "utilization"_a = l.utilization.load(kRelaxed),
                  "cpu_utilization"_a = l.cpu_utilization.load(kRelaxed),
                  "memory_utilization"_a = l.memory_utilization.load(kRelaxed),
                  "requests_per_second"_a = l.requests_per_second.load(kRelaxed),
                  "errors_per_second"_a = l.errors_per_second.load(kRelaxed),
                  "queue_wait_s"_a = l.queue_wait_s.load(kRelaxed), "items_waiting"_a = l.items_waiting.load(kRelaxed),
                  "items_running"_a = l.items_running.load(kRelaxed));
}

void set_load(LoadLine& l, double utilization, double cpu_utilization, double memory_utilization,
              double requests_per_second, double errors_per_second, double queue_wait_s, double items_waiting,
              double items_running) {
  l.utilization.store(utilization, kRelaxed);
  l.cpu_utilization.store(cpu_utilization, kRelaxed);
  l.memory_utilization.store(memory_utilization, kRelaxed);
  l.requests_per_second.store(requests_per_second, kRelaxed);
  l.errors_per_second.store(errors_per_second, kRelaxed);
  l.queue_wait_s.store(queue_wait_s, kRelaxed);
  l.items_waiting.store(items_waiting, kRelaxed);
  l.items_running.store(items_running, kRelaxed);
  l.updated_ns.store(now_ns(), kRelease);  // pairs with the acquire of whoever reads them
}

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

void define_load(SegmentClass& segment) {
  segment
      .def(
          "load", [](const SegmentHandle& s) { return load(s.segment.load()); },
          "What the supervisor last said about the whole server; updated_ns is 0 before it did.")
      .def(
          "set_load",
          [](const SegmentHandle& s, double utilization, double cpu_utilization, double memory_utilization,
             double requests_per_second, double errors_per_second, double queue_wait_s, double items_waiting,
             double items_running) {
            set_load(s.segment.load(), utilization, cpu_utilization, memory_utilization, requests_per_second,
                     errors_per_second, queue_wait_s, items_waiting, items_running);
          },
          py::kw_only(), "utilization"_a, "cpu_utilization"_a, "memory_utilization"_a, "requests_per_second"_a,
          "errors_per_second"_a, "queue_wait_s"_a, "items_waiting"_a, "items_running"_a)
      .def("stats", &stats, "i"_a, "Counters and histograms of process i: front doors first, then dispatchers.");
}

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
