// Beast asserts what it has not checked: a client's bytes must not end the process.
#define BOOST_DISABLE_ASSERTS
#define BOOST_BEAST_HEADER_ONLY 1
#include "transport/http1/request_parser.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <optional>
#include <utility>

#include "transport/http/http_request.h"

namespace fastqps::transport {

namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using View = boost::beast::string_view;

constexpr u32 kChunkExtensionBytes = 256;

std::string_view to_std(View text) { return {text.data(), text.size()}; }

// Lower case where there is room; a longer name is none that is known.
struct LowerCase {
  std::array<char, 64> room;
  std::string_view of(View name) {
    const size_t bytes = std::min(name.size(), room.size());
    std::transform(name.begin(), name.begin() + bytes, room.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    return {room.data(), bytes};
  }
};

// The characters of a host and a port, and no list.
bool good_host(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view(".-_:[]%~!$&'()*+;=").find(c) != std::string_view::npos;
  });
}

class Parser final : public http::basic_parser<true> {
 public:
  explicit Parser(RequestSink& sink) : sink_(sink) {
    eager(true);
    header_limit(~u32(0));  // the session counts, over all pieces
    body_limit(boost::none);
  }
  // The bytes that views lie in, for a check that Beast's views do not allow.
  void set_input(const char* begin, const char* end) { begin_ = begin, end_ = end; }
  const char* why() const { return why_; }
  bool stopped() const { return stopped_; }

 private:
  void on_request_impl(http::verb, View verb, View target, int version, error_code& error) override {
    version_ = version;
    check(sink_.on_request_line(to_std(verb), to_std(target)), error);
  }
  void on_response_impl(int, View, int, error_code&) override {}
  void on_field_impl(http::field, View name, View value, error_code& error) override {
    if (folded(name, value)) return bad("a header is folded over lines", error);
    if (is_header_done()) return;  // a trailer
    const std::string_view lower = lower_.of(name), text = to_std(value);
    if (lower == "host") {
      if (hosts_++ || !good_host(text)) return bad("the Host header must be given once, as HOST:PORT", error);
    } else if (lower == "content-length") {
      const bool digits = !text.empty() && text.size() <= 18 &&
                          std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (lengths_++ || codings_ || !digits)
        return bad("the Content-Length header must be given once, in digits", error);
    } else if (lower == "transfer-encoding") {
      if (codings_++ || lengths_ || version_ < 11 || !equal_ignoring_case(text, "chunked"))
        return bad("the only Transfer-Encoding is chunked, once, without Content-Length", error);
    }
    check(sink_.on_field(lower, text), error);
  }
  void on_header_impl(error_code& error) override {
    if (!hosts_ && version_ >= 11) return bad("the Host header is missing", error);
    const auto length = content_length();
    check(sink_.on_head({.keep_alive = keep_alive(),
                         .http11 = version_ >= 11,
                         .chunked = codings_ > 0,
                         .length_known = length.has_value(),
                         .length = length.value_or(0)}),
          error);
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code& error) override { error = {}; }
  size_t on_body_impl(View body, error_code& error) override { return take(body, error); }
  void on_chunk_header_impl(std::uint64_t, View extension, error_code& error) override {
    if (extension.size() > kChunkExtensionBytes) return bad("a chunk extension is over 256 bytes", error);
    // Beast lets a quoted one hold bare line feeds, which another server may take for the end of the line.
    const auto control = [](char c) { return (u8(c) < 0x20 && c != '\t') || c == 0x7f; };
    if (std::any_of(extension.begin(), extension.end(), control)) return bad("a chunk extension is malformed", error);
    error = {};
  }
  size_t on_chunk_body_impl(std::uint64_t, View body, error_code& error) override { return take(body, error); }
  void on_finish_impl(error_code& error) override { check(sink_.on_end(), error); }

  // Beast joins the lines of a folded header, elsewhere, or leaves out a first one that is empty.
  bool folded(View name, View value) const {
    if (value.data() < begin_ || value.data() + value.size() > end_) return true;
    return std::find(name.data() + name.size(), value.data(), '\r') != value.data();
  }
  size_t take(View body, error_code& error) {
    check(sink_.on_body(reinterpret_cast<const u8*>(body.data()), u32(body.size())), error);
    return body.size();
  }
  void check(bool good, error_code& error) {
    error = {};
    if (good) return;
    stopped_ = true;
    error = http::error::end_of_stream;
  }
  void bad(const char* why, error_code& error) {
    why_ = why;
    error = http::error::bad_field;
  }

  RequestSink& sink_;
  const char *begin_ = nullptr, *end_ = nullptr;
  const char* why_ = nullptr;
  bool stopped_ = false;
  int version_ = 0;
  u32 hosts_ = 0, lengths_ = 0, codings_ = 0;
  LowerCase lower_;
};

const char* reason(const error_code& error) {
  static constexpr std::pair<http::error, const char*> kReasons[] = {
      {http::error::bad_method, "the request line does not begin with a method"},
      {http::error::bad_target, "the request line has no target"},
      {http::error::bad_version, "the request line does not end with HTTP/1.1 or HTTP/1.0"},
      {http::error::bad_field, "a header's name is malformed"},
      {http::error::bad_value, "a header's value is malformed"},
      {http::error::bad_line_ending, "a line does not end with CR LF"},
      {http::error::bad_content_length, "the Content-Length header must be given once, in digits"},
      {http::error::bad_transfer_encoding, "the only Transfer-Encoding is chunked, once, without Content-Length"},
      {http::error::bad_chunk, "a chunk is malformed"},
      {http::error::bad_chunk_extension, "a chunk extension is malformed"},
  };
  for (const auto& [found, text] : kReasons)
    if (error == found) return text;
  return "the request is malformed";
}

}  // namespace

struct RequestParser::Beast {
  explicit Beast(RequestSink& sink) : sink(sink) {}
  RequestSink& sink;
  std::optional<Parser> parser;
  const char* why = "";
};

RequestParser::RequestParser(RequestSink& sink) : beast_(std::make_unique<Beast>(sink)) {}
RequestParser::~RequestParser() = default;

void RequestParser::begin() { beast_->parser.emplace(beast_->sink); }
bool RequestParser::in_body() const { return beast_->parser && beast_->parser->is_header_done(); }
const char* RequestParser::why() const { return beast_->why; }

u32 RequestParser::feed(const u8* data, u32 bytes, Result* result) {
  Parser& parser = *beast_->parser;
  const char* begin = reinterpret_cast<const char*>(data);
  parser.set_input(begin, begin + bytes);
  error_code error;
  const size_t taken = parser.put(boost::asio::const_buffer(data, bytes), error);
  if (parser.stopped()) {
    *result = Result::kStopped;
  } else if (error == http::error::need_more) {
    *result = Result::kMore;
  } else if (error) {
    beast_->why = parser.why() ? parser.why() : reason(error);
    *result = Result::kBad;
  } else {
    *result = parser.is_done() ? Result::kDone : Result::kMore;
  }
  return u32(taken);
}

}  // namespace fastqps::transport
