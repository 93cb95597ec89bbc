// Exports the processes' counters and the load that follows from them.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>
#include <tuple>

#include "bind/segment.h"
#include "supervisor/load_window.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {

using supervisor::Load;
using supervisor::LoadWindow;
namespace {

using ByName = std::map<std::string, u64>;

template <size_t N>
ByName by_name(const std::atomic<u64> (&values)[N], const char* const (&names)[N]) {
  ByName out;
  for (size_t i = 0; i < N; i++) out[names[i]] = values[i].load(kRelaxed);
  return out;
}

struct ProcessStats {
  std::map<std::string, HistogramCounts> stage = {}, class_wait = {};
  std::vector<std::vector<HistogramCounts>> request = {};  // by model and method
  HistogramCounts batch_items, batch_tokens;
  py::array_t<u64> requests;                             // [model][method][code]
  py::array_t<u64> items;                                // [model][code]
  std::vector<u64> failed_ns = {}, answered_at_ns = {};  // by model
  ByName rejected, expired, idle_ns, transport, start_ns;
  ByName counters = {};
};

Stats& stats_of(const SegmentHandle& self, u32 i) {
  const Segment& g = self.segment;
  if (i >= g.sizes().doors + g.sizes().dispatchers) throw py::index_error();
  return i < g.sizes().doors ? g.door_stats(i) : g.dispatcher_stats(i - g.sizes().doors);
}

ProcessStats stats(const SegmentHandle& self, u32 i) {
  const Segment& g = self.segment;
  const Stats& s = stats_of(self, i);
  using Shape = std::vector<py::ssize_t>;
  ProcessStats out{.batch_items = read(s.batch_items),
                   .batch_tokens = read(s.batch_tokens),
                   .requests = py::array_t<u64>(Shape{kModelsMax, kMethods, kStatusCodes}),
                   .items = py::array_t<u64>(Shape{kModelsMax, kStatusCodes}),
                   .rejected = by_name(s.rejected, kRejectNames),
                   .expired = by_name(s.expired, kStageNames),
                   .idle_ns = by_name(s.idle_ns, kIdleNames),
                   .transport = by_name(s.transport, kTransportNames),
                   .start_ns = by_name(s.start_ns, kStartStageNames)};
  for (u32 k = 0; k < kStages; k++) out.stage.emplace(kStageNames[k], read(s.stage[k]));
  for (u32 c = 0; c < kClasses; c++) out.class_wait.emplace(kClassNames[c], read(s.class_wait[c]));
  for (u32 m = 0; m < g.sizes().models; m++) {
    out.answered_at_ns.push_back(s.answered_at_ns[m].load(kRelaxed));
    out.failed_ns.push_back(s.failed_ns[m].load(kRelaxed));  // before the sums, so that it is never above them
    std::vector<HistogramCounts>& of_model = out.request.emplace_back();
    for (const Histogram& of_method : s.request[m]) of_model.push_back(read(of_method));
  }
  auto requests = out.requests.mutable_unchecked<3>();
  auto items = out.items.mutable_unchecked<2>();
  for (u32 m = 0; m < kModelsMax; m++)
    for (u32 c = 0; c < kStatusCodes; c++) {
      items(m, c) = s.items[m][c].load(kRelaxed);
      for (u32 k = 0; k < kMethods; k++) requests(m, k, c) = s.requests[m][k][c].load(kRelaxed);
    }
  for (const CounterRow& row : kCounters) out.counters[row.name] = (s.*row.counter).load(kRelaxed);
  return out;
}

using TenantCounts = std::tuple<u64, u64, u64>;  // items, tokens, refused
// Index, changes, name, and counts.
using TenantLine = std::tuple<u32, u64, py::str, u64, u64, u64>;

// The named tenants of a front door, and after them all of its tenants together.
std::pair<std::vector<TenantLine>, TenantCounts> tenants(const SegmentHandle& self, u32 door) {
  if (door >= self.segment.sizes().doors) throw py::index_error();
  const TenantTable& table = self.segment.tenant_table(door);
  // Read before the rows: so no sum of rows lacks anything that the sum of all has.
  const TenantCounters& all = table.all;
  const TenantCounts sums{all.items.load(kRelaxed), all.tokens.load(kRelaxed), all.refused.load(kRelaxed)};
  std::vector<TenantLine> rows;
  TenantRow::Reading found;
  for (u32 i = 0; i < kTenantRows; i++)
    if (table.row[i].read(found)) {
      PyObject* name = PyUnicode_DecodeUTF8(found.name.data(), py::ssize_t(found.name.size()), "replace");
      rows.emplace_back(i, found.changes, py::reinterpret_steal<py::str>(name), found.items, found.tokens,
                        found.refused);
    }
  return {rows, sums};
}

void set_load(const SegmentHandle& self, double utilization, double cpu_utilization, double memory_utilization,
              double requests_per_second, double errors_per_second, double queue_wait_s, double items_waiting,
              double items_running) {
  LoadLine& l = self.segment.load();
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

// Means over a window.
struct LoadMeans {
  Load load;
  std::vector<double> queue_wait_s, step_s;  // by model
};

using OfModel = double (LoadWindow::*)(u32) const;

LoadMeans means(const LoadWindow& window, const Load& load, OfModel queue_wait_s, OfModel step_s) {
  LoadMeans out{load, {}, {}};
  for (u32 m = 0; m < window.models(); m++) {
    out.queue_wait_s.push_back((window.*queue_wait_s)(m));
    out.step_s.push_back((window.*step_s)(m));
  }
  return out;
}

// A reader of one of Load's means.
template <double Load::*kMean>
double mean(const LoadMeans& self) {
  return self.load.*kMean;
}

}  // namespace

void define_load(SegmentClass& segment) {
  segment
      .def("set_load", &set_load, py::kw_only(), "utilization"_a, "cpu_utilization"_a, "memory_utilization"_a,
           "requests_per_second"_a, "errors_per_second"_a, "queue_wait_s"_a, "items_waiting"_a, "items_running"_a)
      .def("tenants", &tenants, "door"_a,
           "The tenants with the most tokens at a front door, as (row, changes of the row, name, items, tokens, "
           "refused), "
           "and (items, tokens, refused) of all of its tenants.")
      .def(
          "record_start",
          [](const SegmentHandle& self, u32 i, const std::map<std::string, double>& seconds) {
            Stats& s = stats_of(self, i);
            for (u32 k = 0; k < kStartStages; k++)
              s.start_ns[k].store(u64(seconds.at(kStartStageNames[k]) * 1e9), kRelaxed);
          },
          "i"_a, "seconds"_a, "What each of START_STAGES took in the start of this process, which is process i.")
      .def("stats", &stats, "i"_a, "Counters and histograms of process i: front doors first, then dispatchers.");
}

void register_load(py::module_& m) {
  py::class_<HistogramCounts>(m, "Histogram", "Observations by bucket; `histogram_upper` has the buckets' edges.")
      .def_readonly("count", &HistogramCounts::count)
      .def_readonly("sum", &HistogramCounts::sum)
      .def_readonly("buckets", &HistogramCounts::buckets);
  py::class_<ProcessStats>(m, "ProcessStats", "Everything that one process counts.")
      .def_readonly("stage", &ProcessStats::stage, "By STAGES; nanoseconds.")
      .def_readonly("class_wait", &ProcessStats::class_wait, "By CLASSES; nanoseconds.")
      .def_readonly("request", &ProcessStats::request, "By model and METHODS; nanoseconds.")
      .def_readonly("batch_items", &ProcessStats::batch_items)
      .def_readonly("batch_tokens", &ProcessStats::batch_tokens)
      .def_readonly("requests", &ProcessStats::requests, "[MODELS_MAX, METHODS, codes]")
      .def_readonly("items", &ProcessStats::items, "[MODELS_MAX, codes]")
      .def_readonly("failed_ns", &ProcessStats::failed_ns,
                    "By model: the part of the sums of `request` of failed calls.")
      .def_readonly("answered_at_ns", &ProcessStats::answered_at_ns, "By model, by now_ns(); 0: no good answer yet.")
      .def_readonly("rejected", &ProcessStats::rejected, "By REJECTS.")
      .def_readonly("expired", &ProcessStats::expired, "By STAGES.")
      .def_readonly("idle_ns", &ProcessStats::idle_ns, "By IDLES.")
      .def_readonly("transport", &ProcessStats::transport, "By TRANSPORT_COUNTERS.")
      .def_readonly("start_ns", &ProcessStats::start_ns, "By START_STAGES.")
      .def_readonly("counters", &ProcessStats::counters, "By the names in COUNTERS.");
  py::class_<LoadMeans>(m, "LoadMeans", "Means over one window: rates per second, shares of 1, and by model the waits.")
      .def_property_readonly("seconds", &mean<&Load::seconds>)
      .def_property_readonly("asked", &mean<&Load::asked>)
      .def_property_readonly("errors", &mean<&Load::errors>)
      .def_property_readonly("items", &mean<&Load::items>)
      .def_property_readonly("in_flight", &mean<&Load::in_flight>)
      .def_property_readonly("slots", &mean<&Load::slots>)
      .def_property_readonly("dispatcher", &mean<&Load::dispatcher>)
      .def_property_readonly("frontdoor", &mean<&Load::frontdoor>)
      .def_property_readonly("device", &mean<&Load::device>)
      .def_readonly("queue_wait_s", &LoadMeans::queue_wait_s, "The p95, by model.")
      .def_readonly("step_s", &LoadMeans::step_s, "By model.");
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
            return means(self, self.over_long(), &LoadWindow::queue_wait_long_s, &LoadWindow::step_long_s);
          },
          "Means over 10 s: items per second, items in flight, shares of 1; by model queue_wait_s, the p95, and "
          "step_s.")
      .def(
          "short",
          [](const LoadWindow& self) {
            return means(self, self.over_short(), &LoadWindow::queue_wait_short_s, &LoadWindow::step_short_s);
          },
          "The same over one second.")
      .def_property_readonly("items_waiting", &LoadWindow::items_waiting, "At the last look.")
      .def_property_readonly("items_running", &LoadWindow::items_running, "At the last look.");
}

}  // namespace fastqps::bind
