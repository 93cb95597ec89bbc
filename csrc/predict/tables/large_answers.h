// The front door's large answers: room for answers that are longer than a slot's own. A slot holds one from the moment
// when it is queued until it is free again, so that everything that protects a slot protects its large answer, too.
#pragma once
#include <vector>

#include "core/segment.h"
#include "predict/tables/door_memory.h"

namespace fastqps::front {

class LargeAnswers {
 public:
  // A predecessor that has crashed left slots that are not free. Those keep what they hold until they are.
  explicit LargeAnswers(const DoorMemory& memory) : memory_(memory) {
    const Sizes& sizes = memory.segment.sizes();
    const u64 first = memory.door * sizes.large_answers;
    std::vector<bool> held(sizes.large_answers);
    for (u32 i = 0; i < sizes.slots; i++) {
      const Slot& slot = memory.segment.slot(memory.door, i);
      if (Word{slot.state.load(kAcquire)}.state() != State::kFree && slot.large_answer > first)
        if (slot.large_answer - 1 - first < held.size()) held[slot.large_answer - 1 - first] = true;
    }
    for (u64 i = held.size(); i-- > 0;)  // the first ones are taken first, and their pages stay in the caches
      if (!held[i]) free_.push_back(u32(first + i + 1));
  }

  // Gives the slot room for an answer of this many bytes. Returns false if there is none left.
  bool hold(Slot& slot, u64 bytes) {
    slot.large_answer = 0;
    if (bytes <= memory_.segment.sizes().answer_bytes) return true;
    if (free_.empty() || bytes > memory_.segment.sizes().large_answer_bytes) return false;
    slot.large_answer = free_.back();
    free_.pop_back();
    return true;
  }
  // The slot is free.
  void release(Slot& slot) {
    if (!slot.large_answer) return;
    free_.push_back(slot.large_answer);
    slot.large_answer = 0;
  }

 private:
  const DoorMemory& memory_;
  std::vector<u32> free_;  // as Slot::large_answer names them
};

}  // namespace fastqps::front
