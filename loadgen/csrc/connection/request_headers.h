// The headers of every call, as a gRPC client sends them. The last one is grpc-timeout, whose value differs.
#pragma once
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "options.h"

namespace loadgen {

class RequestHeaders {
 public:
  explicit RequestHeaders(const Options& options) {
    const bool ipv6 = options.host.find(':') != std::string::npos;
    const std::string host = ipv6 ? "[" + options.host + "]" : options.host;
    const bool own_agent = std::any_of(options.headers.begin(), options.headers.end(),
                                       [](const auto& header) { return header.first == "user-agent"; });
    add(":method", "POST");
    add(":scheme", options.tls ? "https" : "http");
    add(":path", options.path);
    add(":authority", host + ":" + std::to_string(options.port));
    add("te", "trailers");
    add("content-type", "application/grpc");
    if (!own_agent) add("user-agent", "loadgen");
    for (const auto& [name, value] : options.headers) add(name, value);
    // Not indexed: each value is another, and would push the others out of the table.
    add("grpc-timeout", "", NGHTTP2_NV_FLAG_NO_INDEX);
  }
  RequestHeaders(const RequestHeaders&) = delete;

  const nghttp2_nv* data() const { return fields_.data(); }
  // The timeout's bytes have to live until they are written; none: no such header.
  size_t with_timeout(const char* text, size_t bytes) {
    fields_.back().value = reinterpret_cast<u8*>(const_cast<char*>(text));
    fields_.back().valuelen = bytes;
    return fields_.size() - (bytes == 0);
  }

 private:
  void add(std::string name, std::string value, u8 flags = NGHTTP2_NV_FLAG_NONE) {
    const std::string &n = texts_.emplace_back(std::move(name)), &v = texts_.emplace_back(std::move(value));
    const auto bytes = [](const std::string& text) { return reinterpret_cast<u8*>(const_cast<char*>(text.data())); };
    flags |= NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
    fields_.push_back({bytes(n), bytes(v), n.size(), v.size(), flags});
  }

  std::deque<std::string> texts_;
  std::vector<nghttp2_nv> fields_;
};

}  // namespace loadgen
