// Reads what a dispatcher has left in a slot: an answer, laid out for the writer, or the reason why there is none.
#pragma once
#include <vector>

#include "predict/intake/queue_loads.h"
#include "predict/tables/generation.h"
#include "predict/tables/items.h"
#include "predict/tables/refusal.h"
#include "predict/tables/slots.h"
#include "predict/tables/turn_clock.h"
#include "wire/response_view.h"

namespace fastqps::front {

class AnswerReader {
 public:
  AnswerReader(const DoorMemory& memory, Slots& slots, Items& items, ModelRoutes& routes, Generations& generations,
               const QueueLoads& loads, const TurnClock& clock, RefusalWriter& refusals)
      : memory_(memory),
        slots_(slots),
        items_(items),
        routes_(routes),
        generations_(generations),
        loads_(loads),
        clock_(clock),
        refusals_(refusals) {}

  // Whether there is no answer but read_refusal().
  bool failed(u32 slot, Verdict verdict) { return verdict != Verdict::kDone || slots_.slot(slot).status; }
  Refusal read_refusal(u32 slot, Verdict verdict);
  Refusal unreadable() { return refusals_.refuse(StatusCode::kInternal, "the dispatcher's answer cannot be read"); }

  // An encoder's answer. The views are valid until the next one. False: these bytes cannot be an answer of this route.
  bool read(u32 slot, ResponseView& response, Timings& timings, Usage& usage);
  Usage read_usage(u32 slot, u32 output_tokens);
  // done: its dispatcher ended it; else the door did, and the slot's last times are not there yet.
  Timings read_timings(u32 slot, bool done);

 private:
  Refusal read_status(u32 slot);
  void read_labels(u32 route, const LabelScore* scores, u32 n);

  const DoorMemory& memory_;
  Slots& slots_;
  Items& items_;
  ModelRoutes& routes_;
  Generations& generations_;
  const QueueLoads& loads_;
  const TurnClock& clock_;
  RefusalWriter& refusals_;
  std::vector<LabelView> labels_;
};

}  // namespace fastqps::front
