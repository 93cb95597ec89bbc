#include "predict/items_method.h"

namespace fastqps::front {

Took ItemsMethod::on_message(CallId call, std::span<const u8> message, const CallInfo& info) {
  ReasonText reason;
  if (const FieldError error = reader_.read(message, info, reason)) return refuse(call, error, info), Took::kAll;
  GroupCalls& groups = path_.groups;
  const u32 n = reader_.items();
  const u32 g = info.user ? u32(info.user - 1)
                          : groups.open(call, {GroupKind::kTogether, rpc_, &writer_, n, reader_.context()}, info);
  if (!n) return groups.answer_none(g), Took::kAll;
  // The last item's refusal, or that of one that the call fails with, may end the call and free the group.
  for (u32 i = groups[g].taken; i < n; i++) {
    groups[g].taken = i + 1;
    RequestView view;
    const Origin from{call, &info, rpc_, g, i, groups[g].slots, reader_.streams(), reader_.wants()};
    const auto read = [&](RequestView& item) { return reader_.item(i, item); };
    const Refusal refusal = path_.intake.accept(read, from, view);
    if (refusal) path_.answers.refuse(from, view, refusal);
    const u32 left = n - i - 1;
    if (!left) break;
    if (refusal && groups.failed(g)) return groups.skip(g, left), Took::kAll;
    if (path_.attachment->slice_over(message.size() / n)) return Took::kPart;
  }
  return Took::kAll;
}

void ItemsMethod::refuse(CallId call, const FieldError& error, const CallInfo& info) {
  const Refusal refusal = path_.refusals.refuse(error);
  path_.attachment->finish(call, {refusal.code, refusal.message, -1, refusal.field, refusal.fault});
  path_.counts.call(0, rpc_, refusal.code, info.receive_ns);
}

}  // namespace fastqps::front
