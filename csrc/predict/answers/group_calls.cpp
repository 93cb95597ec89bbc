#include "predict/answers/group_calls.h"

#include <algorithm>

namespace fastqps::front {

u32 GroupCalls::open(CallId call, Rpc method, const CallInfo& info) {
  const u32 g = groups_.open(call, method, info);
  groups_[g].route = routes_.first();  // until it has an item
  attachment_->set_user(call, u64(g) + 1);
  return g;
}

void GroupCalls::link(u32 g, u32 slot, u32 route) {
  groups_.link(g, slot);
  groups_[g].route = route;
}

void GroupCalls::unlink(u32 g, u32 slot) {
  groups_.unlink(g, slot);
  free_if_done(g);
}

void GroupCalls::free_if_done(u32 g) {
  if (!groups_[g].done()) return;
  if (groups_[g].holds_connection) attachment_->released(groups_[g].connection);
  groups_.free(g);
}

void GroupCalls::answer(u32 g, u32 index, const ResponseView& response) {
  Group& group = groups_[g];
  group.unanswered--;
  if (group.gone) return;
  if (group.method != kPredictBatch) return send_answer(g, response);
  keep_answer(group, index, response);
  if (!group.unanswered) send_batch(g);
}

void GroupCalls::keep_answer(Group& group, u32 index, const ResponseView& response) {
  const size_t size = response_size(response);
  group.parts[index] = {u32(group.bytes.size()), u32(size)};
  group.bytes.resize(group.bytes.size() + size);
  write_response(response, group.bytes.data() + group.bytes.size() - size);
}

void GroupCalls::send_answer(u32 g, const ResponseView& response) {
  Group& group = groups_[g];
  const size_t size = response_size(response);
  u8* out = attachment_->begin_message(group.call, size);
  if (!out) return;
  write_response(response, out);
  attachment_->set_header(group.call, routes_.header(group.route));
  attachment_->commit_message(group.call, size);
  group.active_ns = clock_.drain_ns;
  if (group.unanswered) return;
  if (group.half_closed) {
    end(g, {});
  } else if (group.closing) {
    end_drained(g);
  }
}

void GroupCalls::send_batch(u32 g) {
  Group& group = groups_[g];
  size_t size = 0;
  for (auto [start, part] : group.parts) size += batch_item_size(part);
  u8* out = attachment_->begin_message(group.call, size);
  if (!out) return;
  for (auto [start, part] : group.parts) {
    out = write_batch_frame(part, out);
    out = std::copy_n(group.bytes.data() + start, part, out);
  }
  attachment_->set_header(group.call, routes_.header(group.route));
  attachment_->commit_message(group.call, size);
  end(g, {});
}

void GroupCalls::end(u32 g, const Status& status) {
  Group& group = groups_[g];
  if (group.gone || !group.open) return;
  attachment_->finish(group.call, status);
  counts_.call(group.route, group.method, status.code, group.received_ns);
  group.open = false;
  free_if_done(g);
}

void GroupCalls::end_drained(u32 g) {
  end(g, {.code = StatusCode::kUnavailable, .message = "the server is draining: open the stream again"});
}

void GroupCalls::hold(u32 g) {
  if (groups_.hold(g)) attachment_->hold(groups_[g].call);
}

}  // namespace fastqps::front
