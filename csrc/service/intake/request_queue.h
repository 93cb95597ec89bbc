// Puts complete slots into the rings of their routes, for dispatchers to claim, or into the waiting room until there is
// a place.
#pragma once
#include "service/intake/poison_marks.h"
#include "service/intake/queue_loads.h"
#include "service/intake/waiting_room.h"
#include "service/tables/items.h"
#include "service/tables/large_answers.h"
#include "service/tables/refusal.h"
#include "service/tables/slots.h"

namespace fastqps::service {

class Withdrawals;

class RequestQueue {
 public:
  RequestQueue(const DoorMemory& memory, const Attachment& attachment, Slots& slots, Items& items, WaitingRoom& room,
               QueueLoads& loads, LargeAnswers& large_answers, PoisonMarks& poison, Withdrawals& withdrawals,
               RefusalWriter& refusals)
      : memory_(memory),
        attachment_(attachment),
        slots_(slots),
        items_(items),
        room_(room),
        loads_(loads),
        large_answers_(large_answers),
        poison_(poison),
        withdrawals_(withdrawals),
        refusals_(refusals),
        owed_(memory.segment.sizes().routes()) {}

  // After a refusal the slot is free again and the item is gone.
  Refusal put(u32 slot);
  // Gives the rings what they have room for, in the order of service. Called once a turn, after QueueLoads::look().
  void feed();
  // Whether there is something that feed() would give.
  bool can_feed() const;
  // Reads the clock for an item's own times. The wait of items that are put later in this turn counts from here.
  u64 stamp();

 private:
  bool has_room(u32 route, u32 kind) const;
  void make_way(u32 route);
  Refusal hold_answer(u32 slot);
  const Refusal& refuse(u32 slot, Reject why, const Refusal& refusal);

  const DoorMemory& memory_;
  const Attachment& attachment_;
  Slots& slots_;
  Items& items_;
  WaitingRoom& room_;
  QueueLoads& loads_;
  LargeAnswers& large_answers_;
  PoisonMarks& poison_;
  Withdrawals& withdrawals_;
  RefusalWriter& refusals_;
  std::vector<u32> owed_;  // by route: items that were accepted although the queue was full
  u64 stamp_ns_ = 0;       // the newest reading of the clock
};

}  // namespace fastqps::service
