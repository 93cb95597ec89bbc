// A page of HTML that is the same for everyone, and needs no token.
#pragma once
#include <algorithm>
#include <string>

#include "transport/http/http_request.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

class Page final : public Method {
 public:
  Page(Transport& transport, std::string html) : transport_(transport), html_(std::move(html)) {}

  Took on_message(CallId call, std::span<const u8>, const CallInfo&) override {
    transport_.set_reply(call, {.type = ContentType::kHtml});
    if (u8* at = transport_.begin_message(call, html_.size())) {
      std::copy(html_.begin(), html_.end(), at);
      transport_.commit_message(call, html_.size());
    }
    transport_.finish(call);
    return Took::kAll;
  }

 private:
  Transport& transport_;
  const std::string html_;
};

}  // namespace fastqps::transport
