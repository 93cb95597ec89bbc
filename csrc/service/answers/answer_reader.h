// Reads a dispatcher's result from a slot: an answer, as views for the encoder, or the reason for its absence.
#pragma once
#include <vector>

#include "contract/response_view.h"
#include "service/answers/entities.h"
#include "service/intake/call_fit.h"
#include "service/tables/generation.h"
#include "service/tables/items.h"
#include "service/tables/refusal.h"
#include "service/tables/slots.h"
#include "service/tables/token_spans.h"
#include "service/tables/turn_clock.h"

namespace fastqps::service {

class AnswerReader {
 public:
  AnswerReader(const DoorMemory& memory, Slots& slots, Items& items, ModelRoutes& routes, Generations& generations,
               TokenSpans& spans, const QueueLoads& loads, const CallFit& fit, const TurnClock& clock,
               RefusalWriter& refusals)
      : memory_(memory),
        slots_(slots),
        items_(items),
        routes_(routes),
        generations_(generations),
        spans_(spans),
        loads_(loads),
        fit_(fit),
        clock_(clock),
        refusals_(refusals) {}

  // Whether the slot holds no answer; then read_refusal() returns the reason.
  bool failed(u32 slot, Verdict verdict) { return verdict != Verdict::kDone || slots_.slot(slot).status; }
  Refusal read_refusal(u32 slot, Verdict verdict);
  Refusal unreadable() { return refusals_.refuse(StatusCode::kInternal, "the dispatcher's answer cannot be read"); }

  // Reads an encoder's answer. The views are valid until the next call. Returns false if the bytes cannot be an answer
  // of this route.
  bool read(u32 slot, ResponseView& response, Timings& timings, Usage& usage);
  Usage read_usage(u32 slot, u32 output_tokens);
  // done: the dispatcher ended the generation. Otherwise the door did, and the slot's last timestamps are not set yet.
  Timings read_timings(u32 slot, bool done);

 private:
  Refusal read_status(u32 slot);
  Refusal read_reason(u32 slot);
  SlotView read_slot(const Slot& slot, std::span<const u8> bytes) const;
  bool read_vectors(u32 slot, ResponseView& response);
  void read_labels(u32 route, const LabelScore* scores, u32 n);
  bool read_entities(u32 slot, std::span<const LabelScore> labels);

  const DoorMemory& memory_;
  Slots& slots_;
  Items& items_;
  ModelRoutes& routes_;
  Generations& generations_;
  TokenSpans& spans_;
  const QueueLoads& loads_;
  const CallFit& fit_;
  const TurnClock& clock_;
  RefusalWriter& refusals_;
  std::vector<LabelView> labels_;
  EntityMaker entities_;
};

}  // namespace fastqps::service
