#include "predict/batch_method.h"

namespace fastqps::front {

Took BatchMethod::on_message(CallId call, std::span<const u8> message, const CallInfo& info) {
  size_t n = 0;
  ReasonText reason;
  if (const FieldError error = split_batch(as_text(message), items_, &n, reason)) {
    const Refusal refusal = refusals_.refuse(error);
    attachment_->finish(call, {refusal.code, refusal.message, -1, refusal.field});
    counts_.call(0, kPredictBatch, refusal.code, info.receive_ns);
    return Took::kAll;
  }
  const bool begins = !info.user;
  const u32 g = begins ? groups_.open(call, kPredictBatch, info) : u32(info.user - 1);
  if (begins) {
    groups_[g].parts.assign(n, {0, 0});
    groups_[g].unanswered = u32(n);
    if (!n) return groups_.send_batch(g), Took::kAll;
  }
  // A refused last item ends the call and frees the group, so it must not be read after this loop.
  for (u32 i = groups_[g].taken; i < n; i++) {
    groups_[g].taken = i + 1;
    RequestView view;
    const Origin from{call, &info, kPredictBatch, g, i, groups_[g].slots};
    if (const Refusal refusal = intake_.accept(items_[i], from, view)) answers_.refuse(from, view, refusal);
    if (i + 1 < n && attachment_->slice_over(items_[i].size())) return Took::kPart;
  }
  return Took::kAll;
}

}  // namespace fastqps::front
