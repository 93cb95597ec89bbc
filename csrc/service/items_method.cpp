#include "service/items_method.h"

#include "core/clock.h"

namespace fastqps::service {

// The last item's refusal, or that of one that the call fails with, may end the call and free the group.
transport::Took take_items(const ItemsPath& path, RequestReader& reader, u32 g, size_t message_bytes, u64 read_ns,
                           Rpc rpc, transport::CallId call, const transport::CallInfo& info) {
  GroupCalls& groups = path.groups;
  const u32 n = groups[g].items;
  const u64 until = n > 1 ? now_ns() + read_ns : 0;
  for (u32 i = groups[g].taken; i < n; i++) {
    groups[g].taken = i + 1;
    RequestView view;
    const Origin from{call, &info, rpc, g, i, groups[g].slots, reader.streams(), reader.wants()};
    const auto read = [&](RequestView& item) { return reader.item(i, item); };
    const Refusal refusal = path.intake.accept(read, from, view);
    if (refusal) path.answers.refuse(from, view, refusal);
    const u32 left = n - i - 1;
    if (!left) break;
    if (refusal && groups.failed(g)) return groups.skip(g, left), transport::Took::kAll;
    if (path.attachment->slice_over(message_bytes / n) && now_ns() >= until) return transport::Took::kPart;
  }
  return transport::Took::kAll;
}

void refuse_items(const ItemsPath& path, const FieldError& error, u32 g, Rpc rpc, transport::CallId call,
                  const transport::CallInfo& info) {
  const u32 at = path.groups[g].taken, left = path.groups[g].items - at;
  const Refusal refusal = path.refusals.refuse(error);
  for (u32 i = 0; i < left; i++) path.answers.refuse({call, &info, rpc, g, at + i}, {}, refusal);
}

transport::Took ItemsMethod::on_message(transport::CallId call, std::span<const u8> message,
                                        const transport::CallInfo& info) {
  ReasonText reason;
  const ReadTime time(message);
  const FieldError error = reader_.read(message, info, reason);
  const u64 read_ns = time.ns();
  if (error && !info.user) return refuse(call, error, info), transport::Took::kAll;
  if (error) return refuse_items(path_, error, u32(info.user - 1), rpc_, call, info), transport::Took::kAll;
  GroupCalls& groups = path_.groups;
  const u32 n = reader_.items();
  const u32 g = info.user ? u32(info.user - 1)
                          : groups.open(call, {GroupKind::kTogether, rpc_, &writer_, n, reader_.context()}, info);
  if (!n) return groups.answer_none(g), transport::Took::kAll;
  return take_items(path_, reader_, g, message.size(), read_ns, rpc_, call, info);
}

void ItemsMethod::refuse(transport::CallId call, const FieldError& error, const transport::CallInfo& info) {
  const Refusal refusal = path_.refusals.refuse(error);
  path_.attachment->finish(call, {refusal.code, refusal.message, -1, refusal.field, refusal.fault});
  path_.counts.call(0, rpc_, refusal.code, info.receive_ns);
}

}  // namespace fastqps::service
