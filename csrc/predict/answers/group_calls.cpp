#include "predict/answers/group_calls.h"

#include <algorithm>

namespace fastqps::front {

u32 GroupCalls::open(CallId call, const GroupStart& start, const CallInfo& info) {
  const u32 g = groups_.open(call, start, info);
  groups_[g].route = routes_.first();  // until it has an item
  if (start.items > 1) groups_[g].kept.expect(start.items);
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
  if (group.kind == GroupKind::kEach) {
    if (send(g, {&response, 1})) sent_one(g);
  } else if (group.kind == GroupKind::kInOrder) {
    answer_in_order(g, index, response);
  } else if (group.kind == GroupKind::kGathered) {
    if (!failed(g)) group.kept.keep(index, response);
    sent_one(g);
  } else if (group.items == 1) {
    if (send(g, {&response, 1})) end(g, {});
  } else {
    if (!failed(g)) group.kept.keep(index, response);
    if (!group.unanswered) end_together(g);
  }
}

// Behind a failure nothing is sent.
void GroupCalls::answer_in_order(u32 g, u32 index, const ResponseView& response) {
  Group& group = groups_[g];
  if (index == group.sent) {
    if (!send(g, {&response, 1})) return;
    group.sent++;
    if (!send_early(g)) return;
  } else if (!failed(g) || index - group.sent < group.failure.index - group.sent) {
    const AnsweredCall call = answered(group);
    std::string& kept = group.early[index];
    kept.resize(group.writer->room(call, {&response, 1}));
    u8* begin = reinterpret_cast<u8*>(kept.data());
    kept.resize(size_t(group.writer->write(call, {&response, 1}, begin) - begin));
  }
  sent_one(g);
}

bool GroupCalls::send_early(u32 g) {
  Group& group = groups_[g];
  for (auto next = group.early.find(group.sent); next != group.early.end(); next = group.early.find(group.sent)) {
    if (failed(g) && group.sent == group.failure.index) break;
    const std::string message = std::move(next->second);
    group.early.erase(next);
    group.sent++;
    if (!send_message(group, {}, message.size(),
                      [&](u8* out) { return std::copy(message.begin(), message.end(), out); }))
      return false;
  }
  return true;
}

void GroupCalls::refuse(u32 g, u32 index, u64 request_id, const Refusal& refusal) {
  Group& group = groups_[g];
  if (group.writer->has_item_statuses()) {
    const StatusView status{i32(refusal.code), u32(std::max(refusal.retry_after_ms, 0)), refusal.message};
    ResponseView response;
    response.request_id = request_id;
    response.status = &status;
    return answer(g, index, response);
  }
  group.unanswered--;
  if (group.gone) return;
  const bool first = group.kind == GroupKind::kInOrder && index - group.sent < group.failure.index - group.sent;
  if (!failed(g) || first) keep_failure(group, index, refusal);
  if (!group.unanswered) end_failed(g);
}

// Names the field as the protocol does, also at the beginning of the message.
void GroupCalls::keep_failure(Group& group, u32 index, const Refusal& refusal) {
  const std::string_view field = refusal.field, name = group.writer->field_name(field);
  std::string_view message = refusal.message;
  if (!field.empty() && message.starts_with(field)) message.remove_prefix(field.size());
  const bool renamed = message.size() < refusal.message.size();
  group.failure = {refusal.code, refusal.retry_after_ms, renamed ? std::string(name) : std::string(), std::string(name),
                   index,        refusal.fault};
  group.failure.message += message;
}

void GroupCalls::skip(u32 g, u32 items) {
  if (!(groups_[g].unanswered -= items)) end_together(g);
}

void GroupCalls::end_together(u32 g) {
  if (failed(g)) return end_failed(g);
  if (send(g, groups_[g].kept.all())) end(g, {});
}

void GroupCalls::end_failed(u32 g) {
  const GroupFailure failure = groups_[g].failure;  // the end frees the group
  end(g, {failure.code, failure.message, failure.retry_after_ms, failure.field, failure.fault});
}

void GroupCalls::answer(u32 g, const ChunkView& last) {
  groups_[g].unanswered--;
  if (!groups_[g].gone && send_chunk(g, last)) sent_one(g);
}

bool GroupCalls::send_chunk(u32 g, const ChunkView& chunk) {
  Group& group = groups_[g];
  const AnsweredCall call = answered(group);
  return send_message(group, group.writer->chunks_reply(call), group.writer->chunk_room(call, chunk),
                      [&](u8* out) { return group.writer->write_chunk(call, chunk, out); });
}

bool GroupCalls::send(u32 g, std::span<const ResponseView> items) {
  Group& group = groups_[g];
  const AnsweredCall call = answered(group);
  return send_message(group, group.writer->reply(call), group.writer->room(call, items),
                      [&](u8* out) { return group.writer->write(call, items, out); });
}

AnsweredCall GroupCalls::answered(const Group& group) { return {group.context, routes_.setup(group.route).version}; }

// False: the call has ended, and on_gone() has been or will be called.
template <class Write>
bool GroupCalls::send_message(Group& group, const HttpReply& reply, size_t room, Write write) {
  u8* out = attachment_->begin_message(group.call, room);
  if (!out) return false;
  const size_t size = size_t(write(out) - out);
  attachment_->set_header(group.call, routes_.header(group.route));
  attachment_->set_reply(group.call, reply);
  attachment_->commit_message(group.call, size);
  return true;
}

// An item of a call that may have more of them is answered.
void GroupCalls::sent_one(u32 g) {
  Group& group = groups_[g];
  group.active_ns = clock_.drain_ns;
  if (group.unanswered) return;
  if (failed(g)) {
    end_failed(g);
  } else if (group.kind == GroupKind::kTogether) {
    end(g, {});
  } else if (group.half_closed) {
    end_half_closed(g);
  } else if (group.closing) {
    end_drained(g);
  }
}

void GroupCalls::half_close(u32 g) {
  groups_[g].half_closed = true;
  if (!groups_[g].unanswered) end_half_closed(g);
}

void GroupCalls::end_half_closed(u32 g) {
  if (groups_[g].kind != GroupKind::kGathered) return end(g, {});
  if (groups_[g].items) return end_together(g);
  end(g, {.code = StatusCode::kInvalidArgument, .message = "the stream has no messages, at least 1"});
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
