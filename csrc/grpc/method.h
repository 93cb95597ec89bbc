// A gRPC method: what becomes of its calls. Each method is one object, and one row of the MethodTable (methods.h).
//
// Everything here runs on the loop's one thread. A call is named by a CallId, a value: outside the transport nothing
// holds a pointer to a call, because a call may end at any moment (RST_STREAM, lost connection). A CallId of an ended
// call is harmless: every function takes it and does nothing.
#pragma once
#include <span>

#include "core/types.h"
#include "net/connection_id.h"

namespace fastqps::front {

struct CallId {
  u32 index = ~0u;
  u32 generation = 0;
  bool operator==(const CallId&) const = default;
};

enum class MethodKind : u8 { kUnary, kServerStream, kBidi };

// What the transport knows about the call that a message came on.
struct CallInfo {
  u64 deadline_ns;  // absolute, CLOCK_MONOTONIC, from grpc-timeout; 0: none. A unary call's is the method's to keep
                    // from on_message on; a kBidi call ends at it by itself
  u64 receive_ns;   // the clock at the start of the turn that read the message's last byte
  ConnectionId connection;
  bool half_closed;  // the client sends no more on this call (always true for kUnary and kServerStream)
  u64 user;          // the method's own word, Transport::set_user; 0 at first
  bool traced;
};

// Whether a call that has gone still costs something. Held ones count against their connection until released().
enum class Gone : u8 { kReleased, kHeld };

// How much of a message the method has taken. kPart: it wants the same message again when the loop has time for it.
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
  // The call's connection is to close. A call that has no end of its own has to end now.
  virtual void on_retire(CallId) {}
};

}  // namespace fastqps::front
