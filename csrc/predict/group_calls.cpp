// Calls of many items: PredictBatch, which is answered when all of its items are, and PredictStream, each of whose
// items is answered at once.
#include <algorithm>

#include "predict/predict_service.h"

namespace fastqps::front {
namespace {

constexpr u64 kQuietNs = 1'000'000'000;

}  // namespace

// Takes as many items as its connection's part of the turn allows; the loop then comes again with the same message.
Took PredictService::on_batch(CallId call, std::string_view message, const CallInfo& info) {
  size_t n = 0;
  ReasonText reason;
  FieldError error = split_batch(message, batch_items_, &n, reason);
  if (error) {
    Refusal refusal =
        refuse(StatusCode::kInvalidArgument, "%s%s%s", error.field, *error.field ? ": " : "", error.reason);
    transport_->finish(call, {refusal.code, refusal.message, -1, error.field});
    count_call(0, kPredictBatch, refusal.code, info.receive_ns);
    return Took::kAll;
  }
  const bool begins = !info.user;
  const u32 g = begins ? open_group(call, kPredictBatch, info) : u32(info.user - 1);
  if (begins) {
    groups_[g].parts.assign(n, {0, 0});
    groups_[g].unanswered = u32(n);
    if (!n) return finish_batch(g), Took::kAll;
  }
  // A refused last item ends the call, and then the group is gone: nothing may look at it behind this loop.
  for (u32 i = groups_[g].taken; i < n; i++) {
    groups_[g].taken = i + 1;
    RequestView view;
    Origin from{call, &info, kPredictBatch, g, i};
    if (Refusal refusal = accept(batch_items_[i], from, view)) refuse_item(from, view, refusal);
    if (i + 1 < n && transport_->slice_over(batch_items_[i].size())) return Took::kPart;
  }
  return Took::kAll;
}

void PredictService::on_stream(CallId call, std::string_view message, const CallInfo& info) {
  const u32 g = info.user ? u32(info.user - 1) : open_group(call, kPredictStream, info);
  groups_[g].unanswered++;
  groups_[g].active_ns = info.receive_ns;
  RequestView view;
  Origin from{call, &info, kPredictStream, g, 0};
  if (Refusal refusal = accept(message, from, view)) refuse_item(from, view, refusal);
  Group& group = groups_[g];
  if (group.open && (group.unanswered >= options_.max_stream_inflight || !transport_->writable(call))) hold(g);
}

void PredictService::on_half_close(CallId call, u16, const CallInfo& info) {
  const u32 g = info.user ? u32(info.user - 1) : open_group(call, kPredictStream, info);
  groups_[g].half_closed = true;
  if (!groups_[g].unanswered) end_group(g, {});
}

bool PredictService::on_idle(CallId, u16, u64 user) {
  const u32 g = u32(user - 1);
  if (groups_[g].unanswered) return false;
  end_group(g, {.code = StatusCode::kUnavailable, .message = "the stream was idle: open it again"});
  return true;
}

// The call of a group has ended early.
Gone PredictService::group_gone(u32 g) {
  count_call(groups_[g].route, groups_[g].method, StatusCode::kCancelled, groups_[g].received_ns);
  bool held = false;
  for (u32 slot = groups_[g].first; slot != kNone;) {
    const u32 next = groups_.next(slot);
    if (!items_[slot].answered) {
      count_item(items_[slot].route, StatusCode::kCancelled);
      held |= abandon(slot);
    }
    slot = next;
  }
  groups_[g].gone = true;  // not before: with its last slot the group would be freed under this loop, and then again
  groups_[g].holds_connection = held;
  free_group_if_done(g);
  return held ? Gone::kHeld : Gone::kReleased;
}

// An item of a batch or stream call. A batch keeps its answers until all are there; a stream sends each at once.
void PredictService::answer_group(u32 g, u32 index, const ResponseView& response) {
  Group& group = groups_[g];
  group.unanswered--;
  if (group.gone) return;
  const size_t size = response_size(response);
  if (group.method == kPredictBatch) {
    group.parts[index] = {u32(group.bytes.size()), u32(size)};
    group.bytes.resize(group.bytes.size() + size);
    write_response(response, group.bytes.data() + group.bytes.size() - size);
    if (!group.unanswered) finish_batch(g);
    return;
  }
  if (u8* out = transport_->begin_message(group.call, size)) {
    write_response(response, out);
    transport_->set_header(group.call, setups_.header(group.route));
    transport_->commit_message(group.call, size);
    group.active_ns = drain_ns_;
    if (group.unanswered) return;
    if (group.half_closed) {
      end_group(g, {});
    } else if (group.closing) {
      end_group(g, kDrained);
    }
  }
}

void PredictService::finish_batch(u32 g) {
  Group& group = groups_[g];
  size_t size = 0;
  for (auto [start, part] : group.parts) size += batch_item_size(part);
  if (u8* out = transport_->begin_message(group.call, size)) {
    for (auto [start, part] : group.parts) {
      out = write_batch_frame(part, out);
      out = std::copy_n(group.bytes.data() + start, part, out);
    }
    transport_->set_header(group.call, setups_.header(group.route));
    transport_->commit_message(group.call, size);
    end_group(g, {});
  }
}

void PredictService::end_group(u32 g, const Status& status) {
  Group& group = groups_[g];
  if (group.gone || !group.open) return;
  transport_->finish(group.call, status);
  count_call(group.route, group.method, status.code, group.received_ns);
  group.open = false;
  free_group_if_done(g);
}

// A stream may go on for ever, a drain may not. A quiet one is ended; from half of the drain's time on no stream is
// read any more, and each ends with its last answer. A client that half-closed ends it itself.
void PredictService::close_streams(u64 now) {
  const bool late = now >= drain_began_ns_ + (drain_by_ns_ - drain_began_ns_) / 2;
  for (u32 g = 0; g < groups_.size(); g++) {
    Group& group = groups_[g];
    if (!group.open || group.gone || group.half_closed || group.method != kPredictStream) continue;
    if (!group.unanswered && (late || now - std::min(now, group.active_ns) >= kQuietNs)) {
      end_group(g, kDrained);
    } else if (late) {
      group.closing = true;
      hold(g);
    }
  }
}

u32 PredictService::open_group(CallId call, Rpc method, const CallInfo& info) {
  const u32 g = groups_.open(call, method, info);
  groups_[g].route = u32(std::max(find_route({}), 0));  // until it has an item
  transport_->set_user(call, u64(g) + 1);
  return g;
}

void PredictService::free_group_if_done(u32 g) {
  if (!groups_[g].done()) return;
  if (groups_[g].holds_connection) transport_->released(groups_[g].connection);
  groups_.free(g);
}

void PredictService::hold(u32 g) {
  if (groups_.hold(g)) transport_->hold(groups_[g].call);
}

// Streams whose messages were held back, because too much was in flight or unread.
void PredictService::resume_held() {
  const auto may_go = [this](const Group& group) {
    return !group.closing && group.unanswered <= options_.max_stream_inflight / 2 && transport_->writable(group.call);
  };
  groups_.resume(may_go, [this](CallId call) { transport_->resume(call); });
}

}  // namespace fastqps::front
