// Open calls of many items, which are answered by one message when all items are, or by one message each.
#pragma once
#include "contract/response_view.h"
#include "service/formats/protocol.h"
#include "service/tables/tables.h"

namespace fastqps::service {

inline constexpr const char* kReloadedMeanwhile = "the model was reloaded meanwhile: try again";

class GroupCalls {
 public:
  explicit GroupCalls(Tables& tables) : tables_(tables), groups_(tables.groups) {}

  Group& operator[](u32 group) { return groups_[group]; }
  u32 size() const { return groups_.size(); }
  u32 open(transport::CallId call, const GroupStart& start, const transport::CallInfo& info);
  // The group of a request of a stream. Its end is a message, and the stream goes on.
  // Unless its answers come in pieces, each waits for the answers to the requests before.
  u32 open_request(u32 stream, const GroupStart& start, const transport::CallInfo& info);

  // Whether there is memory for an answer that waits for others of its call.
  bool may_take(u32 group, u32 index) const;
  // One item's answer.
  void answer(u32 group, u32 index, const ResponseView& response);
  void refuse(u32 group, u32 index, u64 request_id, const Refusal& refusal);
  // The last piece of a generation that is sent in pieces, and one before.
  void answer(u32 group, const ChunkView& last);
  bool send_chunk(u32 group, const ChunkView& chunk);
  // Whether its call has had other items, too.
  bool shares_call(u32 group) { return groups_[group].stream != Groups::kNone || groups_[group].items > 1; }
  // Whether the call fails because one of its items did.
  bool failed(u32 group) { return groups_[group].failure.code != StatusCode::kOk; }
  // The items of a failed call that were not read.
  void skip_rest(u32 group);
  // Answers a call without items.
  void answer_none(u32 group) { send(group, {}), end(group, {}); }
  void end(u32 group, const Status& status);
  // The client of a stream is gone: what is left of a request of which only a part was taken.
  void end_reading(u32 stream);
  // The client of a stream sends no more.
  void half_close(u32 group);
  // Ends a stream without unanswered items, on a draining server.
  void end_drained(u32 group);

  // Calls drop(group) for each call with a failed item and others that are not answered, and ends it.
  template <class Drop>
  void end_failing(Drop drop) {
    groups_.drop_failing([&](u32 group) { drop(group), end_failed(group); });
  }
  // Between hold and resume no message of the call is delivered.
  void hold(u32 group);
  // At the end of a turn: sends the rows that were written in it.
  void flush_rows();
  // The same of one call.
  void flush_rows(u32 group);
  // Once a turn: sends what waited until its client had read more.
  void resume_blocked();
  template <class MayGo>
  void resume_held(MayGo may_go) {
    if (groups_.any_held())
      groups_.resume(may_go, [this](transport::CallId call) { tables_.attachment->resume(call); });
  }

 private:
  AnsweredCall answered(const Group& group);
  template <class Write, class Reply>
  bool send_message(const Group& group, size_t room, Write write, Reply reply);
  bool send(u32 group, std::span<const ResponseView> items);
  template <class Write>
  bool add_row(u32 group, size_t room, Write write);
  void answer_in_order(u32 group, u32 index, const ResponseView& response);
  bool send_waiting(u32 group);
  template <class Write, class Reply>
  bool send_or_keep(u32 group, size_t room, Write write, Reply reply);
  void end_too_large(u32 g, size_t room);
  bool send_failure(u32 group, const Status& status);
  void end_request(u32 group, const Status& status);
  void close_request(u32 group);
  void end_failed(u32 group);
  void end_half_closed(u32 group);
  void sent_one(u32 group);
  void end_if_sent(u32 group);
  void end_together(u32 group);
  void keep_failure(Group& group, u32 index, const Refusal& refusal);

  Tables& tables_;
  Groups& groups_;
  std::vector<u32> filled_;  // groups with rows of this turn
};

}  // namespace fastqps::service
