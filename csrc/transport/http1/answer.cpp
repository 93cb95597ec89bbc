// Responses as HTTP/1.1: a head, then the body with its length, or in chunks.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"
#include "transport/http/http_request.h"
#include "transport/http1/session.h"

namespace fastqps::transport {

namespace {

constexpr u32 kChunkBytes = 16 << 10;

// Appends to the output, which always has room for a head and a chunk.
class Writer {
 public:
  explicit Writer(OutputBuffer& output) : output_(output) {}
  Writer& text(std::string_view text) {
    std::memcpy(at(), text.data(), text.size());
    output_.bytes += u32(text.size());
    return *this;
  }
  Writer& number(u64 value, int base = 10) {
    char digits[24];
    return text({digits, size_t(std::to_chars(digits, digits + sizeof digits, value, base).ptr - digits)});
  }
  Writer& header(std::string_view name, std::string_view value) {
    return text(name).text(": ").text(value).text("\r\n");
  }
  Writer& header(std::string_view name, u64 value) { return text(name).text(": ").number(value).text("\r\n"); }
  u8* at() { return output_.data.get() + output_.bytes; }

 private:
  OutputBuffer& output_;
};

void write_status_line(Writer& writer, u16 status, u64 now_ns) {
  writer.text("HTTP/1.1 ").number(status).text(" ").text(reason_of(status)).text("\r\n");
  writer.header("Date", http_date(now_ns));
}

}  // namespace

void Http1Session::start_answer(Call&) { mark_dirty(); }
void Http1Session::resume_answer(Call&) { mark_dirty(); }
void Http1Session::answer_status(Call&, const EncodedStatus*, const RefusalHeaders&) {}  // of gRPC's calls
void Http1Session::end_answer(Call&, const EncodedStatus&) {}
void Http1Session::consume(Call&, u32) {}  // the kernel's window is the only one

void Http1Session::reset(Call&, Reset) {
  broken_ = last_seen_ = true;
  mark_dirty();
}

bool Http1Session::fill(OutputBuffer& output) {
  while (pipeline_.size() && output.bytes < OutputBuffer::kFull && !broken_ && !closing_) {
    Call* call = door_.calls.pool.find(pipeline_.front());
    if (!call) return false;  // it could only have ended here
    HttpExchange& exchange = *call->http;
    const bool head_only = exchange.request.verb == HttpVerb::kHead;
    if (!call->submitted || (head_only && call->phase != Phase::kFinished)) {
      if (exchange.expects_continue && call->phase == Phase::kOpen && !call->half_closed) {
        Writer(output).text("HTTP/1.1 100 Continue\r\n\r\n");
        call->progress_ns = call->message_ns = door_.net.turn.ns;  // the client may have waited for this
      }
      exchange.expects_continue = false;
      return true;
    }
    if (!exchange.started) write_head(output, *call);
    if (!write_body(output, *call)) return true;
    end_front(*call);
  }
  if (refused_ && !pipeline_.size() && !std::exchange(closing_, true)) write_refusal(output);
  return true;
}

void Http1Session::write_head(OutputBuffer& output, Call& call) {
  HttpExchange& exchange = *call.http;
  const HttpReply& reply = exchange.reply;
  exchange.started = true;
  const bool whole = call.phase == Phase::kFinished;
  const bool last = retired_ && pipeline_.size() == 1;  // requests behind this one are still answered
  exchange.chunks = exchange.chunks && !whole;
  exchange.keep_alive = exchange.keep_alive && !last && call.half_closed && (whole || exchange.chunks);
  Writer writer(output);
  write_status_line(writer, reply.status, door_.net.turn.ns);
  writer.header("Content-Type", name_of(reply.type));
  if (whole) {
    writer.header("Content-Length", call.unsent);
  } else if (exchange.chunks) {
    writer.header("Transfer-Encoding", "chunked");
  }
  if (call.header) {
    const auto& [name, value] = door_.calls.headers[call.header];
    writer.header(name, value);
  }
  if (reply.header_length != kNoHeaderLength)
    writer.header("Inference-Header-Content-Length", u64(reply.header_length));
  for (size_t i = 0; i < reply.numbered.size(); i++) writer.header(reply.numbered[i], reply.numbers[i]);
  if (reply.says_compute) writer.header("x-compute-type", door_.limits.settings.compute_type);
  if (!reply.ignored.empty()) writer.header("Fastqps-Ignored", reply.ignored);
  if (exchange.retry_after_s) writer.header("Retry-After", exchange.retry_after_s);
  if (exchange.say_bearer) writer.header("WWW-Authenticate", "Bearer");
  if (exchange.say_allowed) writer.header("Allow", allowed_verbs(exchange.allowed));
  if (exchange.cross_origin) {
    writer.header("Access-Control-Allow-Origin", kAllowedOrigins);
    if (exchange.request.verb == HttpVerb::kOptions) {
      writer.header("Access-Control-Allow-Methods", allowed_verbs(exchange.allowed));
      writer.header("Access-Control-Allow-Headers", kAllowedHeaders);
      writer.header("Access-Control-Max-Age", kPreflightAge);
    }
  }
  if (!exchange.keep_alive) writer.header("Connection", "close");
  writer.text("\r\n");
}

// True: the response is complete.
bool Http1Session::write_body(OutputBuffer& output, Call& call) {
  HttpExchange& exchange = *call.http;
  const bool head_only = exchange.request.verb == HttpVerb::kHead;
  if (head_only) count_sent(door_, call, call.unsent);
  Writer writer(output);
  while (call.unsent) {
    if (output.bytes >= OutputBuffer::kFull) return false;
    const u32 bytes = std::min(call.unsent, kChunkBytes);
    if (exchange.chunks) writer.number(bytes, 16).text("\r\n");
    copy_answer(door_, call, writer.at(), bytes);
    output.bytes += bytes;
    count_sent(door_, call, bytes);
    if (exchange.chunks) writer.text("\r\n");
  }
  if (call.phase != Phase::kFinished) return false;
  if (exchange.broken) return broken_ = true, false;
  if (exchange.chunks && !head_only) writer.text("0\r\n\r\n");
  return true;
}

// The oldest response has been written.
void Http1Session::end_front(Call& call) {
  const bool goes_on = call.http->keep_alive;
  const bool was_full = full_of_requests();
  if (call.id() == receiving_) receiving_ = {};
  pipeline_.pop();
  close_call(call);
  if (!goes_on) {
    closing_ = last_seen_ = true;
  } else if (was_full || !rest_.empty()) {
    connection_.make_ready();
  }
}

void Http1Session::write_refusal(OutputBuffer& output) {
  HttpErrorBody body{refused_, ContentType::kJson, {}};
  write_error_text({StatusCode::kInvalidArgument, why_refused_, {}}, body);
  door_.counters.http_requests[0][std::min(refused_ / 100, 5)]++;
  Writer writer(output);
  write_status_line(writer, refused_, door_.net.turn.ns);
  writer.header("Content-Type", name_of(body.type)).header("Content-Length", body.text.size());
  if (refused_ == 503) writer.header("Retry-After", 1);
  writer.header("Connection", "close").text("\r\n").text(body.text);
}

After Http1Session::flushed(bool unsent, bool) {
  if (broken_) return After::kClose;
  if (unsent) return After::kContinue;
  return closing_ ? After::kLinger : After::kContinue;
}

}  // namespace fastqps::transport
