// What the predict service does once a second or when the server's phase changes, whatever its clients do.
#include <algorithm>

#include "predict/predict_service.h"

namespace fastqps::front {

// Once a second: what no event announces.
void PredictService::tick(u64 now) {
  ticked_ns_ = now;
  if (slab_.used()) {
    slab_.settle_all();  // a hint that a crash swallowed
    give_up_waiting();
  }
  stats_->requeued.store(before_.requeued + slab_.requeued(), kRelaxed);
  stats_->suspects.store(before_.suspects + slab_.suspects(), kRelaxed);
  if (counters_) copy_counters();
  if (phase_ == Phase::kDraining) close_streams(now);
}

void PredictService::copy_counters() {
  const Counters& c = *counters_;
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
  };
  for (u32 i = 0; i < kTransports; i++) stats_->transport[i].store(before_.transport[i] + values[i], kRelaxed);
  // Calls that the transport answered itself: unknown methods, broken framing, health, reflection.
  for (u32 code = 0; code < kCodes; code++) {
    u64 sent = 0, ours = counted(code) - before_.requests[code];
    for (const auto& method : c.requests) sent += method[code];
    stats_->requests[0][kOther][code].store(before_.other[code] + sent - std::min(sent, ours), kRelaxed);
  }
}

// Calls that this service has counted with a code, in all incarnations.
u64 PredictService::counted(u32 code) const {
  u64 calls = 0;
  for (u32 m = 0; m < kModelsMax; m++)
    for (u32 k = 0; k < kOther; k++) calls += stats_->requests[m][k][code].load(kRelaxed);
  return calls;
}

void PredictService::watch_phase(u64 now) {
  const Phase phase = segment_.supervisor().phase.load(kAcquire);
  if (phase == phase_ || !loop_) return;
  phase_ = phase;
  if (phase == Phase::kServing || phase == Phase::kLameDuck) {
    const Serving serving = phase == Phase::kServing ? Serving::kServing : Serving::kNotServing;
    for (const char* name : {"", "fastqps.v1.PredictService"}) loop_->set_serving(name, serving);
  } else if (phase == Phase::kDraining) {
    const u64 until = segment_.supervisor().drain_deadline_ns.load(kRelaxed);
    drain_began_ns_ = now;
    drain_by_ns_ = std::max(until, now);
    loop_->drain(drain_by_ns_ - now);
  } else if (phase == Phase::kStopping) {
    loop_->stop();
  }
}

}  // namespace fastqps::front
