// fastqps.v1.StepService, by which edges send their steps (proto/fastqps/v1/step.proto).
#pragma once
#include "edge/messages/step_message.h"
#include "service/formats/protocol.h"
#include "service/methods.h"

namespace fastqps::protocols {

// Writes the answer to an edge's item as it lies in its slot.
class StepWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override {
    return edge::step_row_size(of(items[0]));
  }
  u8* write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    return edge::write_step_row(of(items[0]), out);
  }
  size_t chunk_room(const service::AnsweredCall&, const ChunkView& chunk) const override {
    return edge::step_row_size(of(chunk));
  }
  u8* write_chunk(const service::AnsweredCall&, const ChunkView& chunk, u8* out) const override {
    return edge::write_step_row(of(chunk), out);
  }
  size_t seal_room() const override { return edge::kChecksumBytes; }
  u8* seal(const u8* begin, u8* end) const override { return edge::seal_step_message(begin, end); }
  bool has_item_statuses() const override { return true; }

 private:
  static edge::StepRow of(const ResponseView& item);
  static edge::StepRow of(const ChunkView& chunk);
};

// StepService/Run: the items of edges, many to a message. Each is taken like an item of any other call, and its answer
// is a row of a message.
class StepMethod final : public transport::Method {
 public:
  // server: this server's version of fastqps.
  StepMethod(const service::ItemsPath& path, service::ModelRoutes& routes, const service::DoorMemory& memory,
             std::string server)
      : path_(path), routes_(routes), memory_(memory), server_(std::move(server)) {}

  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override;
  void on_half_close(transport::CallId call, const transport::CallInfo& info) override;
  transport::Gone on_gone(transport::CallId, u64 user) override { return path_.withdrawals.gone(user); }
  // An edge sends echoes, so it has gone without a word.
  bool on_idle(transport::CallId call, u64 user) override;

 private:
  void begin(transport::CallId call, const transport::CallInfo& info);
  transport::Took take_items(u32 group, transport::CallId call, const transport::CallInfo& info, size_t message_bytes,
                             u64 read_ns);
  void take_item(const edge::StepItem& item, std::string_view model, const Route* route, u32 group,
                 transport::CallId call, const transport::CallInfo& info);
  void fill(const edge::StepItem& item, const Route& route, RequestView& view) const;
  void end_call(transport::CallId call, const transport::CallInfo& info, StatusCode code, const char* format, ...)
      __attribute__((format(printf, 5, 6)));
  bool serves(std::string_view version, u32 route) const;
  template <class Write>
  void send(transport::CallId call, size_t size, Write write);
  void send_load(u32 group, transport::CallId call, u64 echo);

  const service::ItemsPath path_;
  service::ModelRoutes& routes_;
  const service::DoorMemory& memory_;
  const std::string server_;
  const StepWriter writer_;
  edge::StepRequestReader reader_;
};

}  // namespace fastqps::protocols
