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

// The client's decision holds if it made one. Otherwise a random share of the calls is traced.
void Tracer::begin(Call& call, std::string_view parent, std::string_view state) {
  if (call.role != MethodRole::kService || !call.method) return;
  const Rpc method = Rpc(call.plain ? call.http->row->rpc : door_.grpc.methods.all()[call.row].rpc);
  if (method == kSteps) return;  // each of its items is a call, and may be traced
  TraceContext context;
  const bool decided = parse_traceparent(parent, &context);
  const bool traced =
      (source_.spans || source_.forwards) && (decided ? context.sampled : random_.next() < source_.threshold);
  const bool line = source_.line_threshold && random_.next() < source_.line_threshold;
  if (!traced && !line) return;
  void* block = door_.calls.allocator.allocate(sizeof(TraceRecord));
  if (!block) return;
  TraceRecord* record = call.trace = new (block) TraceRecord{};
  record->uses = u8((traced && traces() ? kTraceSpans : 0) | (line ? kTraceLine : 0));
  if (traced && decided) {
    std::memcpy(record->trace_id, context.trace_id, sizeof record->trace_id);
    std::memcpy(record->parent_id, context.parent_id, sizeof record->parent_id);
    record->state_bytes = u16(append_tracestate(state, record->state, 0, kTraceStateBytes));
  } else if (traced) {
    random_bytes(record->trace_id, sizeof record->trace_id);
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
  if (!record->uses) return door_.calls.allocator.release(record);
  record->code = u8(code);
  if (ended_.size() < places_for(*record)) return ended_.push_back(record);
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
  const u64 tail = ring.tail.load(kRelaxed);  // ours
  if (tail - ring.head.load(kAcquire) >= places_for(record))
    return count_dropped(record);  // pairs with the supervisor's
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
