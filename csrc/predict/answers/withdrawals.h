// Items that end otherwise than by an answer: their client is gone, their time is over, or nobody will ever take them.
#pragma once
#include "predict/answers/answers.h"
#include "predict/answers/item_records.h"
#include "predict/intake/tokenizers.h"
#include "predict/tables/slots.h"
#include "predict/upkeep/phase_watch.h"

namespace fastqps::front {

class Withdrawals {
 public:
  Withdrawals(const DoorMemory& memory, const Attachment& attachment, Slots& slots, Items& items, ModelRoutes& routes,
              GroupCalls& groups, Tokenizers& tokenizers, ItemRecords& records, Answers& answers, CallCounts& counts,
              RefusalWriter& refusals, const PhaseWatch& phase)
      : memory_(memory),
        attachment_(attachment),
        slots_(slots),
        items_(items),
        routes_(routes),
        groups_(groups),
        tokenizers_(tokenizers),
        records_(records),
        answers_(answers),
        counts_(counts),
        refusals_(refusals),
        phase_(phase) {}

  // The call of one item, or of a group, has ended early. kHeld: a dispatcher, or a tokenizer, still holds a slot.
  // user: as the call's, 0 where it never got so far.
  Gone call_gone(u64 user);
  Gone group_gone(u64 user);
  // The deadline has passed: the client hears it now; a dispatcher that holds the slot gives it back later.
  void expire(u32 slot);
  // Once a second. Items of routes whose dispatchers all stay down: nobody will ever claim them.
  void give_up_waiting();

  // Items without an answer whose connections this server closed at the end of a drain.
  u32 cut_off() const { return cut_off_; }

 private:
  bool abandon(u32 slot);
  bool take_back(u32 slot);
  void drop_text(u32 slot);

  const DoorMemory& memory_;
  const Attachment& attachment_;
  Slots& slots_;
  Items& items_;
  ModelRoutes& routes_;
  GroupCalls& groups_;
  Tokenizers& tokenizers_;
  ItemRecords& records_;
  Answers& answers_;
  CallCounts& counts_;
  RefusalWriter& refusals_;
  const PhaseWatch& phase_;
  u32 cut_off_ = 0;
};

}  // namespace fastqps::front
