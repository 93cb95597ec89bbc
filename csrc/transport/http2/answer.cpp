// Answers as HTTP/2 frames: response headers, DATA, trailers.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>

#include "transport/calls/door_state.h"
#include "transport/calls/progress.h"
#include "transport/http/http_request.h"
#include "transport/http2/callbacks.h"
#include "transport/http2/session.h"

namespace fastqps::transport {

namespace {

// Below this an answer is copied through nghttp2's frame buffer; above it goes straight to the output.
constexpr size_t kDirectBytes = 1024;

constexpr u8 kConstant = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
constexpr u8 kFresh =
    NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX;  // its value is copied and stays out of the table

nghttp2_nv pair(std::string_view name, std::string_view value, u8 flags = kConstant) {
  return {reinterpret_cast<u8*>(const_cast<char*>(name.data())), reinterpret_cast<u8*>(const_cast<char*>(value.data())),
          name.size(), value.size(), flags};
}

// The few headers of one block.
struct Block {
  nghttp2_nv headers[24];
  size_t count = 0;
  void add(std::string_view name, std::string_view value, u8 flags = kConstant) {
    headers[count++] = pair(name, value, flags);
  }
};

// Its value may change before the frame is sent: it is copied.
void add_registered(Block& block, const DoorState& door, const Call& call) {
  if (!call.header) return;
  const auto& [name, value] = door.calls.headers[call.header];
  block.add(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

void add_head(Block& block, const DoorState& door, const Call& call, std::string_view http_status = "200") {
  block.add(":status", http_status);
  block.add("content-type", "application/grpc");
  add_registered(block, door, call);
  if (call.encoding == Encoding::kGzip || call.encoding == Encoding::kDeflate || call.encoding == Encoding::kUnknown)
    block.add("grpc-accept-encoding", "identity, deflate, gzip");
}

void add_status(Block& block, const EncodedStatus* status) {
  if (!status) return block.add("grpc-status", "0");
  block.add("grpc-status", status->code(), NGHTTP2_NV_FLAG_NO_COPY_NAME);
  if (!status->message().empty()) block.add("grpc-message", status->message(), kFresh);
  if (!status->details().empty()) block.add("grpc-status-details-bin", status->details(), kFresh);
  if (!status->pushback().empty()) block.add("grpc-retry-pushback-ms", status->pushback(), kFresh);
}

// At most one answer of a connection in a tenth of a second carries the load: the value is new each time, so it would
// only fill the client's header table.
void add_load(Block& block, DoorState& door, const Call& call) {
  if (!door.grpc.load_reports.in_trailers() || door.net.turn.ns < call.session->report_due_ns) return;
  if (call.role != MethodRole::kService || !call.method) return;
  const std::string_view report = door.grpc.load_reports.trailer(door.net.turn.ns);
  if (report.empty()) return;
  block.add("endpoint-load-metrics-bin", report, kFresh);
  call.session->report_due_ns = door.net.turn.ns + LoadReports::kPeriodNs;
}

// The values of a plain response's head, until it is submitted.
struct PlainValues {
  char status[24], length[24], json[24], retry[24], numbers[HttpReply::kNumbersMax][24];
  std::string allowed;
};

// The head of a plain response, which is complete or streams.
void add_plain_head(Block& block, const DoorState& door, const Call& call, PlainValues& values) {
  const HttpExchange& exchange = *call.http;
  const auto number = [](char(&out)[24], u64 value) {
    return std::string_view(out, size_t(std::to_chars(out, out + sizeof out, value).ptr - out));
  };
  constexpr u8 kCopied = NGHTTP2_NV_FLAG_NO_COPY_NAME;
  block.add(":status", number(values.status, exchange.reply.status), kCopied);
  block.add("date", http_date(door.net.turn.ns), kCopied);
  block.add("content-type", name_of(exchange.reply.type));
  if (call.phase == Phase::kFinished) block.add("content-length", number(values.length, call.unsent), kFresh);
  add_registered(block, door, call);
  if (exchange.reply.header_length != kNoHeaderLength)
    block.add("inference-header-content-length", number(values.json, u64(exchange.reply.header_length)), kFresh);
  const HttpReply& reply = exchange.reply;
  for (size_t i = 0; i < reply.numbered.size(); i++)
    block.add(reply.numbered[i], number(values.numbers[i], reply.numbers[i]), kFresh);
  if (reply.says_compute) block.add("x-compute-type", door.limits.settings.compute_type, kCopied);
  if (!reply.ignored.empty()) block.add("fastqps-ignored", reply.ignored, kCopied);
  if (exchange.retry_after_s) block.add("retry-after", number(values.retry, exchange.retry_after_s), kFresh);
  if (exchange.say_bearer) block.add("www-authenticate", "Bearer");
  if (exchange.say_allowed) block.add("allow", values.allowed = allowed_verbs(exchange.allowed), kCopied);
  if (!exchange.cross_origin) return;
  block.add("access-control-allow-origin", kAllowedOrigins);
  if (exchange.request.verb != HttpVerb::kOptions) return;
  block.add("access-control-allow-methods", values.allowed = allowed_verbs(exchange.allowed), kCopied);
  block.add("access-control-allow-headers", kAllowedHeaders);
  block.add("access-control-max-age", kPreflightAge);
}

}  // namespace

// A plain response begins with the flush, when it is known whether it is complete.
void Http2Session::start_plain(Call& call) {
  HttpExchange& exchange = *call.http;
  const bool head_only = exchange.request.verb == HttpVerb::kHead;
  if (exchange.started || (head_only && call.phase != Phase::kFinished)) return;
  exchange.started = true;
  Block block;
  PlainValues values;
  add_plain_head(block, door_, call, values);
  guard_.answered();
  if (head_only) {
    count_sent(door_, call, call.unsent);
  } else if (call.unsent || call.phase != Phase::kFinished) {
    return submit(call, block.headers, block.count);
  }
  nghttp2_submit_response(nghttp2_, call.stream, block.headers, block.count, nullptr);
  answer_ended(door_, call);
}

void Http2Session::submit(Call& call, const nghttp2_nv* headers, size_t count) {
  nghttp2_data_provider provider;
  provider.source.ptr = &call;
  provider.read_callback = Http2Callbacks::read_data;
  nghttp2_submit_response(nghttp2_, call.stream, headers, count, &provider);
}

void Http2Session::start_answer(Call& call) {
  if (call.plain) return starting_.push_back(call.id());
  Block block;
  add_head(block, door_, call);
  submit(call, block.headers, block.count);
}

void Http2Session::resume_answer(Call& call) {
  if (call.plain && !call.http->started) return starting_.push_back(call.id());
  if (!call.deferred) return;
  call.deferred = false;
  nghttp2_session_resume_data(nghttp2_, call.stream);
}

void Http2Session::answer_status(Call& call, const EncodedStatus* status, const RefusalHeaders& headers) {
  Block block;
  add_head(block, door_, call, headers.http_status == 415 ? "415" : headers.http_status == 405 ? "405" : "200");
  if (headers.allow_post) block.add("allow", "POST");
  if (headers.bearer) block.add("www-authenticate", "Bearer");
  add_status(block, status);
  add_load(block, door_, call);
  nghttp2_submit_response(nghttp2_, call.stream, block.headers, block.count, nullptr);
  guard_.answered();
}

void Http2Session::end_answer(Call& call, const EncodedStatus& status) {
  Block block;
  add_status(block, &status);
  nghttp2_submit_trailer(nghttp2_, call.stream, block.headers, block.count);
}

// DATA for nghttp2. After the last message the trailers follow in the same flush.
ssize_t Http2Session::read_answer(Call& call, u8* out, size_t room, u32* flags) {
  const u32 bytes = u32(std::min<size_t>(room, call.unsent));
  if (bytes == 0 && call.phase != Phase::kFinished) {
    call.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  bool last = bytes == call.unsent && call.phase == Phase::kFinished;
  if (last && call.plain && call.http->broken) {
    // The stream is reset after its last bytes, so that the client does not take a part for the whole.
    if (!bytes) return call.reset = true, NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    last = false;
  }
  if (bytes >= kDirectBytes) {
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  } else if (bytes) {
    copy_answer(door_, call, out, bytes);
  }
  if (bytes) {
    count_sent(door_, call, bytes);
    guard_.answered();
  }
  if (last && call.plain) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    answer_ended(door_, call);
  } else if (last) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    Block block;
    add_status(block, call.trailers);
    add_load(block, door_, call);
    nghttp2_submit_trailer(nghttp2_, call.stream, block.headers, block.count);
    answer_ended(door_, call);
  }
  return bytes;
}

int Http2Session::send_answer(Call& call, const u8* frame_header, size_t bytes) {
  constexpr size_t kFrameHeaderBytes = 9;
  OutputBuffer& output = door_.net.output;
  if (output.bytes >= OutputBuffer::kFull) return NGHTTP2_ERR_WOULDBLOCK;  // asked again after the write
  u8* out = output.data.get() + output.bytes;
  std::memcpy(out, frame_header, kFrameHeaderBytes);
  copy_answer(door_, call, out + kFrameHeaderBytes, bytes);
  output.bytes += u32(kFrameHeaderBytes + bytes);
  return 0;
}

}  // namespace fastqps::transport
