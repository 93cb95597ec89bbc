// The headers of every call, as a gRPC client sends them. The last one is grpc-timeout, whose value differs.
#pragma once
#include <nghttp2/nghttp2.h>

#include <deque>
#include <string>
#include <vector>

#include "options.h"

namespace loadgen {

class RequestHeaders {
 public:
  explicit RequestHeaders(const Options& options);
  RequestHeaders(const RequestHeaders&) = delete;

  const nghttp2_nv* data() const { return fields_.data(); }
  // The timeout's bytes have to live until they are written; none: no such header.
  size_t with_timeout(const char* text, size_t bytes) {
    fields_.back().value = reinterpret_cast<u8*>(const_cast<char*>(text));
    fields_.back().valuelen = bytes;
    return fields_.size() - (bytes == 0);
  }

 private:
  void add(std::string name, std::string value, u8 flags = NGHTTP2_NV_FLAG_NONE);

  std::deque<std::string> texts_;
  std::vector<nghttp2_nv> fields_;
};

}  // namespace loadgen
