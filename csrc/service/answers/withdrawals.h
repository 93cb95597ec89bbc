// Items that end without an answer, because their client is gone, their deadline has passed, or no dispatcher is left.
#pragma once
#include "service/answers/answers.h"

namespace fastqps::service {

class Withdrawals {
 public:
  Withdrawals(Tables& tables, GroupCalls& groups, ItemRecords& records, Answers& answers)
      : tables_(tables), groups_(groups), records_(records), answers_(answers) {}

  // The call of one item, or of a group, has ended early. Returns kHeld if a dispatcher or a tokenizer still holds a
  // slot. user: the call's user word, 0 if it was never set.
  transport::Gone gone(u64 user);
  // Answers an item whose deadline has passed. A dispatcher that holds its slot returns it later. Returns the later
  // deadline of an item whose time has begun anew meanwhile, otherwise Deadlines::kNone.
  u64 expire(u32 slot, u64 now_ns);
  // The same of the unanswered items of a group that have one of these request ids, which are in ascending order:
  // nobody waits for them.
  void cancel(u32 group, std::span<const u32> request_ids);
  // Ends the unanswered items of a group whose call is about to end: their answers would be dropped.
  void abandon_items(u32 group);
  // Answers an item of the waiting room that makes way for one of a higher class.
  void evict(u32 slot, u64 retry_after_ns);
  // Called once a second: ends waiting items of routes whose dispatchers all stay down, and of calls that cannot be
  // answered in their time.
  void give_up_waiting();

  // The number of items without an answer whose connections this server closed at the end of a drain.
  u32 cut_off() const { return cut_off_; }

 private:
  transport::Gone item_gone(u32 slot);
  transport::Gone group_gone(u32 group);
  u64 due_ns(u32 slot);
  Refusal why_give_up(const Item& item, u32 slot);
  bool abandon(u32 slot);
  bool take_back(u32 slot);
  void drop_text(u32 slot);
  void drop_waiting(u32 slot);

  Tables& tables_;
  GroupCalls& groups_;
  ItemRecords& records_;
  Answers& answers_;
  u32 cut_off_ = 0;
};

}  // namespace fastqps::service
