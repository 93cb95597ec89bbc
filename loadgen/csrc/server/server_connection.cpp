#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "server/server.h"

namespace loadgen {
namespace {

constexpr size_t kReadBytes = 64 << 10, kOutMax = 256 << 10;
constexpr u64 kMessageMax = 64 << 20;
constexpr size_t kAnswersMax = 1'000'000;  // jobs in the queue; more are refused

nghttp2_nv field(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) { return reinterpret_cast<u8*>(const_cast<char*>(text.data())); };
  const u8 flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;
  return {bytes(name), bytes(value), name.size(), value.size(), flags};
}

constexpr std::string_view kCodes[17] = {"0", "1",  "2",  "3",  "4",  "5",  "6",  "7", "8",
                                         "9", "10", "11", "12", "13", "14", "15", "16"};

}  // namespace

struct ServerCallbacks {
  static ServerConnection& connection(void* user) { return *static_cast<ServerConnection*>(user); }
  static ServerStream* stream(nghttp2_session* session, i32 id) {
    return static_cast<ServerStream*>(nghttp2_session_get_stream_user_data(session, id));
  }
  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    ServerConnection& c = connection(user);
    ServerStream& s = c.context_.streams.take();
    s.connection = &c;
    s.serial = ++c.context_.serials;
    s.id = frame->hd.stream_id;
    s.known_path = true;
    s.client_done = s.answering = s.deferred = s.done = false;
    s.status = 0;
    s.jobs = 0;
    s.reader.reset(kMessageMax);
    s.out.clear();
    s.out_at = 0;
    c.streams_.push_back(s);
    nghttp2_session_set_stream_user_data(session, s.id, &s);
    return 0;
  }
  static int on_header(nghttp2_session* session, const nghttp2_frame* frame, const u8* name, size_t name_bytes,
                       const u8* value, size_t value_bytes, u8, void* user) {
    const std::string& path = connection(user).context_.options.path;
    if (path.empty() || name_bytes != 5 || std::memcmp(name, ":path", 5)) return 0;
    if (ServerStream* s = stream(session, frame->hd.stream_id))
      s->known_path = path == std::string_view(reinterpret_cast<const char*>(value), value_bytes);
    return 0;
  }
  static int on_data(nghttp2_session* session, u8, i32 id, const u8* data, size_t bytes, void* user) {
    ServerConnection& c = connection(user);
    if (ServerStream* s = stream(session, id))
      s->reader.read(data, bytes, [&](std::string_view message) { c.on_message(*s, message); });
    return 0;
  }
  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
    ServerStream* s = stream(session, frame->hd.stream_id);
    if (!s) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS) connection(user).on_request(*s);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
      s->client_done = true;
      connection(user).finish_if_done(*s);
    }
    return 0;
  }
  static int on_stream_close(nghttp2_session* session, i32 id, u32, void* user) {
    ServerStream* s = stream(session, id);
    if (!s) return 0;
    s->serial = 0;
    s->reader.trim();
    s->unlink();
    connection(user).context_.streams.give(*s);
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, i32, u8* to, size_t room, u32* flags, nghttp2_data_source* from,
                           void* user) {
    return connection(user).read_body(*static_cast<ServerStream*>(from->ptr), to, room, *flags);
  }
};

nghttp2_session_callbacks* server_callbacks() {
  nghttp2_session_callbacks* callbacks;
  if (nghttp2_session_callbacks_new(&callbacks)) return nullptr;
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, ServerCallbacks::on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, ServerCallbacks::on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, ServerCallbacks::on_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, ServerCallbacks::on_frame);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, ServerCallbacks::on_stream_close);
  return callbacks;
}

ServerConnection::ServerConnection(ServerContext& context, int fd) : context_(context), fd_(fd) {
  nghttp2_session_server_new2(&session_, context.callbacks, this, context.session_options);
  std::vector<nghttp2_settings_entry> settings = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 4 << 20}};
  if (context.options.streams_max)
    settings.push_back({NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, context.options.streams_max});
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, 64 << 20);
  mark_dirty();
}

ServerConnection::~ServerConnection() {
  streams_.each([&](ServerStream& stream) {
    stream.serial = 0;
    stream.unlink();
    context_.streams.give(stream);
  });
  nghttp2_session_del(session_);
  close(fd_);
}

// ---- the socket

bool ServerConnection::receive(bool hung_up) {
  hung_up_ |= hung_up;
  static thread_local u8 buffer[kReadBytes];
  while (!blocked_) {  // who does not read his answers is not listened to
    const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    context_.now = now_ns();
    if (nghttp2_session_mem_recv(session_, buffer, size_t(n)) < 0) return false;
    mark_dirty();
    if (size_t(n) < sizeof buffer && !hung_up_) return true;
  }
  return true;
}

void ServerConnection::mark_dirty() {
  if (dirty_) return;
  dirty_ = true;
  context_.dirty.push_back(this);
}

bool ServerConnection::flush() {
  dirty_ = false;
  const bool was_blocked = blocked_;
  for (;;) {
    const u8* data;
    ssize_t made = 1;
    while (out_.size() - out_at_ < kOutMax && (made = nghttp2_session_mem_send(session_, &data)) > 0)
      out_.insert(out_.end(), data, data + made);
    if (made < 0) return false;
    if (out_.empty()) break;
    const ssize_t n = send(fd_, out_.data() + out_at_, out_.size() - out_at_, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (n > 0) out_at_ += size_t(n);
    blocked_ = out_at_ < out_.size();
    out_.erase(out_.begin(), out_.begin() + i64(out_at_));
    out_at_ = 0;
    if (blocked_) return true;
  }
  if (was_blocked && !receive(false)) return false;
  return nghttp2_session_want_read(session_) || nghttp2_session_want_write(session_);
}

// ---- calls

void ServerConnection::on_request(ServerStream& stream) {
  const u64 calls = ++context_.calls;
  if (!context_.first_request_ns) context_.first_request_ns = context_.now;
  const ServerOptions& options = context_.options;
  if (!stream.known_path)
    answer_status(stream, kUnimplemented);
  else if (options.fail_every && calls % options.fail_every == 0)
    answer_status(stream, options.fail_status);
}

void ServerConnection::on_message(ServerStream& stream, std::string_view message) {
  const ServerOptions& options = context_.options;
  if (stream.done) return;
  i64 at = context_.free_ns = std::max(context_.free_ns, context_.now) + options.service_ns;
  if (context_.answers.size() + options.messages > kAnswersMax) return answer_status(stream, kResourceExhausted);
  stream.jobs += options.messages;
  for (u32 i = 0; i < options.messages; i++, at += options.message_gap_ns) {
    if (at <= context_.now)
      answer(stream, message);
    else
      context_.answers.push({at, ++context_.orders, &stream, stream.serial, std::string(message)});
  }
}

void ServerConnection::answer(ServerStream& stream, std::string_view message) {
  const i64 fixed = context_.options.answer_bytes;
  const size_t bytes = fixed < 0 ? message.size() : size_t(fixed);
  u8 prefix[kPrefixBytes];
  write_prefix(prefix, u32(bytes));
  stream.out.append(reinterpret_cast<char*>(prefix), kPrefixBytes);
  fixed < 0 ? stream.out.append(message) : stream.out.append(bytes, '\0');
  stream.jobs--;
  begin_answer(stream);
  finish_if_done(stream);
}

void ServerConnection::begin_answer(ServerStream& stream) {
  mark_dirty();
  if (stream.deferred) nghttp2_session_resume_data(session_, stream.id);
  stream.deferred = false;
  if (stream.answering) return;
  stream.answering = true;
  const nghttp2_nv headers[] = {field(":status", "200"), field("content-type", "application/grpc")};
  nghttp2_data_provider body{.source = {.ptr = &stream}, .read_callback = ServerCallbacks::read_body};
  nghttp2_submit_response(session_, stream.id, headers, std::size(headers), &body);
}

// The client has said all, and all is answered: trailers follow what is still to be written.
void ServerConnection::finish_if_done(ServerStream& stream) {
  if (stream.done || !stream.client_done || stream.jobs) return;
  stream.done = true;
  begin_answer(stream);
}

void ServerConnection::answer_status(ServerStream& stream, int status) {
  if (stream.done) return;
  stream.done = true;
  stream.status = status;
  mark_dirty();
  if (stream.answering) return begin_answer(stream);
  const nghttp2_nv headers[] = {field(":status", "200"), field("content-type", "application/grpc"),
                                field("grpc-status", kCodes[status]), field("grpc-message", "as asked")};
  nghttp2_submit_response(session_, stream.id, headers, std::size(headers), nullptr);
}

ssize_t ServerConnection::read_body(ServerStream& stream, u8* to, size_t room, u32& flags) {
  const size_t n = std::min(room, stream.out.size() - stream.out_at);
  std::memcpy(to, stream.out.data() + stream.out_at, n);
  stream.out_at += n;
  if (stream.out_at < stream.out.size()) return ssize_t(n);
  stream.out.clear();
  stream.out_at = 0;
  if (stream.done) {
    flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    const nghttp2_nv trailers[] = {field("grpc-status", kCodes[stream.status])};
    nghttp2_submit_trailer(session_, stream.id, trailers, std::size(trailers));
  } else if (n == 0) {
    stream.deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return ssize_t(n);
}

}  // namespace loadgen
