#include "calls/answer.h"

#include <algorithm>
#include <cstring>

#include "front/front_door.h"
#include "calls/request.h"

namespace fastqps::front {

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
  nghttp2_nv headers[12];
  size_t count = 0;
  void add(std::string_view name, std::string_view value, u8 flags = kConstant) {
    headers[count++] = pair(name, value, flags);
  }
};

void add_head(Block& block, const FrontDoor& door, const Call& call, std::string_view http_status = "200") {
  block.add(":status", http_status);
  block.add("content-type", "application/grpc");
  if (call.header)  // its value may change before the frame is sent: it is copied
    block.add(door.http2.headers[call.header].first, door.http2.headers[call.header].second,
              NGHTTP2_NV_FLAG_NO_COPY_NAME);
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
void add_load(Block& block, FrontDoor& door, const Call& call) {
  Connection& connection = *call.connection;
  if (!door.grpc.load_reports.in_trailers() || door.net.turn.ns < connection.report_due_ns) return;
  if (call.role != MethodRole::kService || !call.method) return;
  const std::string_view report = door.grpc.load_reports.trailer(door.net.turn.ns);
  if (report.empty()) return;
  block.add("endpoint-load-metrics-bin", report, kFresh);
  connection.report_due_ns = door.net.turn.ns + LoadReports::kPeriodNs;
}

// So that clients which were refused together do not come back together; and not at once.
i32 jittered(FrontDoor& door, i32 ms) {
  return ms <= 0 ? ms : std::max(1, i32(ms * (0.8 + 0.4 * (door.net.random() / 4294967296.0))));
}

void answer_trailers_only(FrontDoor& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  Block block;
  add_head(block, door, call, headers.http_status == 415 ? "415" : headers.http_status == 405 ? "405" : "200");
  if (headers.allow_post) block.add("allow", "POST");
  if (headers.bearer) block.add("www-authenticate", "Bearer");
  if (status.code == StatusCode::kOk) {
    add_status(block, nullptr);
    add_load(block, door, call);
    nghttp2_submit_response(call.connection->session(), call.stream, block.headers, block.count, nullptr);
  } else {
    const EncodedStatus encoded(status, jittered(door, status.retry_after_ms));
    add_status(block, &encoded);
    add_load(block, door, call);
    nghttp2_submit_response(call.connection->session(), call.stream, block.headers, block.count, nullptr);
  }
  call.submitted = true;
  call.connection->guard.answered();
}

}  // namespace

void start_answer(FrontDoor& door, Call& call) {
  Block block;
  add_head(block, door, call);
  nghttp2_data_provider provider;
  provider.source.ptr = &call;
  provider.read_callback = answer_read;
  nghttp2_submit_response(call.connection->session(), call.stream, block.headers, block.count, &provider);
  call.submitted = true;
}

void resume_answer(Call& call) {
  if (!call.deferred) return;
  call.deferred = false;
  nghttp2_session_resume_data(call.connection->session(), call.stream);
}

namespace {

// All messages are out: the trailers follow in the same flush.
void end_answer(FrontDoor& door, Call& call) {
  Block block;
  add_status(block, call.trailers);
  add_load(block, door, call);
  nghttp2_submit_trailer(call.connection->session(), call.stream, block.headers, block.count);
  if (call.half_closed) return;
  call.progress_ns = door.net.turn.ns;
  arm_call(door, call);
}

void count_sent(Call& call, u32 bytes) {
  Connection& connection = *call.connection;
  FrontDoor& door = connection.door();
  const u32 unsent_max = door.limits.call_unsent_bytes;
  const bool was_paused = call.unsent > unsent_max;
  call.unsent -= bytes;
  connection.answer_bytes -= bytes;
  door.http2.unread_bytes -= bytes;
  connection.answered_ns = call.progress_ns = door.net.turn.ns;
  connection.guard.answered();
  if (was_paused && call.unsent <= unsent_max) connection.enqueue(call);
}

// Moves the next `bytes` of the call's messages to out.
void copy_out(FrontDoor& door, Call& call, u8* out, size_t bytes) {
  while (bytes) {
    OutMessage* message = call.out_first;
    const u32 taken = u32(std::min<size_t>(bytes, message->bytes - message->sent));
    std::memcpy(out, message->data() + message->sent, taken);
    message->sent += taken, out += taken, bytes -= taken;
    if (message->sent < message->bytes) return;
    call.out_first = message->next;
    if (!message->next) call.out_last = nullptr;
    door.http2.allocator.release(message);
  }
}

}  // namespace

ssize_t answer_read(nghttp2_session*, i32, u8* out, size_t room, u32* flags, nghttp2_data_source* source, void* user) {
  Call& call = *static_cast<Call*>(source->ptr);
  FrontDoor& door = static_cast<Connection*>(user)->door();
  const u32 bytes = u32(std::min<size_t>(room, call.unsent));
  if (bytes == 0 && call.phase != Phase::kFinished) {
    call.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  const bool last = bytes == call.unsent && call.phase == Phase::kFinished;
  if (bytes >= kDirectBytes) {
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  } else if (bytes) {
    copy_out(door, call, out, bytes);
  }
  if (bytes) count_sent(call, bytes);
  if (last) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    end_answer(door, call);
  }
  return bytes;
}

int answer_send(nghttp2_session*, nghttp2_frame*, const u8* frame_header, size_t bytes, nghttp2_data_source* source,
                void* user) {
  constexpr size_t kFrameHeaderBytes = 9;
  Call& call = *static_cast<Call*>(source->ptr);
  FrontDoor& door = static_cast<Connection*>(user)->door();
  if (door.net.output.bytes >= OutputBuffer::kFull) return NGHTTP2_ERR_WOULDBLOCK;  // asked again after the write
  u8* out = door.net.output.data.get() + door.net.output.bytes;
  std::memcpy(out, frame_header, kFrameHeaderBytes);
  copy_out(door, call, out + kFrameHeaderBytes, bytes);
  door.net.output.bytes += u32(kFrameHeaderBytes + bytes);
  return 0;
}

void finish_call(FrontDoor& door, Call& call, const Status& status, const RefusalHeaders& headers) {
  if (call.phase == Phase::kFinished) return;
  call.phase = Phase::kFinished;
  call.in_method = false;
  door.counters.requests[call.row][u32(status.code)]++;
  if (call.trace) door.grpc.tracer.end(call, status.code);
  release_request(door, call);
  if (!call.submitted) {
    answer_trailers_only(door, call, status, headers);
    if (call.half_closed) {
      door.net.wheel.cancel(call.timer);
    } else {
      call.progress_ns = door.net.turn.ns;
      arm_call(door, call);
    }
  } else {
    if (status.code != StatusCode::kOk) {
      if (void* block = door.http2.allocator.allocate(sizeof(EncodedStatus)))
        call.trailers = new (block) EncodedStatus(status, jittered(door, status.retry_after_ms));
    }
    door.net.wheel.cancel(call.timer);
    resume_answer(call);
  }
  call.connection->mark_dirty();
}

void release_answer(FrontDoor& door, Call& call) {
  call.connection->answer_bytes -= call.unsent;
  door.http2.unread_bytes -= call.unsent;
  call.unsent = 0;
  while (OutMessage* message = call.out_first) {
    call.out_first = message->next;
    door.http2.allocator.release(message);
  }
  call.out_last = nullptr;
  door.http2.allocator.release(std::exchange(call.begun, nullptr));
  door.http2.allocator.release(std::exchange(call.trailers, nullptr));
}

// A status can still take the place of an answer of which nothing is out; one that is cut in two says nothing.
void expire_answer(FrontDoor& door, Call& call) {
  door.counters.not_read++;
  if (call.out_first && call.out_first->sent) return call.connection->cut(call);
  release_answer(door, call);
  const EncodedStatus status({.code = StatusCode::kDeadlineExceeded, .message = "the deadline passed at stage send"},
                             -1);
  Block block;
  add_status(block, &status);
  nghttp2_submit_trailer(call.connection->session(), call.stream, block.headers, block.count);
  if (!call.half_closed) {
    call.progress_ns = door.net.turn.ns;
    arm_call(door, call);
  }
  call.connection->mark_dirty();
}

}  // namespace fastqps::front
