#include "service/methods.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"

namespace fastqps::service {

// The last item's refusal, or that of one that the call fails with, may end the call and free the group.
transport::Took take_items(const ItemsPath& path, RequestReader& reader, u32 g, size_t message_bytes, u64 read_ns,
                           Rpc rpc, transport::CallId call, const transport::CallInfo& info) {
  GroupCalls& groups = path.groups;
  if (groups.failed(g)) return groups.skip_rest(g), transport::Took::kAll;  // one of those that were taken
  const u32 n = groups[g].items;
  const u64 until = n > 1 ? now_ns() + read_ns : 0;
  for (u32 i = groups[g].taken; i < n; i++) {
    groups[g].taken = i + 1;
    RequestView view;
    const Origin from{call, &info, rpc, g, i, groups[g].slots, reader.streams(), reader.wants()};
    const auto read = [&](RequestView& item) {
      const FieldError error = reader.item(i, item);
      groups[g].structure_field = item.generate.structure_field;
      return error;
    };
    const Refusal refusal = path.intake.accept(read, from, view);
    if (refusal) path.answers.refuse(from, view, refusal);
    if (i + 1 == n) break;
    if (refusal && groups.failed(g)) return groups.skip_rest(g), transport::Took::kAll;
    if (path.attachment->slice_over(message_bytes / n) && now_ns() >= until) return transport::Took::kPart;
  }
  return transport::Took::kAll;
}

void refuse_items(const ItemsPath& path, const Refusal& refusal, u32 g, Rpc rpc, transport::CallId call,
                  const transport::CallInfo& info) {
  const u32 at = std::exchange(path.groups[g].taken, path.groups[g].items), left = path.groups[g].items - at;
  for (u32 i = 0; i < left; i++) path.answers.refuse({call, &info, rpc, g, at + i}, {}, refusal);
}

transport::Took ItemsMethod::on_message(transport::CallId call, std::span<const u8> message,
                                        const transport::CallInfo& info) {
  ReasonText reason;
  const ReadTime time(message);
  const FieldError error = reader_.read(message, info, reason);
  const u64 read_ns = time.ns();
  if (error) return refuse(call, path_.refusals.refuse(error), info);
  const Answering* chosen = reader_.answering();
  const auto& [writer, rpc] = chosen ? *chosen : answering_;
  GroupCalls& groups = path_.groups;
  const u32 n = reader_.items();
  const u32 g = info.user ? u32(info.user - 1)
                          : groups.open(call,
                                        {GroupKind::kTogether, rpc, &writer, n, reader_.context(), reader_.streams(),
                                         reader_.candidates()},
                                        info);
  // A model that is reloaded, or serves only now, may change what the message is read as, and how many items it has.
  if (groups[g].writer != &writer || groups[g].items != n)
    return refuse(call, path_.refusals.refuse(StatusCode::kUnavailable, kReloadedMeanwhile), info);
  if (!n) return groups.answer_none(g), transport::Took::kAll;
  return take_items(path_, reader_, g, message.size(), read_ns, rpc, call, info);
}

transport::Took ItemsMethod::refuse(transport::CallId call, const Refusal& refusal, const transport::CallInfo& info) {
  if (info.user) {
    refuse_items(path_, refusal, u32(info.user - 1), answering_.rpc, call, info);
  } else {
    path_.attachment->finish(call, {refusal.code, refusal.message, -1, refusal.field, refusal.fault});
    path_.counts.call(0, answering_.rpc, refusal.code, info.receive_ns);
  }
  return transport::Took::kAll;
}

namespace {
constexpr u64 kQuietNs = 1'000'000'000;
constexpr size_t kWaitingBytesMax = 4 << 20;  // answers of a stream that wait for one before them
}  // namespace

transport::Took StreamMethod::on_message(transport::CallId call, std::span<const u8> message,
                                         const transport::CallInfo& info) {
  const u32 g = group_of(call, info);
  if (path_.groups.failed(g)) return transport::Took::kAll;
  path_.groups[g].active_ns = info.receive_ns;
  const transport::Took took =
      kind_ == GroupKind::kRequests ? take_request(g, call, message, info) : take_item(g, call, message, info);
  const Group& group = path_.groups[g];
  // Items that were not taken are in flight, too: holding them back would hold the stream for ever.
  if (took == transport::Took::kPart) return took;
  if (group.open && (group.in_flight() >= path_.inflight_max || group.ordered.waiting_bytes > kWaitingBytesMax ||
                     !path_.attachment->writable(call)))
    path_.groups.hold(g);
  return transport::Took::kAll;
}

transport::Took StreamMethod::take_item(u32 g, transport::CallId call, std::span<const u8> message,
                                        const transport::CallInfo& info) {
  Group& group = path_.groups[g];
  const u32 index = group.items++;
  group.unanswered++;
  RequestView view;
  ReasonText reason;
  const Origin from{call, &info, rpc_, g, index};
  const auto take = [&](RequestView& item) { return read(message, info, group, item, reason); };
  if (const Refusal refusal = path_.intake.accept(take, from, view)) path_.answers.refuse(from, view, refusal);
  return transport::Took::kAll;
}

transport::Took StreamMethod::take_request(u32 stream, transport::CallId call, std::span<const u8> message,
                                           const transport::CallInfo& info) {
  GroupCalls& groups = path_.groups;
  ReasonText reason;
  const ReadTime time(message);
  const FieldError error = reader_.read(message, info, reason);
  const u64 read_ns = time.ns();
  const u32 n = error ? 1 : reader_.items();
  u32 g = groups[stream].reading;  // none: the message is new
  if (g == Groups::kNone) {
    const GroupStart start{GroupKind::kTogether, rpc_, &writer_, n, reader_.context(), !error && reader_.streams()};
    g = groups.open_request(stream, start, info);
  }
  groups[stream].reading = Groups::kNone;
  if (error) return refuse_items(path_, path_.refusals.refuse(error), g, rpc_, call, info), transport::Took::kAll;
  const transport::Took took = take_items(path_, reader_, g, message.size(), read_ns, rpc_, call, info);
  if (took == transport::Took::kPart) groups[stream].reading = g;
  return took;
}

FieldError StreamMethod::read(std::span<const u8> message, const transport::CallInfo& info, Group& group,
                              RequestView& view, ReasonText& reason) {
  if (kind_ == GroupKind::kGathered) {
    if (group.items > path_.items_max)
      return {"", reason.print("a stream of more than %u items, at most %u", path_.items_max, path_.items_max)};
    group.kept.expect(group.items);
  }
  reader_.follow(group.context);
  if (const FieldError error = reader_.read(message, info, reason)) return error;
  group.context += reader_.context();
  return reader_.item(0, view);
}

void StreamMethod::on_half_close(transport::CallId call, const transport::CallInfo& info) {
  path_.groups.half_close(group_of(call, info));
}

bool StreamMethod::on_idle(transport::CallId, u64 user) {
  const u32 g = u32(user - 1);
  if (!path_.groups[g].all_sent()) return false;
  path_.groups.end(g, {.code = StatusCode::kUnavailable, .message = "the stream was idle: open it again"});
  return true;
}

void StreamMethod::resume_held() {
  path_.groups.resume_blocked();
  path_.groups.resume_held([this](const Group& group) {
    return !group.closing && group.in_flight() <= path_.inflight_max / 2 &&
           group.ordered.waiting_bytes <= kWaitingBytesMax / 2 && path_.attachment->writable(group.call);
  });
}

void StreamMethod::close_streams(u64 now, bool late) {
  for (u32 g = 0; g < path_.groups.size(); g++) {
    Group& group = path_.groups[g];
    if (!group.open || group.gone || group.half_closed || group.kind == GroupKind::kTogether) continue;
    if (group.all_sent() && (late || now - std::min(now, group.active_ns) >= kQuietNs)) {
      path_.groups.end_drained(g);
    } else if (late && group.reading == Groups::kNone) {
      group.closing = true;
      path_.groups.hold(g);
    }
  }
}

}  // namespace fastqps::service
