#include "edge/upstream/http2_call.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "contract/status.h"

namespace fastqps::upstream {

namespace {

constexpr u8 kTlsAlert = 0x15, kTlsHandshake = 0x16;
constexpr size_t kGoawayHeadBytes = 17;  // a frame's head, the last stream, the error

}  // namespace

// A server of TLS answers clients without it by an alert, or by GOAWAY with the error INADEQUATE_SECURITY.
bool Greeting::wants_tls() const {
  constexpr char kGoaway = 7, kInadequateSecurity = 12;
  if (first_.empty()) return false;
  if (u8(first_[0]) == kTlsAlert || u8(first_[0]) == kTlsHandshake) return true;
  return first_.size() >= kGoawayHeadBytes && first_[3] == kGoaway && first_[16] == kInadequateSecurity;
}

std::string Greeting::explain(std::string_view fault) const {
  if (wants_tls()) return "the server speaks TLS; set --upstream-tls-ca";
  if (first_.starts_with("HTTP/")) {
    const std::string_view line = std::string_view(first_).substr(0, first_.find('\r'));
    return "the server answers '" + printable(line) + "', which is not HTTP/2; set the port of its gRPC";
  }
  return "the server's first bytes are not HTTP/2 (" + std::string(fault) + "); check that the port is a gRPC port";
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c < 0x20 || c > 0x7e) c = '?';
  return out;
}

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
  decoded.resize(percent_decode(encoded, decoded.data()));
  clean.resize(clean_utf8(decoded, clean.data(), kMessageBytes, ~0u));
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
    grpc_status_ = number(value).value_or(u32(StatusCode::kUnknown));
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

namespace {

constexpr size_t kWordsBytes = 200;
// The server's answers are small and are taken at once. With these windows it never waits for a round trip.
constexpr h2client::SessionSettings kSettings = {
    .stream_window = 8 << 20, .header_list_bytes = 16 << 10, .connection_window = 16 << 20};

nghttp2_nv pair(std::string_view name, std::string_view value, u8 flags = NGHTTP2_NV_FLAG_NONE) {
  return {reinterpret_cast<u8*>(const_cast<char*>(name.data())), reinterpret_cast<u8*>(const_cast<char*>(value.data())),
          name.size(), value.size(), flags};
}

std::string code(u32 error) { return nghttp2_http2_strerror(error); }

}  // namespace

Http2Call::Http2Call(CallListener& listener, const CallSettings& settings)
    : listener_(listener), settings_(settings), messages_(listener, settings.message_bytes_max, end_) {}

void Http2Call::start() {
  if (!session_.begin(kSettings))
    end({End::kLocal, 0, "no memory is left for a connection; use fewer lanes or upstreams"});
}

void Http2Call::end(CallEnd end) {
  if (!end_) end_ = std::move(end);
}

// ---- input

void Http2Call::receive(std::span<const u8> bytes) {
  if (end_) return;
  if (!opened_) greeting_.take(bytes);
  if (const int error = session_.receive(bytes)) break_off(nghttp2_strerror(error));
}

// The server's bytes cannot be read on.
void Http2Call::break_off(const std::string& fault) {
  if (end_) return;
  if (!opened_) return end_at_greeting(fault);
  end({End::kProtocol, 0, "the server's bytes are no valid HTTP/2 (" + fault + "); look for a proxy in between"});
}

void Http2Call::end_at_greeting(std::string_view fault) {
  end({greeting_.wants_tls() ? End::kTls : End::kProtocol, 0, greeting_.explain(fault)});
}

void Http2Call::cut() {
  if (end_) return;
  if (opened_) return end({End::kClosed, 0, "the server closed the connection" + reason()});
  if (!greeting_.empty()) return end_at_greeting("they end");
  end({End::kClosed, 0,
       settings_.tls
           ? "the server closed the connection before it said anything"
           : "the server closed the connection before it said anything; if it speaks TLS, set --upstream-tls-ca"});
}

void Http2Call::on_data(Http2Call&, std::span<const u8> bytes) {
  if (!reply_.begun()) end({End::kProtocol, 0, "the server sent messages before headers; look for a proxy in between"});
  if (!end_) messages_.feed(bytes);
}

void Http2Call::on_settings() {
  if (opened_) return;
  opened_ = true;
  submit();
  if (!end_) listener_.opened();
}

void Http2Call::on_headers(Http2Call&, bool last) {
  if (auto over = reply_.end_block(last)) end(std::move(*over));
}

void Http2Call::on_goaway(const nghttp2_goaway& frame) {
  if (frame.error_code != NGHTTP2_NO_ERROR) parting_.goaway = code(frame.error_code);
  if (frame.opaque_data_len) {
    const std::string_view words(reinterpret_cast<const char*>(frame.opaque_data), frame.opaque_data_len);
    parting_.goaway += (parting_.goaway.empty() ? "" : ", ") + printable(words.substr(0, kWordsBytes));
  }
  if (!opened_) return end({End::kClosed, 0, "the server takes no calls now" + reason()});
  if (!std::exchange(parting_.retiring, true) && !end_) listener_.retiring();
}

void Http2Call::on_stream_close(Http2Call&, u32 error) {
  if (end_) return;
  if (parting_.reset) return end({End::kClosed, 0, "the server reset the call: " + code(*parting_.reset) + reason()});
  if (parting_.retiring) return end_refused();
  end({End::kProtocol, 0,
       "the server's answer is no valid HTTP/2: " + (session_.invalid() ? session_.invalid() : code(error)) +
           "; look for a proxy in between"});
}

void Http2Call::end_refused() {
  end({End::kClosed, 0, "the server refused the call, since it takes no more" + reason()});
}

// The server's reason, if it gave one.
std::string Http2Call::reason() const { return parting_.goaway.empty() ? "" : " (" + parting_.goaway + ")"; }

// ---- output

u8* Http2Call::begin_message(size_t bytes) {
  if (end_ || queue_.closed() || queue_.bytes() + bytes > settings_.unsent_bytes_max) return nullptr;
  return queue_.begin(bytes);
}

void Http2Call::submit() {
  const std::string bearer = "Bearer " + settings_.token;
  nghttp2_nv headers[8];
  size_t count = 0;
  headers[count++] = pair(":method", "POST");
  headers[count++] = pair(":scheme", settings_.tls ? "https" : "http");
  headers[count++] = pair(":path", settings_.path);
  headers[count++] = pair(":authority", settings_.authority);
  headers[count++] = pair("te", "trailers");
  headers[count++] = pair("content-type", "application/grpc");
  if (!settings_.token.empty()) headers[count++] = pair("authorization", bearer, NGHTTP2_NV_FLAG_NO_INDEX);
  stream_ = session_.submit(*this, headers, count);
  if (stream_ < 0) end({End::kLocal, 0, "no memory is left for a call; use fewer lanes or upstreams"});
}

void Http2Call::fill(transport::OutputBuffer& output) {
  if (!session_.begun() || end_) return;
  if (deferred_ && (queue_.bytes() || queue_.closed())) {
    deferred_ = false;
    nghttp2_session_resume_data(session_.get(), stream_);
  }
  if (const int error = session_.fill(output, [](size_t) {}))
    end({End::kLocal, 0, std::string("HTTP/2 cannot go on: ") + nghttp2_strerror(error)});
  // After what was wrong with the connection nghttp2 has told the server so, and is done.
  if (end_ || session_.wants_read()) return;
  parting_.retiring ? end_refused() : break_off(session_.invalid() ? session_.invalid() : "protocol error");
}

ssize_t Http2Call::read_body(Http2Call&, u8*, size_t room, u32* flags) {
  const size_t bytes = std::min(room, queue_.bytes());
  if (!bytes && !queue_.closed()) return deferred_ = true, NGHTTP2_ERR_DEFERRED;
  if (bytes) *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (queue_.closed() && bytes == queue_.bytes()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return ssize_t(bytes);
}

}  // namespace fastqps::upstream
