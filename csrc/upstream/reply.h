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
  // The headers are complete. Returns false if they only announce others (status 1xx).
  bool final_headers();
  // Why the headers are not those of a gRPC answer; nothing: they are.
  std::optional<CallEnd> refuse() const;
  // How the call ends if these were its last fields.
  CallEnd end() const;

 private:
  u32 http_status_ = 0;
  std::string content_type_, encoding_;
  std::optional<u32> grpc_status_;
  std::string grpc_message_;
};

}  // namespace fastqps::upstream
