// The servers that an edge's dispatcher sends steps to, and its connections to them.
#pragma once
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/segment.h"
#include "edge/flights.h"
#include "edge/link.h"

namespace fastqps::edge {

// A server as it was resolved.
struct Target {
  h2client::Address address;
  std::string tls_name;  // that its certificate must be for
  bool operator==(const Target& other) const {
    return address.name == other.address.name && tls_name == other.tls_name;
  }
};

struct Upstream {
  Target target;
  u32 row = kUpstreamRows;  // in the table; kUpstreamRows: none
  bool listed = true;       // among the addresses that were resolved last
  UpstreamState state = UpstreamState::kConnecting;
  std::string reason = {};
  u32 failures = 0;                // attempts to connect since the last one that succeeded
  u64 retry_ns = 0;                // no attempt before
  bool proven = false;             // since its first connection it has answered right
  bool on_probation = false;       // it was ejected, and has not answered right since
  bool stalled = false;            // it was suspended, and has answered nothing since
  u64 rested_ns = 0, rest_ns = 0;  // when it last was ejected or suspended, and for how long
  bool answered = false;           // since the last look
  u64 unanswered_ns = 0;           // for so long it has had items since its last answer
  double usual_ns = 0;             // from sending an item to its answer, by its tokens if made; 0: not known
  StepLoad load = {};
  u64 bytes_in = 0, bytes_out = 0;  // of links that have ended
  std::vector<u32> links = {};      // those that have not
};

class Upstreams {
 public:
  // connections: to each server.
  Upstreams(Link::Host& host, const Terms& terms, const upstream::CallSettings& settings, u32 connections,
            UpstreamTable& table);

  // The servers are these from now on. Others get no more items.
  void set(const std::vector<Target>& targets);
  // Connections are opened with these from now on; those that are open stay.
  void set_credentials(const std::string& token, std::shared_ptr<const h2client::ClientTls> tls);
  // Opens connections that are due.
  void connect(u64 now_ns);
  // The server's state changed, or a connection of it.
  void serving(Link& link);
  void reported(Link& link, const StepLoad& load);
  // sent_ns: when the item was sent that it refused. retry_after_ms: as it says; 0: it does not.
  void refused(Link& link, u64 sent_ns, u32 retry_after_ms, u64 now_ns);
  // Its server's answers do not fit the model, as `why` says: its links end.
  void eject(Link& link, const std::string& why, u64 now_ns);
  // It has answered as it should.
  void prove(Link& link) {
    of(link).proven = true;
    if (of(link).on_probation) readmit(link);
  }
  // It has answered an item, whatever with.
  void heard(Link& link) {
    Upstream& upstream = of(link);
    link.answered = upstream.answered = true;
    if (upstream.stalled) resume(link);
  }
  // An item has come back after so long. made: tokens; 1: it is no generation.
  void took(Link& link, u64 took_ns, u32 made) {
    double& usual = of(link).usual_ns;
    usual += (double(took_ns) / made - usual) / (usual ? kMeanOver : 1);
  }
  // Suspends servers that have items and answer none, while others answer. since_ns: the time since the last look.
  // longest(upstream): the tokens that one of its items may make before it says any; 1: they are no generations.
  template <class Longest>
  void look(u64 since_ns, Longest longest) {
    for (u32 u = 0; u < upstreams_.size(); u++)
      if (is_silent(upstreams_[u], since_ns) && upstreams_[u].unanswered_ns >= patience_ns(upstreams_[u], longest(u)))
        end_silent(upstreams_[u]);
  }
  // A link with room to a suspended server that has nothing to do; nullptr: there is none.
  Link* untried(u64 now_ns);
  // Forgets a link that has ended. No item names it any more.
  void drop(u32 link, u64 now_ns);

  // Items that all servers together may be sent now.
  u32 room(u64 now_ns) const;
  // A link with room, of the one of two servers taken at random that has less to do; nullptr: there is none. avoid: a
  // server that is only taken if no other one has room.
  Link* choose(u32 avoid, u64 now_ns);
  // choose() leaves this server out from now on; kNoUpstream: none.
  void reserve(u32 upstream) { reserved_ = upstream; }
  u32 reserved() const { return reserved_; }
  // Its link with the most room; nullptr: none has any.
  Link* reserved_link(u64 now_ns) { return freest(upstreams_[reserved_], now_ns); }
  // Tells the links that could take items, but have no room, that there are some.
  void note_limit(u64 now_ns);
  // Whether items have to wait for room, or for a connection that is likely to come back at once. Otherwise no server
  // is left.
  bool hope() const;

  Link* link(u32 index) { return index < links_.size() ? links_[index].get() : nullptr; }
  Upstream& of(const Link& link) { return upstreams_[link.upstream()]; }
  UpstreamRow* row(const Link& link);
  template <class Each>
  void for_each_link(Each each) {
    for (size_t i = 0; i < links_.size(); i++)
      if (links_[i]) each(*links_[i]);
  }
  // When connect() has something to do, or a server that refused may be sent items again.
  u64 due_ns(u64 now_ns) const;
  u32 in_flight() const;
  u32 in_flight(u32 upstream) const { return items_of(upstreams_[upstream]); }
  // Writes the table's rows.
  void report();
  // Lines for the log since the last call.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }

 private:
  void open(const Target& target);
  void readmit(Link& link);
  void resume(Link& link);
  void extend_rest(Upstream& upstream, u64 now_ns);
  bool is_silent(Upstream& upstream, u64 since_ns) const;
  u64 patience_ns(const Upstream& upstream, u32 made) const;
  void end_silent(Upstream& upstream);
  u32 items_of(const Upstream& upstream) const;
  void change(Upstream& upstream, UpstreamState state, std::string reason);
  void hide_if_gone(const Upstream& upstream);
  bool may_take(u32 upstream) const;
  bool is_last_choice(const Upstream& upstream) const;
  bool has_better(const Upstream& upstream, bool proven = false) const;
  u64 retry_at(const Upstream& upstream) const;
  bool serves(const Upstream& upstream) const;
  bool drains(const Upstream& upstream) const;
  void settle(Upstream& upstream);
  Link* freest(const Upstream& upstream, u64 now_ns);
  bool does_less(const Upstream& one, const Upstream& other) const;
  u32 items(const Upstream& upstream) const;
  double item_us(const Upstream& upstream) const;
  u32 random(u32 below) { return u32(u64(random_()) * below >> 32); }

  static constexpr double kMeanOver = 16;  // items

  Link::Host& host_;
  const Terms& terms_;
  upstream::CallSettings settings_;
  const u32 connections_;
  UpstreamTable& table_;
  bool known_ = false;               // set() was called
  std::vector<Upstream> upstreams_;  // places stay: links name them
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<u32> able_;  // of choose(): upstreams
  u32 reserved_ = kNoUpstream;
  std::vector<std::string> news_;
  std::mt19937 random_{std::random_device{}()};
};

// The answer of one server that was asked, once, whether it would take an edge's items.
struct ProbeAnswer {
  UpstreamState state = UpstreamState::kConnecting;  // kServing: it would take them
  std::string reason;                                // of any other state
  // of kServing
  std::string server;  // its version of fastqps
  u32 max_input_tokens = 0, max_output_tokens = 0, max_inflight = 0;
  StepLoad load;
  u64 rtt_ns = 0;
};

// Blocks until the server has answered a hello and an echo, has refused, or timeout_ns have passed.
ProbeAnswer probe(const Target& target, const Terms& terms, upstream::CallSettings settings, u64 timeout_ns);

}  // namespace fastqps::edge
