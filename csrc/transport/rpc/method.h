// A gRPC method handles the events of its calls. Each method is one object, and one row of the MethodTable (methods.h).
//
// All functions run on the loop's thread. A CallId identifies a call by value. Outside the transport nothing holds a
// pointer to a call, because a call may end at any moment (RST_STREAM, lost connection). All functions accept the
// CallId of an ended call and do nothing.
#pragma once
#include <span>

#include "contract/types.h"
#include "transport/net/connection_id.h"
#include "transport/rpc/caller.h"

namespace fastqps::transport {

struct HttpRequest;

struct CallId {
  u32 index = ~0u;
  u32 generation = 0;
  bool operator==(const CallId&) const = default;
};

enum class MethodKind : u8 { kUnary, kServerStream, kBidi };

// The transport's data about the call of a message.
struct CallInfo {
  u64 deadline_ns;  // absolute, CLOCK_MONOTONIC, from grpc-timeout; 0: none. A unary call's is the method's to keep
                    // from on_message on; a kBidi call ends at it by itself
  u64 receive_ns;   // the clock at the start of the turn that read the message's last byte
  ConnectionId connection;
  bool half_closed;  // the client sends no more on this call (always true for kUnary and kServerStream)
  u64 user;          // the method's own word, Transport::set_user; 0 at first
  bool traced;
  const HttpRequest* http = nullptr;  // of a plain call (http/http_request.h); nullptr: a gRPC call
  Caller caller = {};
};

// Whether an ended call still uses resources. A held one counts against its connection until released().
enum class Gone : u8 { kReleased, kHeld };

// How much of a message the method has taken. kPart: the loop delivers the same message again when it has time.
enum class Took : u8 { kAll, kPart };

// No function may block.
class Method {
 public:
  virtual ~Method() = default;
  // A complete message, decompressed. The bytes are valid during the call only. kUnary and kServerStream: exactly once,
  // after the client's half-close, never with a deadline that has passed. kBidi: for each message, in order. A message
  // of which only a part was taken comes again.
  virtual Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) = 0;
  // kBidi only: after the last message. Also for a call without any message.
  virtual void on_half_close(CallId, const CallInfo&) {}
  // The call has ended without finish() (reset, connection lost, answers not read): exactly once for each call that
  // the method has had a message or a half-close of and has not finished. The id is dead already.
  virtual Gone on_gone(CallId, [[maybe_unused]] u64 user) { return Gone::kReleased; }
  // A kBidi call has had no message and no answer for long. False: an answer is owed to it. True: it ends; with the
  // method's own status if it has called finish().
  virtual bool on_idle(CallId, [[maybe_unused]] u64 user) { return true; }
  // The call's connection is about to close. A call that would never end by itself must end now.
  virtual void on_retire(CallId) {}
};

}  // namespace fastqps::transport
