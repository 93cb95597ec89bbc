// A call is one arrival that was sent, on a stream of HTTP/2 of its own.
#pragma once
#include <memory>
#include <vector>

#include "connection/message_reader.h"
#include "list.h"
#include "record/outcome.h"
#include "transport/net/timer_wheel.h"

namespace loadgen {

class Connection;
struct InConnection;

// As a timer it is given up when that fires.
struct Call : Link<InConnection>, fastqps::transport::Timer {
  Connection* connection = nullptr;
  i64 intended_ns = 0, deadline_ns = 0, submitted_ns = 0;
  i64 written_ns = 0;  // 0: not yet
  i64 own_lateness_ns = 0;
  i64 first_message_ns = 0, last_message_ns = 0;
  u32 payload = 0, messages = 0;
  bool counted = false;                // it has ended; what remains of it only has to be cleared away
  bool kept = false, checked = false;  // its answer is a sample; is compared
  bool empty_answer = false;
  u8 prefix[kPrefixBytes];
  u8 timeout_bytes = 0;
  char timeout[16];    // the value of grpc-timeout
  size_t copied = 0;   // bytes of prefix and payload that were put into frames
  std::string answer;  // if kept or checked

  // Its stream.
  i32 id = -1;
  int http_status = 0, grpc_status = -1;  // -1: none came
  bool ended = false, was_reset = false;  // the server's END_STREAM, its RST_STREAM
  bool bad_answer = false;
  bool all_framed = false;  // our END_STREAM
  u32 reset_code = 0;
  MessageReader reader;
};

// Objects are used again, the last one first; there are never more than were in use at one time.
template <class T>
class Pool {
 public:
  T& take() {
    if (free_.empty()) return *all_.emplace_back(std::make_unique<T>());
    T& object = *free_.back();
    free_.pop_back();
    return object;
  }
  void give(T& object) { free_.push_back(&object); }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

}  // namespace loadgen
