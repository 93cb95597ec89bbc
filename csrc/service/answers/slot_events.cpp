#include "service/answers/slot_events.h"

namespace fastqps::service {

void SlotEvents::answer(u32 slot, u64, Verdict verdict) {
  Item& item = tables_.items[slot];
  if (verdict == Verdict::kPoison) path_.poison.mark(slot);
  if (item.answered) return;
  tables_.items.answer(slot);
  if (path_.reader.failed(slot, verdict)) {
    const Refusal refusal = path_.reader.read_refusal(slot, verdict);
    if (item.traced) {
      using Ended = ItemRecords::Ended;
      path_.records.trace(item, slot, verdict == Verdict::kDone ? Ended::kByDispatcher : Ended::kUnanswered,
                          refusal.code);
    }
    path_.answers.answer(item, refusal);
    return;
  }
  if (item.group != Groups::kNone && !path_.groups.may_take(item.group, item.index)) return refuse_to_keep(slot);
  if (!(tables_.generations.find(slot) ? path_.generating.finish(slot) : answer_row(slot)))
    path_.answers.answer(item, path_.reader.unreadable());
}

// There is no memory for an answer that waits for others of its call.
void SlotEvents::refuse_to_keep(u32 slot) {
  constexpr u64 kRetryNs = 1'000'000'000;
  const Item& item = tables_.items[slot];
  Refusal refusal = tables_.refusals.refuse(
      StatusCode::kResourceExhausted,
      "answers that wait for the rest of their calls take all of %llu MiB: send fewer items in a call",
      (unsigned long long)(path_.groups.kept_bytes_max() >> 20));
  refusal.retry_after_ns(kRetryNs);
  bump(tables_.memory.stats.rejected[kRejectSlots]);
  if (item.traced) path_.records.trace(item, slot, ItemRecords::Ended::kUnanswered, refusal.code);
  path_.answers.answer(item, refusal);
}

// Sends an encoder's answer. Returns false if the slot's bytes cannot be one.
bool SlotEvents::answer_row(u32 slot) {
  ResponseView response;
  Timings timings;
  Usage usage;
  if (!path_.reader.read(slot, response, timings, usage)) return false;
  path_.records.answered(slot, ItemRecords::Ended::kByDispatcher);
  path_.answers.answer(tables_.items[slot], response);
  return true;
}

// The client has received nothing of this item.
void SlotEvents::restarted(u32 slot, u64) {
  tables_.items.wait_again(slot);
  if (Generation* generation = tables_.generations.find(slot)) generation->restart();
}

// Releases everything that the item holds.
void SlotEvents::released(u32 slot, u64) {
  Item& item = tables_.items[slot];
  tables_.items.deadlines.clear(slot);
  tables_.generations.close(slot);
  tables_.spans.drop(slot);
  tables_.large_answers.release(slot);
  if (item.holds_connection) tables_.attachment->released(item.connection);
  item.holds_connection = false;
  tables_.items.release(slot);
  if (item.grouped) tables_.room.leave(slot);
  item.grouped = false;
  if (item.group != Groups::kNone) {
    path_.groups.unlink(std::exchange(item.group, Groups::kNone), slot);
  } else if (!item.answered && tables_.attachment.transport) {
    tables_.attachment->set_user(item.call, 0);  // refused after it was linked: finish() follows
  }
}

}  // namespace fastqps::service
