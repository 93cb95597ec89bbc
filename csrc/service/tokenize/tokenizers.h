// Distributes texts that the loop does not tokenize itself: long texts to a thread of this process, and texts of models
// without a native tokenizer to separate processes.
#pragma once
#include "service/tables/door_memory.h"
#include "service/tokenize/text_worker.h"
#include "service/tokenize/tokenize_queue.h"

namespace fastqps::service {

class Tokenizers {
 public:
  explicit Tokenizers(const DoorMemory& memory)
      : external_(memory.fds->door[memory.door], memory.segment.sizes().slots),
        native_(memory.fds->door[memory.door], memory.segment.sizes().slots) {}

  // A job with a tokenizer goes to the thread. Returns false, and does nothing, if too much text waits in all or from
  // this connection.
  bool push(transport::ConnectionId from, TokenizeJob job, TextLane lane) {
    const bool pushed = job.tokenizer ? native_.push(from, std::move(job)) : external_.push(from, std::move(job), lane);
    wanted_ += pushed;
    return pushed;
  }
  // Drops a text whose tokens are no longer wanted.
  void drop(u32 slot, bool external) {
    wanted_--;
    external ? external_.drop(slot) : native_.drop(slot);
  }
  // Called once a turn: calls finish(result) for each text that is tokenized or dropped. finish returns whether the
  // tokens were still wanted.
  template <class Finish>
  void take(Finish finish) {
    for (TokenizeResult& result : external_.take()) wanted_ -= finish(result);
    for (TokenizeResult& result : native_.take()) wanted_ -= finish(result);
  }

  TokenizeQueue& external() { return external_; }
  u32 wanted() const { return wanted_; }  // texts whose tokens are still wanted

 private:
  TokenizeQueue external_;
  TextWorker native_;
  u32 wanted_ = 0;
};

}  // namespace fastqps::service
