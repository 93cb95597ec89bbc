#include "service/upkeep/counter_copy.h"

#include <algorithm>

#include "service/answers/slot_events.h"

namespace fastqps::service {

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
  const u64 values[kTransports] = {
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

}  // namespace fastqps::service
