// A gRPC method handles the events of its calls. Each method is one object, and one row of the MethodTable.
//
// All functions run on the loop's thread. A CallId identifies a call by value. Outside the transport nothing holds a
// pointer to a call, because a call may end at any moment (RST_STREAM, lost connection). All functions accept the
// CallId of an ended call and do nothing.
#pragma once
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/request_view.h"
#include "contract/types.h"
#include "contract/utf8.h"
#include "core/layout.h"
#include "transport/net/counters.h"
#include "transport/net/session.h"

namespace fastqps::transport {

// Who makes a call, and so whom its items belong to unless they name a tenant themselves.
inline constexpr std::string_view kGroupHeader = "fastqps-group";

// The value of a header that a call may have once: UTF-8 of at most kMax bytes, as the field of the same meaning.
template <u32 kMax>
class NameHeader {
 public:
  // False: it was given before, is too long, or is not UTF-8. An empty value names nobody, but counts as given:
  // which of two values counts must not depend on what they are.
  bool take(std::string_view value) {
    const bool first = !std::exchange(given_, true);
    if (first) given_bytes_ = u32(value.size());
    if (!first || value.size() > kMax || !text::valid_utf8(value)) return false;
    if (!value.empty()) std::memcpy(text_, value.data(), value.size());
    return true;
  }
  // After take() has accepted all values.
  std::string_view value() const { return {text_, given_bytes_}; }
  // Whether the first value that was given is too long.
  bool too_long() const { return given_bytes_ > kMax; }
  u32 given_bytes() const { return given_bytes_; }
  static constexpr u32 kBytesMax = kMax;

 private:
  bool given_ = false;
  u32 given_bytes_ = 0;
  char text_[kMax];
};

// The names in the headers of a call. A record of its own, because most calls name nothing.
struct CallNames {
  NameHeader<kTenantBytesMax> tenant;
  NameHeader<kGroupBytesMax> group;
};

// Valid while the call is open.
struct Caller {
  const CallNames* names = nullptr;   // nullptr: none
  u32 token = 0;                      // the fingerprint of its bearer token; 0: the server asks for none
  std::string_view certificate = {};  // the subject of its client's certificate, as RFC 2253 writes it; empty: none
};

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

// The table of methods by full path, matched exactly. It is filled before the loop starts, and read-only afterwards.
// How the transport treats a method's calls.
enum class MethodRole : u8 {
  kService,  // messages as long as messages may be, traces, load reports; the method keeps the deadline of its requests
  kControl,  // short messages; the transport keeps the deadline
  kText,     // as kControl, with messages of texts to tokenize
  kProbe,    // as kControl, and needs no token
};

struct MethodRow {
  std::string path;  // "/package.Service/Method"
  MethodKind kind;
  Method* method;
  MethodRole role = MethodRole::kService;
  Rpc rpc = kOther;  // the name of its calls in traces
};

// "package.Service"
std::string_view service_of(const MethodRow& row);

class MethodTable {
 public:
  static constexpr u32 kMax = kMethodsMax;

  // Returns false if there is no room, or if the path is not "/service/method" or exists already.
  bool add(MethodRow row);
  // The method's place in all(), or -1.
  int find(std::string_view path) const;
  bool knows_service(std::string_view service) const;
  const std::vector<MethodRow>& all() const { return rows_; }

 private:
  static u32 hash(std::string_view path);

  std::vector<MethodRow> rows_;
  i32 table_[4 * kMax] = {};  // place + 1; 0: free
};

}  // namespace fastqps::transport
