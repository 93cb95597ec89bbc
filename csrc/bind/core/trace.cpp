// Exports the front doors' trace records.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>

#include "bind/bind.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

const TraceRing& ring_of(const SegmentHandle& s, u32 door) {
  if (door >= s.segment.sizes().doors) throw py::index_error();
  return s.segment.trace_ring(door);
}

py::bytes id(const u8* bytes, size_t n) { return py::bytes(reinterpret_cast<const char*>(bytes), n); }

i32 known(u16 index) { return index == kTraceUnknown ? -1 : i32(index); }

std::vector<TraceRecord> take_traces(const SegmentHandle& s, u32 door, u32 most) {
  ring_of(s, door);
  TraceRing& ring = s.segment.trace_ring(door);
  const u64 head = ring.head.load(kRelaxed), tail = ring.tail.load(kAcquire);  // pairs with the door's release
  const u64 n = tail - head <= kTraceEntries ? std::min<u64>(tail - head, most) : 0;
  std::vector<TraceRecord> out;
  for (u64 i = 0; i < n; i++) out.push_back(ring.record[(head + i) % kTraceEntries]);
  ring.head.store(tail - head <= kTraceEntries ? head + n : tail, kRelease);  // pairs with the door's acquire
  return out;
}

}  // namespace

void register_trace(py::module_& m) {
  using R = TraceRecord;
  py::class_<R>(m, "TraceRecord", "A call that has ended, or an item of one that has many. -1: no such thing is known.")
      .def_property_readonly("is_item", [](const R& r) { return r.kind == TraceKind::kItem; })
      .def_property_readonly("trace_id", [](const R& r) { return id(r.trace_id, sizeof r.trace_id); })
      .def_property_readonly(
          "parent_id", [](const R& r) { return id(r.parent_id, sizeof r.parent_id); }, "All 0: no parent.")
      .def_property_readonly("span_id", [](const R& r) { return id(r.span_id, sizeof r.span_id); })
      .def_property_readonly(
          "state", [](const R& r) { return py::bytes(r.state, std::min<size_t>(r.state_bytes, kTraceStateBytes)); },
          "The client's tracestate.")
      .def_property_readonly(
          "has_spans", [](const R& r) { return (r.uses & kTraceSpans) != 0; }, "For the collector.")
      .def_property_readonly(
          "has_line", [](const R& r) { return (r.uses & kTraceLine) != 0; }, "For the access log.")
      .def_readonly("method", &R::method)
      .def_readonly("code", &R::code)
      .def_property_readonly("model", [](const R& r) { return known(r.model); })
      .def_property_readonly("dispatcher", [](const R& r) { return known(r.dispatcher); })
      .def_readonly("items", &R::items)
      .def_readonly("input_tokens", &R::input_tokens)
      .def_readonly("output_tokens", &R::output_tokens)
      .def_readonly("batch_items", &R::batch_items, "In the item's batch; 0: not known.")
      .def_property_readonly(
          "at_ns", [](const R& r) { return std::vector(std::begin(r.at_ns), std::end(r.at_ns)); },
          "Stage k from at_ns[k] to at_ns[k + 1], by now_ns(); 0: it was not reached.");
  m.def("take_traces", &take_traces, "segment"_a, "door"_a, "most"_a,
        "The oldest records of a front door, taken away.");
  m.def(
      "dropped_spans", [](const SegmentHandle& s, u32 door) { return ring_of(s, door).dropped_spans.load(kRelaxed); },
      "segment"_a, "door"_a, "Spans that found no room, in all incarnations of the door.");
  m.def(
      "dropped_lines", [](const SegmentHandle& s, u32 door) { return ring_of(s, door).dropped_lines.load(kRelaxed); },
      "segment"_a, "door"_a, "The same of lines of the access log.");
}

}  // namespace fastqps::bind
