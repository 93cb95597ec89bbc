// One call, from its first header to the end of its stream. Pooled; outside the transport it is known by CallId
// only.
#pragma once
#include <memory>
#include <new>
#include <vector>

#include "contract/status.h"
#include "core/layout.h"
#include "transport/framing/grpc_message.h"
#include "transport/framing/inflate.h"
#include "transport/http/http_routes.h"
#include "transport/net/timer_wheel.h"
#include "transport/rpc/method.h"
#include "transport/rpc/service.h"

namespace fastqps::transport {

class CallSession;

enum class Phase : u8 {
  kOpen,      // the request may still come; no status is decided
  kRejected,  // refused for what `fault` says; the status waits for the client's half-close
  kFinished,  // the status has been submitted, or waits behind the last messages
};

// Why a call is refused before its service sees it. Faults of one header block are reported in this order.
enum class Fault : u8 {
  kNone,
  kHeaderList,
  kUnauthenticated,  // before what tells a stranger more
  kContentType,
  kMethod,  // plain: also OPTIONS, which is answered like a refusal
  kPath,
  kTimeout,  // grpc-timeout is malformed
  kEncoding,
  kConnectionFull,
  kAnswersNotRead,
  kHeaderLength,  // Inference-Header-Content-Length is malformed
  kExpectation,
  kTenant,  // its header is malformed
  kGroup,
  kHeaderFaults,  // those above come from the header block and the connection, those below from the body
  kFlag,
  kFlagWithoutEncoding,
  kTooLarge,
  kReassembly,
  kNoMessage,
  kCutMessage,
  kSecondMessage,
  kInflate,
  kInflateTooLarge,
  kInflateBusy,
  kDeadline,
  kStalled,
  kIdle,
};

// A received message that cannot be delivered yet; its bytes follow.
struct HeldMessage {
  HeldMessage* next;
  u8* body;
  u32 bytes;
  u8 flag;
};

// A message to send: its prefix, which those of plain calls lack, and its bytes follow.
struct OutMessage {
  OutMessage* next;
  u32 bytes;  // with the prefix
  u32 sent;
  u8* data() { return reinterpret_cast<u8*>(this + 1); }
};

// The request of a plain call, and the values of its response's head. In one
// block with the text of the request.
struct HttpExchange {
  HttpRequest request;
  const HttpRow* row = nullptr;  // nullptr: none, or not for this verb
  ErrorWriter errors = write_error_text;
  HttpReply reply;
  u32 retry_after_s = 0;  // 0: not said
  u8 allowed = 0;         // bits of HttpVerb, for Allow
  bool say_allowed = false;
  bool say_bearer = false;    // a token would help
  bool cross_origin = false;  // a browser asks for a page, which may read the answer
  bool started = false;       // the response's head has been written
  bool broken = false;        // the response ended with an error after its head: it must not look complete
  // HTTP/1.1 alone
  bool keep_alive = false;
  bool chunks = true;             // the client reads chunked bodies
  bool expects_continue = false;  // 100 Continue is owed, behind earlier responses
};

// Four cache lines, because thousands of calls are open at once and each turn touches different ones.
struct alignas(64) Call {
  // who
  CallSession* session;
  Call *next, *previous;  // of the session
  Method* method;         // nullptr: unknown
  u32 index, generation;
  i32 stream;
  u8 row;  // place in MethodTable::all(); kMax: unknown
  MethodKind kind;
  MethodRole role;
  // how far
  Phase phase;
  Fault fault;
  bool half_closed;   // the client sends no more
  bool in_method;     // its method knows the call and has not finished it: on_gone() is owed
  bool message_seen;  // a whole message has come
  bool held;          // by the service
  bool inflating;     // a worker has a message of this call
  bool submitted;     // response headers are
  bool deferred;      // the session waits for resume_answer()
  bool reset;         // by the client
  bool queued;        // in its session's queue of calls whose messages wait for the loop's time
  HeaderId header;
  Encoding encoding;
  // request
  bool content_length_known : 1, authorization_seen : 1;
  bool identified : 1;  // CallState::callers has a row of it
  bool plain : 1;       // HTTP without gRPC: its one message is the request's body
  u64 content_length, body_bytes;
  u64 deadline_ns, opened_ns, progress_ns;
  u64 message_ns;  // when the message began that is being received
  u64 user;
  union {
    char* path;          // the beginning of one that names no method, for the status message
    HttpExchange* http;  // of a plain call, from the end of its header block on
  };
  MessageReader reader;
  u32 unconsumed;  // bytes of the stream's window that have not been given back
  u32 dropped;     // bytes that came after the rejection
  HeldMessage *held_first, *held_last;
  // answer
  u32 unsent;
  u16 path_bytes;
  OutMessage *out_first, *out_last, *begun;
  EncodedStatus* trailers;  // nullptr: OK
  Timer timer;
  TraceRecord* trace;  // nullptr: the call is not traced

  CallId id() const { return {index, generation}; }
  // Whether messages wait for the service, for a worker, or for the client to read its answers.
  bool paused(u32 unsent_max) const { return held || inflating || unsent > unsent_max; }
};
static_assert(sizeof(Call) == 256);

// Calls have stable addresses; the most recently used come first again.
class CallPool {
 public:
  explicit CallPool(u32 capacity) : capacity_(capacity) {}

  // A fresh call, nullptr: all are in use.
  Call* acquire();
  void release(Call& call);
  // nullptr: the call has ended.
  Call* find(CallId id) {
    if (id.index >= made_) return nullptr;
    Call& call = at(id.index);
    return call.generation == id.generation ? &call : nullptr;
  }
  void prefetch(CallId id) const {
    if (id.index >= made_) return;
    const Call& call = chunks_[id.index / kChunk][id.index % kChunk];
    __builtin_prefetch(&call);
    __builtin_prefetch(&call.out_first);
  }
  Call& at(u32 index) { return chunks_[index / kChunk][index % kChunk]; }
  u32 used() const { return made_ - u32(free_.size()); }
  // The number of places used so far, and the call in one of them; nullptr if it is free.
  u32 made() const { return made_; }
  Call* in_use(u32 index) {
    Call& call = at(index);
    return call.generation % 2 ? &call : nullptr;
  }

 private:
  static constexpr u32 kChunk = 256;

  const u32 capacity_;
  u32 made_ = 0;
  std::vector<std::unique_ptr<Call[]>> chunks_;
  std::vector<u32> free_;
};

inline Call* CallPool::acquire() {
  if (free_.empty()) {
    if (made_ == capacity_) return nullptr;
    if (made_ % kChunk == 0) {
      chunks_.push_back(std::make_unique<Call[]>(kChunk));
      free_.reserve(made_ + kChunk);
    }
    at(made_).generation = 0;
    free_.push_back(made_++);
  }
  const u32 index = free_.back();
  free_.pop_back();
  Call& call = at(index);
  const u32 generation = call.generation + 1;
  Call* fresh = new (&call) Call{};
  fresh->index = index;
  fresh->generation = generation;
  return fresh;
}

inline void CallPool::release(Call& call) {
  call.generation++;  // odd: in use, even: free
  free_.push_back(call.index);
}

}  // namespace fastqps::transport
