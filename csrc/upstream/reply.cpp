#include "upstream/reply.h"

#include <charconv>

#include "grpc/grpc_status.h"

namespace fastqps::upstream {

namespace {

constexpr size_t kFieldBytes = 64, kMessageBytes = 1024;  // kept of a value
constexpr std::string_view kGrpc = "application/grpc";

std::optional<u32> number(std::string_view text) {
  u32 value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

// The server's words as text that can be shown.
std::string words(std::string_view encoded) {
  std::string decoded(encoded.size(), '\0'), clean(kMessageBytes, '\0');
  decoded.resize(front::percent_decode(encoded, decoded.data()));
  clean.resize(front::clean_utf8(decoded, clean.data(), kMessageBytes, ~0u));
  return clean;
}

}  // namespace

void Reply::field(std::string_view name, std::string_view value) {
  if (name == ":status") {
    http_status_ = number(value).value_or(0);
  } else if (name == "content-type") {
    content_type_ = value.substr(0, kFieldBytes);
  } else if (name == "grpc-encoding") {
    encoding_ = value.substr(0, kFieldBytes);
  } else if (name == "grpc-status") {
    grpc_status_ = number(value).value_or(u32(front::StatusCode::kUnknown));
  } else if (name == "grpc-message") {
    grpc_message_ = words(value.substr(0, 3 * kMessageBytes));
  }
}

std::optional<CallEnd> Reply::end_block(bool last) {
  if (last) return end();
  if (begun_) return std::nullopt;
  if (http_status_ / 100 == 1) return *this = {}, std::nullopt;  // others follow
  begun_ = true;
  return refuse();
}

std::optional<CallEnd> Reply::refuse() const {
  const auto because = [](std::string text) { return CallEnd{End::kProtocol, 0, std::move(text)}; };
  if (http_status_ != 200)
    return because("the server answers with HTTP status " + std::to_string(http_status_) +
                   " instead of gRPC; check that the address is a fastqps server's gRPC port");
  const bool more = content_type_.size() > kGrpc.size();
  if (!content_type_.starts_with(kGrpc) ||
      (more && content_type_[kGrpc.size()] != '+' && content_type_[kGrpc.size()] != ';'))
    return because("the server answers with content type '" + content_type_ +
                   "' instead of gRPC's; check that the address is a fastqps server's gRPC port");
  if (!encoding_.empty() && encoding_ != "identity")
    return because("the server compresses its messages ('" + encoding_ +
                   "'), which was not offered; connect without a proxy that does so");
  return std::nullopt;
}

CallEnd Reply::end() const {
  if (grpc_status_) return {End::kStatus, *grpc_status_, grpc_message_};
  if (auto refused = refuse()) return *refused;
  return {End::kProtocol, 0, "the server ended the call without a gRPC status; look for a proxy in between"};
}

}  // namespace fastqps::upstream
