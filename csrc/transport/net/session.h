// The interface between a connection and the session that speaks its protocol.
#pragma once
#include <memory>

#include "contract/types.h"

namespace fastqps::transport {

// Names a connection of a front door. The id of a connection that has ended is harmless: nothing is found by it.
struct ConnectionId {
  u32 index = ~0u;
  u32 generation = 0;
  bool operator==(const ConnectionId&) const = default;
};

// How much a connection may lose its place to a newcomer when all are taken.
struct PlaceClaim {
  // From the weakest to the strongest.
  enum class Kind : u8 {
    kStranger,  // has asked nothing that its token, if one is needed, allows
    kIdle,      // between its calls
    kSlow,      // calls wait for the client: for the rest of a request, or until it reads an answer
    kServed,    // the server owes it an answer: keeps its place
  } kind;
  u64 since_ns = 0;
};

// Bytes on their way to the socket. Shared by all connections of a loop, so it stays in the cache.
struct OutputBuffer {
  static constexpr u32 kFull = 64 << 10;  // from here on it is written; more was slower
  std::unique_ptr<u8[]> data = std::make_unique<u8[]>(kFull + (32 << 10));
  u32 bytes = 0;
};

// The protocol of a connection, as far as it is known before its first byte.
enum class SessionProtocol : u8 { kUnknown, kHttp1, kHttp2 };

// Why a connection is retired.
enum class Retire : u8 { kAge, kIdle, kDrain };

enum class After : u8 {
  kContinue,
  kLinger,  // all is said: close when the client has read it
  kClose,   // nobody is there to read
};

// Speaks one protocol over one connection. The connection (connection.h) moves bytes and keeps the socket's time
// limits; the session knows what the bytes mean. The protocols: http1/session.h, http2/session.h.
//
// A session that wants its connection to end calls Connection::kill() or Connection::finish(). Both call drop(). The
// object itself lives until the end of the turn, so a session may go on with what it was doing.
class Session {
 public:
  virtual ~Session() = default;

  // ---- input
  // Bytes of the client, valid during the call only.
  virtual void receive(const u8* data, u32 bytes) = 0;
  // Whether more bytes may be read now. A session that says no calls Connection::make_ready() when that changes.
  virtual bool wants_input() const { return true; }
  // The client sends no more. False: it is owed no answer, so the connection is closed.
  virtual bool end_of_input() = 0;
  // Whether messages wait for the loop's time. Their connection is not read from.
  virtual bool has_queued() = 0;
  // Delivers them, as far as the connection's part of the turn goes.
  virtual void deliver_queued() = 0;

  // ---- output
  // Appends what there is to send, until the output is full. False: the session cannot continue.
  virtual bool fill(OutputBuffer& output) = 0;
  // Whether so much output waits, with `unsent` bytes that the socket did not take, that the client must be made to
  // read before it may send more.
  virtual bool backlogged(u32 unsent) const = 0;
  // Decides about the connection after a flush. `unsent`: the socket did not take everything. `input_ended`: the client
  // sends no more.
  virtual After flushed(bool unsent, bool input_ended) = 0;

  // ---- time
  // The earliest moment at which on_timer() has something to do; kNever: none.
  virtual u64 due() const = 0;
  // Ends the connection, or calls of it, when their time limit has passed.
  virtual void on_timer() = 0;

  // To the connection's place.
  virtual PlaceClaim claim() const = 0;

  // ---- end
  // Says, as far as its protocol can, that the connection closes now and new calls belong on another one.
  virtual void dismiss() = 0;
  // Refuses new calls, finishes the open ones, and closes after grace_ns at the latest.
  virtual void retire(Retire reason, u64 grace_ns) = 0;
  // Says that the client floods the layer below, and ends the connection.
  virtual void end_flood(const char* text) = 0;
  // Ends all calls without further output.
  virtual void drop() = 0;
};

}  // namespace fastqps::transport
