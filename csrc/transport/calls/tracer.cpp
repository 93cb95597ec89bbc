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

namespace {

Rpc method_of(const DoorState& door, const Call& call) {
  if (!call.method) return kOther;
  return Rpc(call.plain ? call.http->row->rpc : door.grpc.methods.all()[call.row].rpc);
}

}  // namespace

TraceRecord* Tracer::make(u8 uses, Rpc method, u64 received_ns) {
  void* block = door_.calls.allocator.allocate(sizeof(TraceRecord));
  if (!block) return nullptr;
  TraceRecord* record = new (block) TraceRecord{};
  record->uses = uses;
  record->kind = TraceKind::kCall;
  record->method = method;
  record->model = record->dispatcher = kTraceUnknown;
  record->at_ns[kReceive] = received_ns;
  return record;
}

void Tracer::begin_refused(Call& call) {
  if (has_line()) call.trace = make(kTraceLine, method_of(door_, call), call.opened_ns);
}

void Tracer::refused(StatusCode code) {
  if (!has_line()) return;
  if (TraceRecord* record = make(kTraceLine, kOther, door_.net.turn.ns)) end(record, code);
}

// The client's decision holds if it made one. Otherwise a random share of the calls is traced.
void Tracer::begin(Call& call, std::string_view parent, std::string_view state) {
  if (call.role != MethodRole::kService || !call.method) return;
  const Rpc method = method_of(door_, call);
  if (method == kSteps) return;  // each of its items is a call, and may be traced
  TraceContext context;
  const bool decided = parse_traceparent(parent, &context);
  const bool traced =
      (source_.spans || source_.forwards) && (decided ? context.sampled : random_.next() < source_.threshold);
  const bool line = has_line();
  if (!traced && !line) return;
  const u8 uses = u8((traced && traces() ? kTraceSpans : 0) | (line ? kTraceLine : 0));
  TraceRecord* record = call.trace = make(uses, method, call.opened_ns);
  if (!record) return;
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
}

void Tracer::random_bytes(u8* out, u32 bytes) {
  for (u32 i = 0; i < bytes; i += 8) {
    const u64 word = random_.next() | 1;
    std::memcpy(out + i, &word, 8);
  }
}

void Tracer::end(Call& call, StatusCode code) { end(std::exchange(call.trace, nullptr), code); }

void Tracer::end(TraceRecord* record, StatusCode code) {
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
