// fastqps.v1.StepService, by which edges send their steps (proto/fastqps/v1/step.proto).
#pragma once
#include "predict/formats/answer_writer.h"
#include "predict/formats/protocol.h"
#include "predict/items_method.h"
#include "wire/step_message.h"

namespace fastqps::front {

// Writes the answer to an edge's item as it lies in its slot.
class StepWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override {
    return step_row_size(of(items[0]));
  }
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override {
    return write_step_row(of(items[0]), out);
  }
  size_t chunk_room(const AnsweredCall&, const ChunkView& chunk) const override { return step_row_size(of(chunk)); }
  u8* write_chunk(const AnsweredCall&, const ChunkView& chunk, u8* out) const override {
    return write_step_row(of(chunk), out);
  }
  size_t seal_room() const override { return kChecksumBytes; }
  u8* seal(const u8* begin, u8* end) const override { return seal_step_message(begin, end); }
  bool has_item_statuses() const override { return true; }

 private:
  static StepRow of(const ResponseView& item);
  static StepRow of(const ChunkView& chunk);
};

// StepService/Run: the items of edges, many to a message. Each is taken like an item of any other call, and its answer
// is a row of a message.
class StepMethod final : public Method {
 public:
  // server: this server's version of fastqps.
  StepMethod(const ItemsPath& path, ModelRoutes& routes, const DoorMemory& memory, std::string server)
      : path_(path), routes_(routes), memory_(memory), server_(std::move(server)) {}

  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override;
  void on_half_close(CallId call, const CallInfo& info) override;
  Gone on_gone(CallId, u64 user) override { return path_.withdrawals.group_gone(user); }
  // An edge sends echoes, so it has gone without a word.
  bool on_idle(CallId call, u64 user) override;

 private:
  void begin(CallId call, const CallInfo& info);
  Took take_items(u32 group, CallId call, const CallInfo& info, size_t message_bytes, u64 read_ns);
  void take_item(const StepItem& item, std::string_view model, const Route* route, u32 group, CallId call,
                 const CallInfo& info);
  void fill(const StepItem& item, const Route& route, RequestView& view) const;
  void end_call(CallId call, const CallInfo& info, StatusCode code, const char* format, ...)
      __attribute__((format(printf, 5, 6)));
  bool serves(std::string_view version, u32 route) const;
  template <class Write>
  void send(CallId call, size_t size, Write write);
  void send_load(u32 group, CallId call, u64 echo);

  const ItemsPath path_;
  ModelRoutes& routes_;
  const DoorMemory& memory_;
  const std::string server_;
  const StepWriter writer_;
  StepRequestReader reader_;
};

class StepService final : public Protocol {
 public:
  StepService(const ItemsPath& path, ModelRoutes& routes, const DoorMemory& memory, std::string server)
      : run_(path, routes, memory, std::move(server)) {}

  void add_methods(MethodTable& table) override {
    table.add({kStepRunPath, MethodKind::kBidi, &run_, MethodRole::kService, kSteps});
  }

 private:
  StepMethod run_;
};

}  // namespace fastqps::front
