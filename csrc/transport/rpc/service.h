// The interface between the transport (HTTP/2, gRPC framing) and the service: what each may call of the other. The
// service knows the loop that runs it only as a LoopControl.
//
// One turn of the loop: wait; read ready connections, and after each read on_message() of the methods whose messages
// are complete; on_turn(); one write per connection that has something to say; timers.
#pragma once
#include <string_view>

#include "contract/status.h"
#include "core/layout.h"
#include "transport/rpc/method.h"

namespace fastqps::transport {

class HttpRoutes;
class MethodTable;
class Transport;
struct HttpReply;

// The service implements this: its methods, and its part of each turn. No function may block.
class Service {
 public:
  virtual ~Service() = default;
  // Once, before on_attach(). The methods outlive the loop's last callback.
  virtual void add_methods(MethodTable& methods) = 0;
  // The same of the methods that answer plain HTTP.
  virtual void add_routes(HttpRoutes&) {}
  // Once, before the first turn. The transport outlives the service's last callback.
  virtual void on_attach(Transport& transport) = 0;
  // Once a turn, after all reads: publish the rings, drain the output rings, run own timers.
  virtual void on_turn(u64 now_ns) = 0;
  // After the turn's answers have been written to their sockets, if there were any.
  virtual void on_flushed() = 0;
  // The absolute time at which on_turn must be called if nothing else happens; ~0: never.
  virtual u64 next_wakeup_ns() = 0;
  // The memory of answers that the service keeps for calls which are not complete.
  virtual u64 kept_bytes() const { return 0; }
  // Called before the loop sleeps: announces the sleep and looks for work again. Returns false if there is work.
  // awake() follows each true.
  virtual bool about_to_sleep() = 0;
  virtual void awake() = 0;
  // Called each turn and whenever the number changes: publishes it, and returns whether this door should accept more.
  virtual bool may_accept(u32 connections) = 0;
};

// A header that every answer of some kind carries. 0: none.
using HeaderId = u8;

enum class Serving : u8 { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };  // as grpc.health.v1

// The loop, as the service that it runs sees it.
class LoopControl {
 public:
  // The health of the whole server, "", and of each of its services. At the start "" is NOT_SERVING and nothing else is
  // known. This and the next two: from any thread, also from a signal handler's thread.
  virtual void set_serving(Serving serving) = 0;
  // Stops accepting, reports NOT_SERVING, sends GOAWAY, finishes open calls. The loop ends when all are done or after
  // grace_ns.
  virtual void drain(u64 grace_ns) = 0;
  virtual void stop() = 0;
  // Before the loop runs, or on its thread: at most 255 headers, kept for ever. 0: there is no room.
  virtual HeaderId add_header(std::string_view name, std::string_view value) = 0;
  // On the loop's thread: its value in answers from now on.
  virtual void change_header(HeaderId header, std::string_view value) = 0;

 protected:
  ~LoopControl() = default;
};

struct DoorState;

// The functions that the service may call, on the loop's thread only.
class Transport {
 public:
  explicit Transport(DoorState& door) : door_(door) {}

  // Announces that an answer of this call follows soon.
  void expect(CallId call) const;
  // Room for a message of at most max_bytes, in a pooled buffer that belongs to the call; nullptr: the call has ended,
  // or its connection does not read its answers (then on_gone has been or will be called). At most one at a time per
  // call.
  u8* begin_message(CallId call, size_t max_bytes);
  // Half of the memory that the answers of the process may take. A larger message may lose its call.
  size_t message_max() const;
  // The message that begin_message gave room for has `bytes` bytes. It leaves at the end of the turn.
  void commit_message(CallId call, size_t bytes);
  // Ends the call after its messages. Without a message before: trailers-only, or a plain call's error response (OK: an
  // empty body). The id is dead afterwards.
  void finish(CallId call, const Status& status = {});
  // The registered header of this call's answer; before the first commit_message or finish.
  void set_header(CallId call, HeaderId header);
  // Status, type and kin of a plain call's response, if not the default; before the first commit_message or finish.
  void set_reply(CallId call, const HttpReply& reply);

  bool alive(CallId call) const;
  void set_user(CallId call, u64 user);
  // False while more than 256 KiB of the call's answers, or 4 MiB of its connection's, wait for the client.
  bool writable(CallId call) const;
  // False while a part of the call's answer waits for the client's windows or its socket.
  bool caught_up(CallId call) const;
  // kBidi: between hold and resume no on_message for this call; its client runs out of window.
  void hold(CallId call);
  void resume(CallId call);
  // Releases a call for which on_gone returned kHeld.
  void released(ConnectionId connection);

  // The record of a call that has one, to be filled in until finish(); nullptr if the call has ended or is not traced.
  TraceRecord* trace(CallId call);
  // Whether calls are recorded, for spans or for the access log; whether there are spans.
  bool records() const;
  bool traces() const;
  // Records that an item of a traced call has ended. `record`: a copy of the call's, with the item's own data; or, of
  // an edge's item, the item's own.
  void trace_item(const TraceRecord& record);
  // Writes the id of a new span, 8 bytes.
  void make_span_id(u8* out);

  // Whether the connection's part of this turn is over, after `bytes` more of its message: then kPart is the answer.
  bool slice_over(size_t bytes);

  u64 turn_ns() const;      // the clock at the start of this turn
  u32 open_calls() const;   // calls that the transport holds
  u32 connections() const;  // open connections

 private:
  DoorState& door_;
};

}  // namespace fastqps::transport
