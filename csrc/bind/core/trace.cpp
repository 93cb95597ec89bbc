// Exports the front doors' trace records.
#include <pybind11/pybind11.h>

#include <algorithm>

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

py::tuple as_tuple(const TraceRecord& r) {
  py::tuple at(kStages + 1);
  for (u32 i = 0; i <= kStages; i++) at[i] = r.at_ns[i];
  return py::make_tuple(
      r.kind == TraceKind::kItem, id(r.trace_id, sizeof r.trace_id), id(r.parent_id, sizeof r.parent_id),
      id(r.span_id, sizeof r.span_id), py::bytes(r.state, std::min<size_t>(r.state_bytes, kTraceStateBytes)), r.method,
      r.code, r.model == kTraceUnknown ? -1 : int(r.model), r.dispatcher == kTraceUnknown ? -1 : int(r.dispatcher),
      r.items, r.input_tokens, r.output_tokens, r.batch_items, at);
}

py::list take_traces(const SegmentHandle& s, u32 door, u32 most) {
  ring_of(s, door);
  TraceRing& ring = s.segment.trace_ring(door);
  const u64 head = ring.head.load(kRelaxed), tail = ring.tail.load(kAcquire);  // pairs with the door's release
  const u64 n = tail - head <= kTraceEntries ? std::min<u64>(tail - head, most) : 0;
  py::list out;
  for (u64 i = 0; i < n; i++) out.append(as_tuple(ring.record[(head + i) % kTraceEntries]));
  ring.head.store(tail - head <= kTraceEntries ? head + n : tail, kRelease);  // pairs with the door's acquire
  return out;
}

}  // namespace

void register_trace(py::module_& m) {
  m.def("take_traces", &take_traces, "segment"_a, "door"_a, "most"_a,
        "The oldest records of a front door, taken away: tuples in the order of TraceRecord's fields in "
        "fastqps/telemetry/tracing.");
  m.def(
      "dropped_spans", [](const SegmentHandle& s, u32 door) { return ring_of(s, door).dropped_spans.load(kRelaxed); },
      "segment"_a, "door"_a, "Spans that found no room, in all incarnations of the door.");
}

}  // namespace fastqps::bind
