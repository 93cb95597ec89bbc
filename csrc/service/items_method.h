// A call of one message of many items, answered by one message when all items are: PredictBatch, and the unary methods
// of other protocols.
#pragma once
#include "core/clock.h"
#include "service/answers/withdrawals.h"
#include "service/formats/answer_writer.h"
#include "service/formats/request_reader.h"
#include "service/intake/intake.h"

namespace fastqps::service {

// The parts of the service that a method with items uses.
struct ItemsPath {
  const Attachment& attachment;
  GroupCalls& groups;
  Intake& intake;
  Answers& answers;
  Withdrawals& withdrawals;
  CallCounts& counts;
  RefusalWriter& refusals;
  const u32 items_max;     // of one message
  const u32 inflight_max;  // of one stream
};

// How long reading a message takes. Of a short one it does not matter: reading it again takes a small share of a slice.
class ReadTime {
 public:
  explicit ReadTime(std::span<const u8> message) : began_(message.size() > kShort ? now_ns() : 0) {}
  u64 ns() const { return began_ ? now_ns() - began_ : 0; }

 private:
  static constexpr size_t kShort = 512;
  const u64 began_;
};

// Takes the items of a message that were not taken yet: as many as the connection's part of the turn allows.
// group: of the message, kTogether. It may be free afterwards.
// read_ns: what reading it has taken. The next part reads it again, so this one takes items for at least as long.
transport::Took take_items(const ItemsPath& path, RequestReader& reader, u32 group, size_t message_bytes, u64 read_ns,
                           Rpc rpc, transport::CallId call, const transport::CallInfo& info);
// The message turned out wrong after its group was opened: the items that were not taken fail.
void refuse_items(const ItemsPath& path, const FieldError& error, u32 group, Rpc rpc, transport::CallId call,
                  const transport::CallInfo& info);

class ItemsMethod final : public transport::Method {
 public:
  // Methods may share a reader: it keeps nothing between two calls of on_message().
  ItemsMethod(const ItemsPath& path, RequestReader& reader, const AnswerWriter& writer, Rpc rpc)
      : path_(path), reader_(reader), writer_(writer), rpc_(rpc) {}

  // After a part the loop delivers the same message again.
  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override;
  transport::Gone on_gone(transport::CallId, u64 user) override { return path_.withdrawals.group_gone(user); }
  // Whether it has taken a part of the call's message.
  bool began(u64 user) const { return user && path_.groups[u32(user - 1)].writer == &writer_; }

 private:
  void refuse(transport::CallId call, const FieldError& error, const transport::CallInfo& info);

  const ItemsPath path_;
  RequestReader& reader_;
  const AnswerWriter& writer_;
  const Rpc rpc_;
};

}  // namespace fastqps::service
