#include "transport/calls/tracer.h"

#include <algorithm>
#include <cstring>

#include "core/clock.h"
#include "transport/calls/call_session.h"
#include "transport/calls/door_state.h"
#include "transport/rpc/trace_context.h"

namespace fastqps::transport {

Tracer::~Tracer() {
  for (TraceRecord* record : ended_) {  // of calls that ended with the loop
    count_dropped(*record);
    door_.calls.allocator.release(record);
  }
}

// Returns the call's record, and creates it if necessary; nullptr if there is no memory.
TraceRecord* Tracer::record_of(Call& call) {
  if (call.trace) return call.trace;
  if (void* block = door_.calls.allocator.allocate(sizeof(TraceRecord))) call.trace = new (block) TraceRecord{};
  return call.trace;
}

void Tracer::drop(Call& call) { door_.calls.allocator.release(std::exchange(call.trace, nullptr)); }

// A header that is repeated is ignored.
void Tracer::traceparent(Call& call, std::string_view value) {
  TraceContext context;
  const bool again = call.trace_parent != TraceParent::kNone;
  call.trace_parent = TraceParent::kBad;
  if (again || !parse_traceparent(value, &context)) return;
  call.trace_parent = context.sampled ? TraceParent::kSampled : TraceParent::kNotSampled;
  if (!context.sampled) return;
  TraceRecord* record = record_of(call);
  if (!record) return;
  std::memcpy(record->trace_id, context.trace_id, sizeof record->trace_id);
  std::memcpy(record->parent_id, context.parent_id, sizeof record->parent_id);
}

// Several headers are one list.
void Tracer::tracestate(Call& call, std::string_view value) {
  if (call.trace_parent == TraceParent::kNotSampled || call.trace_parent == TraceParent::kBad) return;
  if (TraceRecord* record = record_of(call))
    record->state_bytes = u16(append_tracestate(value, record->state, record->state_bytes, kTraceStateBytes));
}

// The client's decision holds if it made one. Otherwise a random share of the calls is traced.
void Tracer::begin(Call& call) {
  bool served = call.role == MethodRole::kService && call.method;
  Rpc method = kOther;
  if (served) method = Rpc(call.plain ? call.http->row->rpc : door_.grpc.methods.all()[call.row].rpc);
  served = served && method != kSteps;  // each of its items is a call, and may be traced
  const bool decided = call.trace_parent == TraceParent::kSampled || call.trace_parent == TraceParent::kNotSampled;
  const bool sampled =
      decided ? call.trace_parent == TraceParent::kSampled : served && random_.next() < source_.threshold;
  const bool traced = served && sampled && (source_.spans || source_.forwards);
  const bool line = served && source_.line_threshold && random_.next() < source_.line_threshold;
  if (!traced && !line) return drop(call);
  TraceRecord* record = record_of(call);
  if (!record) return;
  if (!traced) *record = TraceRecord{};  // the client's trace is another matter
  record->uses = u8((traced && traces() ? kTraceSpans : 0) | (line ? kTraceLine : 0));
  if (traced && !decided) {  // a new trace: the received state belongs to another one
    random_bytes(record->trace_id, sizeof record->trace_id);
    std::memset(record->parent_id, 0, sizeof record->parent_id);
    record->state_bytes = 0;
  }
  if (record->uses & kTraceSpans)
    random_bytes(record->span_id, sizeof record->span_id);
  else
    std::memcpy(record->span_id, record->parent_id, sizeof record->span_id);
  record->kind = TraceKind::kCall;
  record->method = method;
  record->model = record->dispatcher = kTraceUnknown;
  record->at_ns[kReceive] = call.opened_ns;
}

void Tracer::random_bytes(u8* out, u32 bytes) {
  for (u32 i = 0; i < bytes; i += 8) {
    const u64 word = random_.next() | 1;
    std::memcpy(out + i, &word, 8);
  }
}

void Tracer::end(Call& call, StatusCode code) {
  TraceRecord* record = std::exchange(call.trace, nullptr);
  const bool complete = record->at_ns[kReceive];  // its header block was
  if (!complete || !record->uses) return door_.calls.allocator.release(record);
  record->code = u8(code);
  if (ended_.size() < kEndedMax) return ended_.push_back(record);
  count_dropped(*record);
  door_.calls.allocator.release(record);
}

void Tracer::item(const TraceRecord& record) {
  if (!(record.uses & kTraceSpans)) return;
  if (record.method == kSteps) return publish(record);
  TraceRecord own = record;
  own.uses = kTraceSpans;
  own.kind = TraceKind::kItem;
  std::memcpy(own.parent_id, record.span_id, sizeof own.parent_id);
  random_bytes(own.span_id, sizeof own.span_id);
  publish(own);
}

void Tracer::publish_ended() {
  const u64 now = now_ns();
  for (TraceRecord* record : ended_) {
    record->at_ns[kStages] = now;
    publish(*record);
    door_.calls.allocator.release(record);
  }
  ended_.clear();
}

void Tracer::publish(const TraceRecord& record) {
  TraceRing& ring = *source_.ring;
  const u64 tail = ring.tail.load(kRelaxed);                                           // ours
  if (tail - ring.head.load(kAcquire) >= kTraceEntries) return count_dropped(record);  // pairs with the supervisor's
  ring.record[tail % kTraceEntries] = record;
  ring.tail.store(tail + 1, kRelease);  // pairs with the supervisor's load: the record is whole
}

void Tracer::count_dropped(const TraceRecord& record) {
  if (record.uses & kTraceLine) bump(source_.ring->dropped_lines);
  if (!(record.uses & kTraceSpans)) return;
  u64 spans = 1;
  for (u32 k = 0; k < kStages; k++) spans += record.at_ns[k] && record.at_ns[k + 1];
  bump(source_.ring->dropped_spans, spans);
}

}  // namespace fastqps::transport
