// Exports what an edge's dispatchers know of the servers that they send to.
#include <pybind11/stl.h>

#include <tuple>

#include "bind/segment.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

py::str text(const std::string& bytes) {
  return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(bytes.data(), py::ssize_t(bytes.size()), "replace"));
}

struct UpstreamReading {
  u32 row;
  std::string name, reason;
  const char* state;
  u32 in_flight, window, utilization_thousandth, waiting, running;
  u64 rtt_ns, heard_ns, sent, answered, refused, lost, connects, bytes_out, bytes_in;
};

// Returns false if the row is free, or changes just now.
bool read(const UpstreamRow& row, UpstreamReading& found) {
  const u32 state = u32(row.state.load(kAcquire));
  if (!state || state >= std::size(kUpstreamStateNames) || !row.name.read(found.name) || found.name.empty())
    return false;
  found.state = kUpstreamStateNames[state];
  if (!row.reason.read(found.reason)) found.reason.clear();  // the next look finds it
  found.in_flight = row.in_flight.load(kRelaxed), found.window = row.window.load(kRelaxed);
  found.utilization_thousandth = row.utilization_thousandth.load(kRelaxed);
  found.waiting = row.waiting.load(kRelaxed), found.running = row.running.load(kRelaxed);
  found.rtt_ns = row.rtt_ns.load(kRelaxed), found.heard_ns = row.heard_ns.load(kRelaxed);
  found.sent = row.sent.load(kRelaxed), found.answered = row.answered.load(kRelaxed);
  found.refused = row.refused.load(kRelaxed), found.lost = row.lost.load(kRelaxed);
  found.connects = row.connects.load(kRelaxed);
  found.bytes_out = row.bytes_out.load(kRelaxed), found.bytes_in = row.bytes_in.load(kRelaxed);
  return true;
}

const UpstreamTable& table(const SegmentHandle& self, u32 dispatcher) {
  const Sizes& sizes = self.segment.sizes();
  if (!sizes.upstreams || dispatcher >= sizes.dispatchers) throw py::index_error();
  return self.segment.upstream_table(dispatcher);
}

std::vector<UpstreamReading> upstreams(const SegmentHandle& self, u32 dispatcher) {
  const UpstreamTable& all = table(self, dispatcher);
  std::vector<UpstreamReading> rows;
  UpstreamReading found;
  for (u32 i = 0; i < kUpstreamRows; i++)
    if (read(all.row[i], found)) rows.emplace_back(found).row = i;
  return rows;
}

struct UpstreamTotals {
  u64 resent, unroutable;
  HistogramCounts wire, queue, device;
};

UpstreamTotals totals(const SegmentHandle& self, u32 dispatcher) {
  const UpstreamTable& all = table(self, dispatcher);
  return {all.resent.load(kRelaxed), all.unroutable.load(kRelaxed), bind::read(all.wire), bind::read(all.queue),
          bind::read(all.device)};
}

}  // namespace

void define_upstreams(SegmentClass& segment) {
  segment
      .def("upstreams", &upstreams, "dispatcher"_a,
           "The servers that a dispatcher of an edge sends to. IndexError: the server is no edge.")
      .def("upstream_totals", &totals, "dispatcher"_a, "What it counts of all of them together.");
}

void register_upstreams(py::module_& m) {
  py::class_<UpstreamReading>(m, "UpstreamReading", "A server that a dispatcher of an edge sends to.")
      .def_readonly("row", &UpstreamReading::row)
      .def_property_readonly(
          "name", [](const UpstreamReading& self) { return text(self.name); }, "HOST:PORT.")
      .def_property_readonly(
          "reason", [](const UpstreamReading& self) { return text(self.reason); },
          "Of a state in which nothing is sent.")
      .def_property_readonly(
          "state", [](const UpstreamReading& self) { return self.state; }, "One of UPSTREAM_STATES.")
      .def_readonly("in_flight", &UpstreamReading::in_flight)
      .def_readonly("window", &UpstreamReading::window)
      .def_readonly("utilization_thousandth", &UpstreamReading::utilization_thousandth)
      .def_readonly("waiting", &UpstreamReading::waiting)
      .def_readonly("running", &UpstreamReading::running)
      .def_readonly("rtt_ns", &UpstreamReading::rtt_ns)
      .def_readonly("heard_ns", &UpstreamReading::heard_ns)
      .def_readonly("sent", &UpstreamReading::sent, "Items, as the following ones, since the row has its name.")
      .def_readonly("answered", &UpstreamReading::answered)
      .def_readonly("refused", &UpstreamReading::refused)
      .def_readonly("lost", &UpstreamReading::lost)
      .def_readonly("connects", &UpstreamReading::connects)
      .def_readonly("bytes_out", &UpstreamReading::bytes_out)
      .def_readonly("bytes_in", &UpstreamReading::bytes_in);
  py::class_<UpstreamTotals>(m, "UpstreamTotals", "What a dispatcher of an edge counts of all servers; nanoseconds.")
      .def_readonly("resent", &UpstreamTotals::resent)
      .def_readonly("unroutable", &UpstreamTotals::unroutable)
      .def_readonly("wire", &UpstreamTotals::wire)
      .def_readonly("queue", &UpstreamTotals::queue)
      .def_readonly("device", &UpstreamTotals::device);
  py::tuple states(std::size(kUpstreamStateNames) - 1);
  for (size_t i = 1; i < std::size(kUpstreamStateNames); i++) states[i - 1] = py::str(kUpstreamStateNames[i]);
  m.attr_with_type_hint<py::typing::Tuple<py::str, py::ellipsis>>("UPSTREAM_STATES") = states;
}

}  // namespace fastqps::bind
