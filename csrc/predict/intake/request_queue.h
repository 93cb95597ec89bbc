// Puts complete slots into the rings of their routes, for dispatchers to claim.
#pragma once
#include "predict/intake/poison_marks.h"
#include "predict/intake/queue_loads.h"
#include "predict/tables/items.h"
#include "predict/tables/large_answers.h"
#include "predict/tables/refusal.h"
#include "predict/tables/slots.h"

namespace fastqps::front {

class RequestQueue {
 public:
  RequestQueue(const DoorMemory& memory, const Attachment& attachment, Slots& slots, Items& items, QueueLoads& loads,
               LargeAnswers& large_answers, PoisonMarks& poison, SlotEvents& events, RefusalWriter& refusals)
      : memory_(memory),
        attachment_(attachment),
        slots_(slots),
        items_(items),
        loads_(loads),
        large_answers_(large_answers),
        poison_(poison),
        events_(events),
        refusals_(refusals) {}

  // After a refusal the slot is free again and the item is gone.
  Refusal put(u32 slot);
  // Frees a slot that was never put, and its item.
  void discard(u32 slot);
  // Reads the clock for an item's own times. The wait of items that are put later in this turn counts from here.
  u64 stamp();

 private:
  Refusal hold_answer(u32 slot);

  const DoorMemory& memory_;
  const Attachment& attachment_;
  Slots& slots_;
  Items& items_;
  QueueLoads& loads_;
  LargeAnswers& large_answers_;
  PoisonMarks& poison_;
  SlotEvents& events_;
  RefusalWriter& refusals_;
  u64 stamp_ns_ = 0;  // the newest reading of the clock
};

}  // namespace fastqps::front
