// Where texts go that the loop does not tokenize itself: long ones to a thread of this process, those of models whose
// tokenizer is not native to processes of their own.
#pragma once
#include "predict/intake/text_worker.h"
#include "predict/intake/tokenize_queue.h"
#include "predict/tables/door_memory.h"

namespace fastqps::front {

class Tokenizers {
 public:
  explicit Tokenizers(const DoorMemory& memory)
      : external_(memory.fds->door[memory.door], memory.segment.sizes().slots),
        native_(memory.fds->door[memory.door], memory.segment.sizes().slots) {}

  // A job with a tokenizer is the thread's. False, and nothing done: too much text waits, or too much of this
  // connection.
  bool push(ConnectionId from, TokenizeJob job, TextLane lane) {
    const bool pushed = job.tokenizer ? native_.push(from, std::move(job)) : external_.push(from, std::move(job), lane);
    wanted_ += pushed;
    return pushed;
  }
  // Nobody wants the text's tokens any more.
  void drop(u32 slot, bool external) {
    wanted_--;
    external ? external_.drop(slot) : native_.drop(slot);
  }
  // Once a turn: finish(result) for each text that has its tokens, or was dropped. It returns whether they were still
  // wanted.
  template <class Finish>
  void take(Finish finish) {
    for (const TokenizeResult& result : external_.take()) wanted_ -= finish(result);
    for (const TokenizeResult& result : native_.take()) wanted_ -= finish(result);
  }

  TokenizeQueue& external() { return external_; }
  u32 wanted() const { return wanted_; }  // texts whose tokens somebody waits for

 private:
  TokenizeQueue external_;
  TextWorker native_;
  u32 wanted_ = 0;
};

}  // namespace fastqps::front
