// Makes room when nearly all calls, or nearly all memory for answers, are in use.
#pragma once
#include "contract/types.h"
#include "transport/net/limits.h"
#include "transport/net/session.h"

namespace fastqps::transport {

class CallSession;
struct DoorState;
struct Call;

// Makes room when nearly all calls are in use, by ending idle streams of the connection that has most of them.
//
// Passes over all calls find that connection. Each turn does a part of a pass, so that no turn takes long. A pass ends
// no more streams than needed, and at most half of those that it found, because then another connection may have most.
class IdleStreams {
 public:
  explicit IdleStreams(DoorState& door) : door_(door) {}

  // Once in each turn.
  void on_turn();
  // When the next part is due.
  u64 due_ns() const { return due_ns_; }

 private:
  void look();
  void begin_pass();
  void count(Call& call);
  u32 needed() const;
  void end_some();

  DoorState& door_;
  u32 pass_ = 0;  // its number
  u32 at_ = 0;    // the next call to look at
  // found so far in this pass
  ConnectionId most_{};
  u32 most_streams_ = 0;
  u32 leaving_ = 0;  // calls that have their answer and are about to be free
  // found by the last pass
  ConnectionId ending_{};
  u32 to_end_ = 0, to_ask_ = 0;
  u32 ended_ = 0;  // of those asked
  u64 due_ns_ = kNever;
};

// Keeps the memory of unread answers free for clients that read. When little of it is left, connections that have more
// than their share of it, and have taken none of it for a second, are closed.
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
