// Drives unary gRPC calls at a server from one thread, and looks at the status of every answer.
//
//   drive --target HOST:PORT --path /pkg.Service/Method --payloads FILE [--connections 16] [--inflight 64]
//         [--seconds 5] [--warmup 1] [--rate R] [--seed 1] [--sample N --sample-file FILE] [--header name:value]…
//
// FILE holds gRPC frames (a zero byte, four bytes of length, the message) one behind the other; they are sent in turn.
// Without --rate each connection always has --inflight calls open (closed loop). With it calls start at times of a
// Poisson process, whatever the server does, and their latency counts from the time at which they should have started
// (open loop). One JSON object on stdout. --sample-file gets, for N answers spread over the run: payload number,
// size, answer frame.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <random>

#include "drive/results.h"

namespace drive {
namespace {

struct Call {
  u64 due_ns = 0;  // when it should have started
  u32 payload = 0, body_bytes = 0;
  int status = Results::kNoStatus;
  bool sampled = false;
  size_t sent = 0;
  std::string body;  // of a sampled call
};

struct Connection {
  nghttp2_session* session = nullptr;
  int fd = -1;
  u32 open = 0;
  bool dirty = false;
  std::string out;
  std::deque<u64> waiting;  // open loop: due times of calls that found no free stream; rate × seconds at most
};

constexpr u64 kSampleEvery = 97;
constexpr u64 kSecond = 1'000'000'000;

Options options;
Results results;
std::vector<std::string_view> frames;
std::vector<nghttp2_nv> headers;
std::vector<Call*> pool;
std::ofstream samples;
u64 measure_from, measure_until;
u32 next_payload, sampled_calls;

u64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return u64(t.tv_sec) * kSecond + u64(t.tv_nsec);
}
bool measured(u64 at) { return at >= measure_from && at < measure_until; }

ssize_t read_payload(nghttp2_session*, int32_t, uint8_t* to, size_t room, uint32_t* flags, nghttp2_data_source* from,
                     void*) {
  Call& call = *static_cast<Call*>(from->ptr);
  const std::string_view frame = frames[call.payload];
  const size_t n = std::min(room, frame.size() - call.sent);
  std::memcpy(to, frame.data() + call.sent, n);
  call.sent += n;
  if (call.sent == frame.size()) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return ssize_t(n);
}

void start_call(Connection& c, u64 due_ns, u64 now) {
  Call* call;
  if (pool.empty()) {
    call = new Call;
  } else {
    call = pool.back();
    pool.pop_back();
    *call = Call{};
  }
  call->due_ns = due_ns;
  call->payload = next_payload++ % u32(frames.size());
  if (measured(due_ns)) {
    results.started++;
    if (options.open_loop()) results.lateness_us.push_back(float(now - due_ns) / 1000);
    call->sampled = sampled_calls < u32(options.sample) && results.started % kSampleEvery == 0;
    sampled_calls += call->sampled;
  }
  nghttp2_data_provider body{{.ptr = call}, read_payload};
  if (nghttp2_submit_request(c.session, nullptr, headers.data(), headers.size(), &body, call) < 0)
    fail("no more streams");
  c.open++;
  c.dirty = true;
}

Call* call_of(nghttp2_session* session, int32_t stream) {
  return static_cast<Call*>(nghttp2_session_get_stream_user_data(session, stream));
}
int on_header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name, size_t name_bytes,
              const uint8_t* value, size_t, uint8_t, void*) {
  if (name_bytes != 11 || std::memcmp(name, "grpc-status", 11) != 0) return 0;
  const int status = std::atoi(reinterpret_cast<const char*>(value));
  if (status >= 0 && status < Results::kNoStatus) call_of(session, frame->hd.stream_id)->status = status;
  return 0;
}
int on_data(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* data, size_t bytes, void*) {
  Call* call = call_of(session, stream);
  call->body_bytes += u32(bytes);
  if (call->sampled) call->body.append(reinterpret_cast<const char*>(data), bytes);
  return 0;
}
void write_sample(const Call& call) {
  const u32 head[2] = {call.payload, u32(call.body.size())};
  samples.write(reinterpret_cast<const char*>(head), sizeof head);
  samples.write(call.body.data(), std::streamsize(call.body.size()));
}
int on_close(nghttp2_session* session, int32_t stream, uint32_t, void* user) {
  auto& c = *static_cast<Connection*>(user);
  Call* call = call_of(session, stream);
  const u64 now = now_ns();
  // Closed loop: what ends in the measured time counts. Open loop: what was due in it, whenever it ends.
  if (measured(options.open_loop() ? call->due_ns : now)) {
    results.statuses[call->status]++;
    if (call->status == 0) results.latency_us.push_back(float(now - call->due_ns) / 1000);
    results.empty_answers += call->status == 0 && call->body_bytes <= 5;
  }
  if (call->sampled && call->status == 0) write_sample(*call);
  pool.push_back(call);
  c.open--;
  if (!options.open_loop()) {
    if (now < measure_until) start_call(c, now, now);
  } else if (!c.waiting.empty()) {
    const u64 due = c.waiting.front();
    c.waiting.pop_front();
    start_call(c, due, now);
  }
  return 0;
}

void flush(Connection& c) {
  c.dirty = false;
  const uint8_t* data;
  for (ssize_t n; (n = nghttp2_session_mem_send(c.session, &data)) > 0;)
    c.out.append(reinterpret_cast<const char*>(data), size_t(n));
  if (c.out.empty()) return;
  const ssize_t n = send(c.fd, c.out.data(), c.out.size(), MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN) fail("a connection broke while it was written to");
  if (n > 0) c.out.erase(0, size_t(n));
}

void receive(Connection& c) {
  static uint8_t buffer[256 << 10];
  for (ssize_t n = sizeof buffer; n == sizeof buffer;) {
    n = recv(c.fd, buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) fail("the server closed a connection");
    if (n < 0) return;
    results.bytes_in += u64(n);
    if (nghttp2_session_mem_recv(c.session, buffer, size_t(n)) < 0) fail("the server's bytes are no HTTP/2");
    c.dirty = true;
  }
}

void connect(Connection& c, int epoll) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(uint16_t(std::atoi(options.port().c_str())));
  if (inet_pton(AF_INET, options.host().c_str(), &address.sin_addr) != 1) fail("--target needs an IPv4 address");
  c.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(c.fd, reinterpret_cast<sockaddr*>(&address), sizeof address)) fail("cannot connect");
  const int one = 1;
  setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(c.fd, F_SETFL, O_NONBLOCK);
  nghttp2_session_callbacks* callbacks;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
  nghttp2_session_client_new(&c.session, callbacks, &c);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 4 << 20}};
  nghttp2_submit_settings(c.session, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(c.session, NGHTTP2_FLAG_NONE, 0, 64 << 20);
  epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET, .data = {.ptr = &c}};
  epoll_ctl(epoll, EPOLL_CTL_ADD, c.fd, &event);
}

// Sleeps until a connection is ready or `until`, at most 10 ms.
void wait(int epoll, u64 until) {
  const u64 now = now_ns(), left = until > now ? std::min<u64>(until - now, 10'000'000) : 0;
  const timespec timeout{0, long(left)};
  epoll_event events[64];
  const int n = epoll_pwait2(epoll, events, 64, &timeout, nullptr);
  for (int i = 0; i < n; i++) {
    auto& c = *static_cast<Connection*>(events[i].data.ptr);
    if (events[i].events & EPOLLOUT) c.dirty = true;
    if (events[i].events & ~u32(EPOLLOUT)) receive(c);
  }
}

void run() {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::vector<Connection> all(size_t(options.connections));
  for (Connection& c : all) connect(c, epoll);
  const u64 start = now_ns(), never = ~u64(0);
  measure_from = start + u64(options.warmup * 1e9);
  measure_until = measure_from + u64(options.seconds * 1e9);
  std::mt19937_64 random(u64(options.seed));
  std::exponential_distribution<double> gap_s(options.open_loop() ? options.rate : 1);
  u64 due = options.open_loop() ? start : never, turn = 0;
  if (!options.open_loop())
    for (u32 i = 0; i < u32(options.inflight) * all.size(); i++) start_call(all[i % all.size()], start, start);
  for (;;) {
    const u64 now = now_ns();
    for (; due <= now && due < measure_until; due += u64(gap_s(random) * 1e9)) {
      Connection& c = all[turn++ % all.size()];
      c.open < u32(options.inflight) ? start_call(c, due, now) : c.waiting.push_back(due);
    }
    u64 open = 0;
    for (Connection& c : all) {
      if (c.dirty) flush(c);
      open += c.open + c.waiting.size();
    }
    if (now >= measure_until && (!open || now > measure_until + 5 * kSecond)) {
      results.unfinished = open;
      break;
    }
    wait(epoll, due < measure_until ? due : never);
  }
  report(options, results, double(now_ns() - start) / 1e9);
}

}  // namespace
}  // namespace drive

int main(int argc, char** argv) {
  using namespace drive;
  options = read_options(argc, argv);
  frames = read_frames(options.payloads);
  headers = make_headers(options);
  if (options.sample > 0) samples.open(options.sample_file, std::ios::binary);
  run();
}
