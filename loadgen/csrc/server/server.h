// The test server: one thread that accepts, reads, keeps the queue's time, and answers; and its clients, each HTTP/2 on
// a socket with the calls that are open on it.
#pragma once
#include <nghttp2/nghttp2.h>

#include <atomic>
#include <memory>
#include <queue>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "connection/call.h"
#include "types.h"

namespace loadgen {

// What the test server does. Each request message is one job. Jobs go through one queue and one server, first come
// first served, in virtual time: a job that arrives at t ends at max(t, end of the job before) + service_ns, and is
// answered then; waiting costs no CPU. The trailers follow when the client has closed its side and all jobs are
// answered.
struct ServerOptions {
  u16 port = 0;
  i64 service_ns = 0;
  i64 answer_bytes = -1;   // zeros; -1: the request's own bytes
  u32 messages = 1;        // answers per request message
  i64 message_gap_ns = 0;  // from one to the next; service_ns leads to the first
  i64 stall_at_ns = 0,
      stall_for_ns = 0;   // once, so long after the first request, it neither reads nor answers for so long
  std::string path = "";  // the only method there is, others are UNIMPLEMENTED; empty: any
  u64 fail_every = 0;     // every so many-th call is answered with fail_status alone; 0: none
  int fail_status = 14;
  u32 streams_max = 0;  // 0: no limit

  // What is wrong with them, or an empty string.
  std::string error() const {
    if (answer_bytes < -1 || answer_bytes > (64 << 20)) return "answer_bytes must be -1 to 64 MiB";
    if (messages < 1 || messages > 1'000'000) return "messages must be 1 to 1,000,000";
    if (service_ns < 0 || message_gap_ns < 0 || stall_at_ns < 0 || stall_for_ns < 0)
      return "times must not be negative";
    if (fail_status < 1 || fail_status > 16) return "fail_status must be 1 to 16";
    return {};
  }
};

class ServerConnection;

struct ServerStream : Link<InConnection> {
  ServerConnection* connection = nullptr;
  u64 serial = 0;  // another one each time that the object is used: late answers find out
  i32 id = -1;
  bool known_path = true, client_done = false, answering = false, deferred = false, done = false;
  int status = 0;
  u64 jobs = 0;  // answers that are still to come
  MessageReader reader;
  std::string out;  // frames of answers that HTTP/2 has not taken
  size_t out_at = 0;
};

struct Answer {
  i64 at_ns;
  u64 order;
  ServerStream* stream;
  u64 serial;
  std::string message;
  bool operator>(const Answer& other) const { return at_ns != other.at_ns ? at_ns > other.at_ns : order > other.order; }
};

struct ServerContext {
  explicit ServerContext(const ServerOptions& options) : options(options) {}

  const ServerOptions& options;
  Pool<ServerStream> streams;
  std::priority_queue<Answer, std::vector<Answer>, std::greater<>> answers;
  std::vector<ServerConnection*> dirty;
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_option* session_options = nullptr;
  i64 now = 0, first_request_ns = 0;
  i64 free_ns = 0;  // when the one server of the queue is done with all jobs so far, in virtual time
  u64 serials = 0, orders = 0;
  std::atomic<u64> calls{0};
};

class ServerConnection {
 public:
  ServerConnection(ServerContext& context, int fd);
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;

  // False when it is over: then it is to be deleted.
  bool receive(bool hung_up);
  bool flush();
  // An answer to a message of this stream is due.
  void answer(ServerStream& stream, std::string_view message);

 private:
  friend struct ServerCallbacks;
  void mark_dirty();
  void on_request(ServerStream& stream);
  void on_message(ServerStream& stream, std::string_view message);
  void finish_if_done(ServerStream& stream);
  void begin_answer(ServerStream& stream);
  void answer_status(ServerStream& stream, int status);
  ssize_t read_body(ServerStream& stream, u8* to, size_t room, u32& flags);

  ServerContext& context_;
  const int fd_;
  nghttp2_session* session_ = nullptr;
  bool dirty_ = false, blocked_ = false, hung_up_ = false;
  List<ServerStream, InConnection> streams_;
  std::vector<u8> out_;
  size_t out_at_ = 0;
};

nghttp2_session_callbacks* server_callbacks();

class Server {
 public:
  // Listens; throws std::invalid_argument or std::system_error.
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;

  void stop();
  u16 port() const { return port_; }
  u64 calls() const { return context_.calls; }

 private:
  void listen_on();
  void run();
  void accept_all();
  void stall();
  void answer_due();
  void flush();
  i64 wake_ns() const;
  void sleep();
  void remove(ServerConnection& connection);

  const ServerOptions options_;
  ServerContext context_;
  int listener_ = -1, epoll_ = -1, stop_fd_ = -1;
  u16 port_ = 0;
  bool stalled_ = false;
  std::atomic<bool> stopping_{false};
  std::unordered_map<ServerConnection*, std::unique_ptr<ServerConnection>> connections_;
  std::thread thread_;
};

}  // namespace loadgen
