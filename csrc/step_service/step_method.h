// StepService/Run: the items of edges, many to a message. Each is taken like an item of any other call, and its answer
// is a row of a message.
#pragma once
#include "predict/items_method.h"
#include "step_service/step_writer.h"
#include "wire/step_message.h"

namespace fastqps::front {

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

}  // namespace fastqps::front
