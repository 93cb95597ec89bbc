// A call is one arrival that was sent; a stream is one of HTTP/2. Unary and server-stream: one call on one stream.
// Bidi: a stream carries many calls one after the other, matched by their ids. An outlet is where calls can be started:
// a connection, or (bidi) the place of one long-lived stream.
#pragma once
#include <memory>
#include <vector>

#include "connection/message_reader.h"
#include "connection/protobuf.h"
#include "list.h"
#include "record/outcome.h"
#include "transport/net/timer_wheel.h"

namespace loadgen {

class Connection;
struct Stream;
struct InStream;
struct ToSend;
struct InConnection;
struct Free;

constexpr u32 kSlotBits = 20;  // of a bidi call's id: its place in the pool

// As a timer it is given up when that fires.
struct Call : Link<InStream>, Link<ToSend>, fastqps::transport::Timer {
  Stream* stream = nullptr;
  i64 intended_ns = 0, deadline_ns = 0, submitted_ns = 0;
  i64 written_ns = 0;  // 0: not yet
  i64 own_lateness_ns = 0;
  i64 first_message_ns = 0, last_message_ns = 0;
  u64 id = 0;
  u32 slot = 0, payload = 0;  // slot: its place in the pool, never changes
  u32 messages = 0;
  bool counted = false;                // it has ended; what remains of it only has to be cleared away
  bool kept = false, checked = false;  // its answer is a sample; is compared
  bool empty_answer = false;
  Outcome verdict = kOk;  // what the messages said, where they said more than the status
  u8 prefix[kPrefixBytes], suffix[2 * kVarintFieldBytesMax];
  u8 suffix_bytes = 0, timeout_bytes = 0;
  char timeout[16];    // the value of grpc-timeout
  size_t copied = 0;   // bytes of prefix, payload and suffix that were put into frames
  std::string answer;  // if kept or checked
};

struct Outlet : Link<Free> {
  Connection* connection = nullptr;
  Stream* stream = nullptr;  // bidi: the stream that stands there, if one does
  u32 open = 0, capacity = 0, capacity_max = 0;
};

struct Stream : Link<InConnection> {
  Connection* connection = nullptr;
  Outlet* outlet = nullptr;
  i32 id = -1;
  int http_status = 0, grpc_status = -1;  // -1: none came
  bool ended = false, was_reset = false;  // the server's END_STREAM, its RST_STREAM
  bool half_close = true, deferred = false, bad_answer = false;
  bool all_framed = false;  // our END_STREAM
  u32 reset_code = 0;
  MessageReader reader;
  List<Call, InStream> calls;  // not answered
  List<Call, ToSend> to_send;  // not in frames
};

// Objects are used again, the last one first; there are never more than were in use at one time.
template <class T>
class Pool {
 public:
  T& take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<T>());
      if constexpr (requires(T & t) { t.slot; }) all_.back()->slot = u32(all_.size() - 1);
      return *all_.back();
    }
    T& object = *free_.back();
    free_.pop_back();
    return object;
  }
  void give(T& object) { free_.push_back(&object); }
  T* at(size_t slot) { return slot < all_.size() ? all_[slot].get() : nullptr; }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

}  // namespace loadgen
