// One connection to the server: the socket, the HTTP/2 session on it, and the calls that are open. It makes itself
// again when it is lost. connection.cpp makes it and reads, exchange.cpp begins calls and writes, answers.cpp ends
// them.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "context.h"
#include "h2client/session.h"
#include "h2client/wire.h"

namespace loadgen {

using fastqps::h2client::Fault, fastqps::h2client::SessionSettings, fastqps::h2client::Wire;
using fastqps::transport::OutputBuffer;

class Connection : public Link<Free> {
 public:
  explicit Connection(Context& context) : context_(context) {}
  ~Connection();
  Connection(const Connection&) = delete;

  // Begins an attempt; it fails after this long.
  void connect(i64 timeout_ns = 5 * kSecond);
  bool down() const { return state_ == kDown; }
  // When tick() has something to do: an attempt to begin or to fail. kNever if nothing.
  i64 next_ns() const { return state_ == kReady || state_ == kDraining ? kNever : tick_at_ns_; }
  void tick();
  void on_events(u32 events);
  void flush();
  void receive();
  bool readable() const { return readable_; }
  // The most calls at a time.
  void set_capacity(u32 calls);

  // False if the connection takes no new calls; then nothing happened.
  bool start(const Arrival& arrival);
  void give_up(Call& call);
  // Ends what is open as unfinished, and the connection.
  void close();

  // For the result.
  u64 sent = 0, connects = 0;
  std::map<Outcome, u64> losses;
  u32 peer_streams_max = UINT32_MAX;
  std::string reason;  // of the last failure, in words

 private:
  using Session = fastqps::h2client::Session<Connection, Call>;
  friend Session;
  enum State { kDown, kOpening, kGreeting, kReady, kDraining };

  void tick_at(i64 instant_ns);
  void speak();
  void drain();
  void lost(Outcome why, std::string words);
  void lost(const Fault& fault);
  bool read(std::span<const u8> bytes);
  void close_socket();
  template <class OutcomeOf>
  void end_all(OutcomeOf outcome_of);
  void mark_dirty();
  void offer();
  void update_capacity();
  bool serialise(OutputBuffer& output);
  bool flush_frames();
  void stamp();
  void after_flush();
  void renew();

  void prepare(Call& call, const Arrival& arrival);
  ssize_t read_body(Call& call, u8* to, size_t room, u32* flags);
  bool going_on() const { return true; }
  void on_settings();
  void on_header(Call& call, std::string_view name, std::string_view value);
  void on_headers(Call& call, bool last);
  void on_data(Call& call, std::span<const u8> bytes);
  void on_last_data(Call& call) { server_ended(call); }
  void on_reset(Call& call, u32 error);
  void on_goaway(const nghttp2_goaway& frame);
  void on_message(Call& call, std::string_view message);
  void server_ended(Call& call);
  void on_stream_close(Call& call, u32 error);
  Outcome judge(const Call& call, u32 error) const;
  void finish(Call& call, Outcome outcome);
  void recycle(Call& call);

  Context& context_;
  State state_ = kDown;
  std::optional<Wire> wire_;  // unless it is down
  size_t address_ = 0;
  Session session_{*this};
  i64 tick_at_ns_ = kNever, ready_since_ns_ = 0, backoff_ns_ = 0;
  bool dirty_ = false, readable_ = false, hung_up_ = false, went_away_ = false;
  i32 last_stream_ = INT32_MAX;     // that the server's GOAWAY named
  List<Call, InConnection> calls_;  // open ones
  u32 open_ = 0, capacity_ = 0, capacity_max_ = 0;

  struct Unstamped {
    Call* call;
    u64 end;  // of the request, in the bytes of the connection
  };
  u64 made_ = 0, written_ = 0;  // bytes of HTTP/2 so far, and those of them that the socket has taken
  std::vector<Unstamped> unstamped_;
  size_t unstamped_at_ = 0, framed_at_ = 0;
};

}  // namespace loadgen
