// The front door's large answers: room for answers that are longer than a slot's own. A slot holds one from the moment
// when it is queued until it is free again, so that everything that protects a slot protects its large answer, too.
#pragma once
#include <utility>
#include <vector>

#include "core/segment.h"
#include "service/tables/door_memory.h"

namespace fastqps::service {

class LargeAnswers {
 public:
  // A predecessor that has crashed left slots that are not free. Those keep what they hold until they are.
  explicit LargeAnswers(const DoorMemory& memory) : memory_(memory), held_(memory.segment.sizes().slots) {
    const Sizes& sizes = memory.segment.sizes();
    const u64 before = memory.door * sizes.large_answers;  // those of other doors
    std::vector<bool> taken(sizes.large_answers);
    for (u32 i = 0; i < sizes.slots; i++) {
      const Slot& slot = memory.segment.slot(memory.door, i);
      if (Word{slot.state.load(kAcquire)}.state() == State::kFree || slot.large_answer <= before) continue;
      const u64 number = slot.large_answer - before - 1;
      if (number >= taken.size() || taken[number]) continue;  // the word is damaged: it holds none
      taken[number] = true;
      held_[i] = slot.large_answer;
    }
    for (u64 i = taken.size(); i-- > 0;)  // the first ones are taken first, and their pages stay in the caches
      if (!taken[i]) free_.push_back(u32(before + i + 1));
  }

  // Gives a slot that is about to be put room for an answer of this many bytes. Returns false if there is none left.
  bool hold(u32 i, u64 bytes) {
    Slot& slot = memory_.segment.slot(memory_.door, i);
    slot.large_answer = 0;
    if (bytes <= memory_.segment.sizes().answer_bytes) return true;
    if (free_.empty() || bytes > memory_.segment.sizes().large_answer_bytes) return false;
    slot.large_answer = held_[i] = free_.back();
    free_.pop_back();
    return true;
  }
  // The slot is free. What it held is known here: its own word may be an old one.
  void release(u32 i) {
    if (const u32 number = std::exchange(held_[i], 0)) free_.push_back(number);
  }

 private:
  const DoorMemory& memory_;
  std::vector<u32> held_;  // by slot; 0: none
  std::vector<u32> free_;  // as Slot::large_answer names them
};

}  // namespace fastqps::service
