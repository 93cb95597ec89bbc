// Records where items spent their time: in the statistics, and in the traces of the calls that are traced.
#pragma once
#include "service/tables/generation.h"
#include "service/tables/items.h"
#include "service/tables/slots.h"
#include "service/tables/turn_clock.h"

namespace fastqps::service {

class ItemRecords {
 public:
  // Which of a slot's timestamps are set and belong to this item.
  enum class Ended : u8 { kByDispatcher, kByDoor, kUnanswered };

  ItemRecords(const DoorMemory& memory, const Attachment& attachment, Slots& slots, Items& items,
              Generations& generations, TurnClock& clock)
      : memory_(memory),
        attachment_(attachment),
        slots_(slots),
        items_(items),
        generations_(generations),
        clock_(clock) {}

  // Whether an item's times are recorded. For a call of many items, only those of the first few are; of an edge's call,
  // those that the edge traces.
  bool is_traced(const RequestView& view, const Origin& from, u32 slot, u32 route);
  // Records that a slot's answer is sent now.
  void answered(u32 slot, Ended ended);
  // Records that an item of a traced call has ended. `item` may be a copy, because its slot may be free already.
  void trace(const Item& item, u32 slot, Ended ended, StatusCode code);

 private:
  bool is_traced(const RequestView& view, StepSpan& span);
  TraceRecord record_of_step(const Item& item, u32 slot);

  const DoorMemory& memory_;
  const Attachment& attachment_;
  Slots& slots_;
  Items& items_;
  Generations& generations_;
  TurnClock& clock_;
};

}  // namespace fastqps::service
