#include "predict/stream_method.h"

#include <algorithm>

namespace fastqps::front {

namespace {
constexpr u64 kQuietNs = 1'000'000'000;
}

Took StreamMethod::on_message(CallId call, std::span<const u8> message, const CallInfo& info) {
  const u32 g = group_of(call, info);
  groups_[g].unanswered++;
  groups_[g].active_ns = info.receive_ns;
  RequestView view;
  const Origin from{call, &info, kPredictStream, g};
  if (const Refusal refusal = intake_.accept(as_text(message), from, view)) answers_.refuse(from, view, refusal);
  const Group& group = groups_[g];
  if (group.open && (group.unanswered >= inflight_max_ || !attachment_->writable(call))) groups_.hold(g);
  return Took::kAll;
}

void StreamMethod::on_half_close(CallId call, const CallInfo& info) {
  const u32 g = group_of(call, info);
  groups_[g].half_closed = true;
  if (!groups_[g].unanswered) groups_.end(g, {});
}

bool StreamMethod::on_idle(CallId, u64 user) {
  const u32 g = u32(user - 1);
  if (groups_[g].unanswered) return false;
  groups_.end(g, {.code = StatusCode::kUnavailable, .message = "the stream was idle: open it again"});
  return true;
}

void StreamMethod::resume_held() {
  groups_.resume_held([this](const Group& group) {
    return !group.closing && group.unanswered <= inflight_max_ / 2 && attachment_->writable(group.call);
  });
}

void StreamMethod::close_streams(u64 now, bool late) {
  for (u32 g = 0; g < groups_.size(); g++) {
    Group& group = groups_[g];
    if (!group.open || group.gone || group.half_closed || group.kind != GroupKind::kEach) continue;
    if (!group.unanswered && (late || now - std::min(now, group.active_ns) >= kQuietNs)) {
      groups_.end_drained(g);
    } else if (late) {
      group.closing = true;
      groups_.hold(g);
    }
  }
}

}  // namespace fastqps::front
