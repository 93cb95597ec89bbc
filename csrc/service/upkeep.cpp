#include "service/upkeep.h"

#include <algorithm>

namespace fastqps::service {

namespace {
// A door may hold a sixteenth more connections than another one, so that fewer connections must be left to the other.
constexpr u32 kAheadPart = 16;
}  // namespace

// Other doors may be asleep without polling the listener, because they were ahead before. So a door that gets ahead
// wakes those behind; otherwise a burst of clients would wait for their sleep to end.
bool ConnectionBalance::may_accept(u32 connections) {
  memory_.line.connections.store(connections, kRelaxed);  // relaxed: the others only compare it
  const fastqps::Phase phase = memory_.segment.supervisor().phase.load(kRelaxed);
  if (phase != fastqps::Phase::kServing && phase != fastqps::Phase::kLameDuck) return false;
  bool ahead = false;
  for (u32 f = 0; f < memory_.segment.sizes().doors; f++) {
    const DoorLine& door = memory_.segment.door(f);
    if (f == memory_.door || !door.live.load(kRelaxed) || !door.ready.load(kRelaxed)) continue;
    const u32 theirs = door.connections.load(kRelaxed);
    if (theirs + theirs / kAheadPart >= connections) continue;
    ahead = true;
    if (!ahead_ && memory_.fds) signal_fd(memory_.fds->door[f]);
  }
  ahead_ = ahead;
  return !ahead;
}

CounterCopy::CounterCopy(const DoorMemory& memory, const Attachment& attachment, const Slots& slots)
    : memory_(memory), attachment_(attachment), slots_(slots) {
  const Stats& stats = memory.stats;
  before_.requeued = stats.requeued.load(kRelaxed);
  before_.suspects = stats.suspects.load(kRelaxed);
  for (u32 i = 0; i < kTransports; i++) before_.transport[i] = stats.transport[i].load(kRelaxed);
  for (u32 code = 0; code < kStatusCodes; code++) {
    before_.requests[code] = counted(code);
    before_.other[code] = stats.requests[0][kOther][code].load(kRelaxed);
  }
}

void CounterCopy::copy() {
  memory_.stats.requeued.store(before_.requeued + slots_.requeued(), kRelaxed);
  memory_.stats.suspects.store(before_.suspects + slots_.suspects(), kRelaxed);
  if (attachment_.counters) copy_transport(*attachment_.counters);
}

void CounterCopy::copy_transport(const transport::Counters& c) {
  u64 floods = 0;
  for (u64 n : c.floods) floods += n;
  const u64 values[] = {
      c.accepted,
      c.closed,
      c.refused,
      c.accept_errors,
      c.http1,
      c.tls_on_plaintext,
      c.closed_settings_timeout + c.closed_header_timeout + c.closed_write_timeout + c.closed_keepalive,
      c.protocol_errors,
      floods,
      c.goaway_age + c.goaway_idle + c.goaway_drain,
      c.client_resets,
      c.lost_calls,
      c.refused_streams,
      c.not_read,
      c.bytes_in,
      c.bytes_out,
      c.reads,
      c.writes,
      c.turns,
      c.sleeps,
      c.tls_handshakes,
      c.tls_failures,
      c.plaintext_on_tls,
      c.unauthenticated,
      c.tls_dropped,
      c.made_room,
      c.http_requests[0][2],
      c.http_requests[0][4],
      c.http_requests[0][5],
      c.http_requests[1][2],
      c.http_requests[1][4],
      c.http_requests[1][5],
  };
  static_assert(std::size(values) == kTransports);
  for (u32 i = 0; i < kTransports; i++) memory_.stats.transport[i].store(before_.transport[i] + values[i], kRelaxed);
  // Calls that the transport answered itself: unknown methods, broken framing, health, reflection.
  for (u32 code = 0; code < kStatusCodes; code++) {
    u64 sent = 0, ours = counted(code) - before_.requests[code];
    for (const auto& method : c.requests) sent += method[code];
    memory_.stats.requests[0][kOther][code].store(before_.other[code] + sent - std::min(sent, ours), kRelaxed);
  }
}

// Calls that this service has counted with a code, in all incarnations.
u64 CounterCopy::counted(u32 code) const {
  u64 calls = 0;
  for (u32 m = 0; m < kModelsMax; m++)
    for (u32 k = 0; k < kOther; k++) calls += memory_.stats.requests[m][k][code].load(kRelaxed);
  return calls;
}

void DoorGauges::begin_turn(u64 now) {
  // Excludes the items that this turn has read, because they were not open before.
  bump(memory_.stats.inflight_ns, u64(open_then_) * (now - std::min(now, last_turn_ns_)));
  last_turn_ns_ = now;
  count_awake(now);
  memory_.line.turn_started_ns.store(now, kRelaxed);  // relaxed: only compared with the clock
}

void DoorGauges::count_load() {
  // relaxed: each number is whole, and readers infer nothing else from it
  memory_.line.slots_used.store(slots_.used(), kRelaxed);
  u64 waiting = room_.size();
  for (u32 r = 0; r < memory_.segment.sizes().routes(); r++) waiting += slots_.waiting(r);
  memory_.line.running.store(u32(slots_.used() - std::min<u64>(slots_.used(), waiting)), kRelaxed);
}

void DoorGauges::end_turn() { open_then_ = slots_.open(); }

void DoorGauges::asleep(u64 now) {
  count_awake(now);
  memory_.line.turn_started_ns.store(0, kRelaxed);
}

void DoorGauges::awake(u64 now) {
  woke_ns_ = now;
  memory_.line.turn_started_ns.store(now, kRelaxed);  // relaxed: only compared with the clock
}

void DoorGauges::count_awake(u64 now) {
  if (woke_ns_) bump(memory_.stats.awake_ns, now - std::min(now, woke_ns_));
  woke_ns_ = now;
}

}  // namespace fastqps::service
