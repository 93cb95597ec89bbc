// What the headers and trailers of a server's answer say, and whether it is gRPC.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/types.h"
#include "upstream/call_end.h"

namespace fastqps::upstream {

class Reply {
 public:
  // A field of the headers or of the trailers.
  void field(std::string_view name, std::string_view value);
  // These were all fields of a block; last: nothing follows it. Returns how the call ends by them; nothing: it goes on.
  std::optional<CallEnd> end_block(bool last);
  // The headers have come, and are those of a gRPC answer.
  bool begun() const { return begun_; }
  // How the call ends if nothing follows.
  CallEnd end() const;

 private:
  std::optional<CallEnd> refuse() const;

  bool begun_ = false;
  u32 http_status_ = 0;
  std::string content_type_, encoding_;
  std::optional<u32> grpc_status_;
  std::string grpc_message_;
};

}  // namespace fastqps::upstream
