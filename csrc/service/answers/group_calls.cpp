#include "service/answers/group_calls.h"

#include <algorithm>

#include "contract/utf8.h"

namespace fastqps::service {

namespace {

// write(out) writes at most `room` bytes and returns their end.
template <class Write>
void keep(std::string& kept, size_t room, Write write) {
  kept.resize(room);
  u8* begin = reinterpret_cast<u8*>(kept.data());
  kept.resize(size_t(write(begin) - begin));
}

transport::HttpReply usual_reply(size_t) { return {}; }

}  // namespace

u32 GroupCalls::open(transport::CallId call, const GroupStart& start, const transport::CallInfo& info) {
  const u32 g = groups_.open(call, start, info);
  groups_[g].route = tables_.routes.first();  // until it has an item
  if (start.items > 1 && !start.in_pieces) groups_[g].kept.expect(start.items);
  tables_.attachment->set_user(call, kGroupUser | (u64(g) + 1));
  return g;
}

u32 GroupCalls::open_request(u32 stream, const GroupStart& start, const transport::CallInfo& info) {
  const u32 g = groups_.open(groups_[stream].call, start, info);
  Group& group = groups_[g];
  Group& whole = groups_[stream];
  group.route = tables_.routes.first();
  group.stream = stream;
  if (!start.in_pieces) group.place = whole.items++;
  if (start.items > 1 && !start.in_pieces) group.kept.expect(start.items);
  whole.unanswered += start.items;
  return g;
}

bool GroupCalls::may_take(u32 g, u32 index) const {
  const Group& group = groups_[g];
  const bool keeps = group.kind == GroupKind::kGathered ||
                     (group.kind == GroupKind::kTogether && group.items > 1 && !group.in_pieces) ||
                     (group.kind == GroupKind::kInOrder && index != group.ordered.sent) ||
                     (group.place != Groups::kNone && group.place != groups_[group.stream].ordered.sent);
  return !keeps || groups_.may_keep(g);
}

void GroupCalls::answer(u32 g, u32 index, const ResponseView& response) {
  Group& group = groups_[g];
  group.unanswered--;
  if (group.gone) return;
  if (!response.status) groups_.note_answer(g, tables_.clock.drain_ns);
  if (group.kind == GroupKind::kEach || group.kind == GroupKind::kRows) {
    if (send(g, {&response, 1})) sent_one(g);
  } else if (group.kind == GroupKind::kInOrder) {
    answer_in_order(g, index, response);
  } else if (group.kind == GroupKind::kGathered) {
    if (!failed(g)) groups_.keep(g, index, response);
    sent_one(g);
  } else if (group.items == 1) {
    if (send(g, {&response, 1})) end(g, {});
  } else {
    if (!failed(g)) groups_.keep(g, index, response);
    if (!group.unanswered) end_together(g);
  }
}

// Behind a failure nothing is sent.
void GroupCalls::answer_in_order(u32 g, u32 index, const ResponseView& response) {
  Group& group = groups_[g];
  if (index == group.ordered.sent) {
    if (!send(g, {&response, 1})) return;
    group.ordered.sent++;
    if (!send_waiting(g)) return;
  } else if (!failed(g) || index - group.ordered.sent < group.failure.index - group.ordered.sent) {
    const AnsweredCall call = answered(group);
    std::string message;
    keep(message, group.writer->room(call, {&response, 1}), [&](u8* out) {
      return group.writer->write(call, {&response, 1}, out);
    });
    groups_.keep(g, index, std::move(message));
  }
  sent_one(g);
}

// As many as the client reads: a slow answer may have had many behind it.
bool GroupCalls::send_waiting(u32 g) {
  Group& group = groups_[g];
  OrderedAnswers& ordered = group.ordered;
  while (ordered.waiting.contains(ordered.sent)) {
    if (failed(g) && ordered.sent == group.failure.index) break;
    if (!tables_.attachment->writable(group.call)) return groups_.block(g), true;
    const std::string message = groups_.take(g);
    if (!send_message(
            group, message.size(), [&](u8* out) { return std::copy(message.begin(), message.end(), out); },
            usual_reply))
      return false;
  }
  return true;
}

void GroupCalls::resume_blocked() {
  groups_.unblock([this](const Group& group) { return !group.gone && tables_.attachment->writable(group.call); },
                  [this](u32 g) {
                    if (send_waiting(g)) end_if_sent(g);
                  });
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
  const bool first =
      group.kind == GroupKind::kInOrder && index - group.ordered.sent < group.failure.index - group.ordered.sent;
  if (!failed(g) || first) keep_failure(group, index, refusal);
  if (group.all_sent()) return end_failed(g);
  if (group.kind == GroupKind::kTogether) groups_.fail(g);
}

// Names the field as the protocol does, also at the beginning of the message, and at its end which input is wrong.
void GroupCalls::keep_failure(Group& group, u32 index, const Refusal& refusal) {
  const FieldNames* const names = group.writer->fields();
  const auto named = [&](std::string_view each) -> std::string_view {
    if (group.structure_field && each.starts_with("generate.structure")) return group.structure_field;
    return names ? names->of(each) : each;
  };
  const std::string_view field = refusal.field, name = named(field);
  std::string_view message = refusal.message;
  if (!field.empty() && message.starts_with(field)) message.remove_prefix(field.size());
  const bool renamed = message.size() < refusal.message.size();
  group.failure = {refusal.code, refusal.retry_after_ms, renamed ? std::string(name) : std::string(), std::string(name),
                   index,        refusal.fault};
  group.failure.message += message;
  const bool of_input = name == named("text") || name == named("token_ids");
  if (of_input && group.kind == GroupKind::kTogether && group.items > group.candidates)
    group.failure.message += " (item " + std::to_string(index / group.candidates) + ')';
}

void GroupCalls::skip_rest(u32 g) {
  Group& group = groups_[g];
  group.unanswered -= group.items - std::exchange(group.taken, group.items);
  if (!group.unanswered) end_together(g);
}

// A reload may change the size of a model's answers in the middle of a call: one message cannot have both.
void GroupCalls::end_together(u32 g) {
  if (failed(g)) return end_failed(g);
  const std::span<const ResponseView> items = groups_[g].kept.all();
  const auto other_size = [&](const ResponseView& item) {
    const EmbeddingView &own = item.embedding, &first = items[0].embedding;
    const bool other = own.dimensions != first.dimensions || item.labels.size() != items[0].labels.size();
    // With dimensions, it is a vector for each token.
    return !item.status && (other || (!own.dimensions && (own.values.size() != first.values.size() ||
                                                          own.raw.size() != first.raw.size())));
  };
  if (!groups_[g].writer->has_item_statuses() && std::any_of(items.begin(), items.end(), other_size))
    return end(g, {.code = StatusCode::kUnavailable, .message = kReloadedMeanwhile});
  if (send(g, items)) end(g, {});
}

void GroupCalls::end_failed(u32 g) {
  const GroupFailure failure = groups_[g].failure;  // the end frees the group
  end(g, {failure.code, failure.message, failure.retry_after_ms, failure.field, failure.fault});
}

void GroupCalls::answer(u32 g, const ChunkView& last) {
  Group& group = groups_[g];
  group.unanswered--;
  if (group.gone) return;
  groups_.note_answer(g, tables_.clock.drain_ns);
  group.usage.items++;
  group.usage.input_tokens += last.usage->input_tokens;
  group.usage.output_tokens += last.usage->output_tokens;
  ChunkView chunk = last;
  if (!group.unanswered) chunk.call = &group.usage;
  if (send_chunk(g, chunk)) sent_one(g);
}

// Behind a failure nothing is sent.
bool GroupCalls::send_chunk(u32 g, const ChunkView& chunk) {
  if (failed(g)) return true;
  const AnswerWriter& writer = *groups_[g].writer;
  const AnsweredCall call = answered(groups_[g]);
  return send_or_keep(
      g, writer.chunk_room(call, chunk), [&](u8* out) { return writer.write_chunk(call, chunk, out); },
      [&](size_t) { return writer.chunks_reply(call); });
}

bool GroupCalls::send(u32 g, std::span<const ResponseView> items) {
  const AnswerWriter& writer = *groups_[g].writer;
  const AnsweredCall call = answered(groups_[g]);
  const size_t room = writer.room(call, items);
  if (room > tables_.attachment->message_max() && groups_[g].kind != GroupKind::kRows)
    return end_too_large(g, room), false;
  return send_or_keep(
      g, room, [&](u8* out) { return writer.write(call, items, out); },
      [&](size_t bytes) { return writer.reply(call, items, bytes); });
}

void GroupCalls::end_too_large(u32 g, size_t room) {
  const std::string message = "the answer may take " + std::to_string(room >> 20) + " MiB, at most " +
                              std::to_string(tables_.attachment->message_max() >> 20) +
                              "; ask for fewer choices or log-probabilities, or in several requests";
  end(g, {.code = StatusCode::kInvalidArgument, .message = message});
}

// The failure of a request of a stream.
bool GroupCalls::send_failure(u32 g, const Status& status) {
  const AnswerWriter& writer = *groups_[g].writer;
  const AnsweredCall call{groups_[g].context, {}};
  const std::string message = text::repaired_utf8(status.message);
  return send_or_keep(
      g, writer.failure_room(call, message), [&](u8* out) { return writer.write_failure(call, message, out); },
      usual_reply);
}

// A request of a stream whose turn has not come is kept. False: as send_message().
template <class Write, class Reply>
bool GroupCalls::send_or_keep(u32 g, size_t room, Write write, Reply reply) {
  const Group& group = groups_[g];
  if (group.kind == GroupKind::kRows) return add_row(g, room, write);
  if (group.place != Groups::kNone && group.place != groups_[group.stream].ordered.sent) {
    std::string message;
    keep(message, room, write);
    return groups_.keep(group.stream, group.place, std::move(message)), true;
  }
  if (send_message(group, room, write, reply)) return true;
  close_request(g);
  return false;
}

// Rows are written where they are sent from. Returns false if the call has ended, as send_message().
template <class Write>
bool GroupCalls::add_row(u32 g, size_t room, Write write) {
  constexpr size_t kFirstBytes = 8 << 10, kMoreBytes = 32 << 10;  // a turn has few rows or many
  RowMessage& rows = groups_[g].rows;
  const size_t seal = groups_[g].writer->seal_room();
  const bool full = rows.begin && size_t(rows.end - rows.at) < room + seal;
  if (full) flush_rows(g);
  if (!rows.begin) {
    const size_t size = std::max(full ? kMoreBytes : kFirstBytes, room + seal);
    u8* out = tables_.attachment->begin_message(groups_[g].call, size);
    if (!out) return false;
    rows = {out, out, out + size};
    filled_.push_back(g);
  }
  rows.at = write(rows.at);
  return true;
}

void GroupCalls::flush_rows(u32 g) {
  Group& group = groups_[g];
  if (!group.rows.begin) return;
  const RowMessage rows = std::exchange(group.rows, {});
  const u8* end = group.writer->seal(rows.begin, rows.at);
  tables_.attachment->commit_message(group.call, size_t(end - rows.begin));
}

void GroupCalls::flush_rows() {
  for (const u32 g : filled_) flush_rows(g);
  filled_.clear();
}

AnsweredCall GroupCalls::answered(const Group& group) {
  const RouteSetup& setup = tables_.routes.setup(group.route);
  return {group.context, setup.version, setup.detokenizer.get(), u32(setup.card.prefix_ids.size())};
}

// False: the call has ended, and on_gone() has been or will be called.
template <class Write, class Reply>
bool GroupCalls::send_message(const Group& group, size_t room, Write write, Reply reply) {
  u8* out = tables_.attachment->begin_message(group.call, room);
  if (!out) return false;
  const size_t size = size_t(write(out) - out);
  tables_.attachment->set_header(group.call, tables_.routes.header(group.route));
  tables_.attachment->set_reply(group.call, reply(size));
  tables_.attachment->commit_message(group.call, size);
  return true;
}

// An item of a call that may have more of them is answered.
void GroupCalls::sent_one(u32 g) {
  groups_[g].active_ns = tables_.clock.drain_ns;
  end_if_sent(g);
}

void GroupCalls::end_if_sent(u32 g) {
  const Group& group = groups_[g];
  if (!group.all_sent()) return;
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
  if (groups_[g].all_sent()) end_half_closed(g);
}

void GroupCalls::end_half_closed(u32 g) {
  if (groups_[g].kind != GroupKind::kGathered) return end(g, {});
  if (groups_[g].items) return end_together(g);
  end(g, {.code = StatusCode::kInvalidArgument, .message = "the stream has no messages, at least 1"});
}

void GroupCalls::end(u32 g, const Status& status) {
  Group& group = groups_[g];
  if (group.gone || !group.open) return;
  if (group.stream != Groups::kNone) return end_request(g, status);
  flush_rows(g);
  tables_.attachment->finish(group.call, status);
  tables_.counts.call(group.route, group.method, status.code, group.received_ns);
  group.open = false;
  groups_.free_if_done(g);
}

// The answer to the request has been sent or kept, unless it failed.
void GroupCalls::end_request(u32 g, const Status& status) {
  if (status.code != StatusCode::kOk && !send_failure(g, status)) return;
  const u32 stream = groups_[g].stream, items = groups_[g].items, place = groups_[g].place;
  close_request(g);
  Group& whole = groups_[stream];
  whole.unanswered -= items;
  if (place == whole.ordered.sent) {
    whole.ordered.sent++;
    if (!send_waiting(stream)) return;
  }
  sent_one(stream);
}

// Frees the group of a request, now or with its last slot. Does nothing for a call's group.
void GroupCalls::close_request(u32 g) {
  if (groups_[g].stream == Groups::kNone) return;
  groups_[g].open = false;
  groups_.free_if_done(g);
}

void GroupCalls::end_reading(u32 stream) {
  const u32 g = std::exchange(groups_[stream].reading, Groups::kNone);
  if (g != Groups::kNone && !groups_[g].slots) close_request(g);
}

void GroupCalls::end_drained(u32 g) {
  end(g, {.code = StatusCode::kUnavailable,
          .message = "the server is draining, or serves another version now: open the stream again"});
}

void GroupCalls::hold(u32 g) {
  if (groups_.hold(g)) tables_.attachment->hold(groups_[g].call);
}

}  // namespace fastqps::service
