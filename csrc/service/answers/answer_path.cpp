#include "service/answers/answer_path.h"

namespace fastqps::service {

void SlotEvents::answer(u32 slot, u64, Verdict verdict) {
  Item& item = tables_.items[slot];
  if (verdict == Verdict::kPoison) tables_.memory.mark_poison(tables_.slots.slot(slot));
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
  if (!(tables_.items.generations.find(slot) ? path_.generating.finish(slot) : answer_row(slot)))
    path_.answers.answer(item, path_.reader.unreadable());
}

// There is no memory for an answer that waits for others of its call.
void SlotEvents::refuse_to_keep(u32 slot) {
  constexpr u64 kRetryNs = 1'000'000'000;
  const Item& item = tables_.items[slot];
  Refusal refusal = tables_.refusals.refuse(
      StatusCode::kResourceExhausted,
      "answers that wait for the rest of their calls take all of %llu MiB: send fewer items in a call",
      (unsigned long long)(tables_.groups.kept_bytes_max() >> 20));
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
  if (Generation* generation = tables_.items.generations.find(slot)) generation->restart();
}

void SlotEvents::progress(u32 slot, u64) { path_.generating.read_progress(slot); }

}  // namespace fastqps::service
