// Keeps the memory of unread answers free for clients that read. When little of it is left, connections that have more
// than their share of it, and have taken none of it for a second, are closed.
#pragma once
#include "contract/types.h"
#include "transport/net/limits.h"

namespace fastqps::transport {

class CallSession;
struct DoorState;

class UnreadAnswers {
 public:
  explicit UnreadAnswers(DoorState& door) : door_(door) {}

  // Once in each turn.
  void on_turn();
  // When the next look is due.
  u64 due_ns() const { return due_ns_; }

 private:
  bool scarce() const;
  void look();
  bool holds_too_much(CallSession& session) const;

  DoorState& door_;
  u32 next_ = 0;  // the index of the connection that the next look begins with
  u64 due_ns_ = kNever;
};

}  // namespace fastqps::transport
