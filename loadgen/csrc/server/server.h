// The test server: one thread that accepts, reads, keeps the queue's time, and answers.
#pragma once
#include <atomic>
#include <memory>
#include <thread>
#include <unordered_map>

#include "server/server_connection.h"

namespace loadgen {

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
