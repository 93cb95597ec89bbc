// A method of the API that no model here can answer.
#pragma once
#include "predict/items_method.h"

namespace fastqps::front {

class UnservedMethod final : public Method {
 public:
  UnservedMethod(const ItemsPath& path, const char* why) : path_(path), why_(why) {}

  Took on_message(CallId call, std::span<const u8>, const CallInfo& info) override {
    path_.attachment->finish(call, {.code = StatusCode::kFailedPrecondition, .message = why_});
    path_.counts.call(0, kTeiEmbed, StatusCode::kFailedPrecondition, info.receive_ns);
    return Took::kAll;
  }

 private:
  const ItemsPath path_;
  const char* const why_;
};

}  // namespace fastqps::front
