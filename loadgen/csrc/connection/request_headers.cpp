#include "connection/request_headers.h"

#include <algorithm>

namespace loadgen {

RequestHeaders::RequestHeaders(const Options& options) {
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

void RequestHeaders::add(std::string name, std::string value, u8 flags) {
  const std::string &n = texts_.emplace_back(std::move(name)), &v = texts_.emplace_back(std::move(value));
  const auto bytes = [](const std::string& text) { return reinterpret_cast<u8*>(const_cast<char*>(text.data())); };
  flags |= NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
  fields_.push_back({bytes(n), bytes(v), n.size(), v.size(), flags});
}

}  // namespace loadgen
