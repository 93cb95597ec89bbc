// The dispatcher of an edge: it claims requests as every dispatcher does, and sends them to other servers instead of a
// device. One thread.
//
// A claimed request is an item of a message to one server (a *flight*, flights.h). Its slot is CLAIMED until the first
// answer comes, so that a crash of this process counts as one strike. A server that goes down with it counts as one,
// too: it is sent again, from the second strike on with nothing beside it for a while, and after four it is given up.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/status.h"
#include "edge/flights.h"
#include "edge/upstreams.h"

namespace fastqps::edge {

struct EdgeOptions {
  Terms terms;
  upstream::CallSettings call;  // authority and tls_name are each server's own
  u32 max_items = 256;          // of a message
  u32 connections = 2;          // to each server
};

class EdgeDispatcher final : private Link::Host {
 public:
  EdgeDispatcher(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, EdgeOptions options);
  ~EdgeDispatcher();
  EdgeDispatcher(const EdgeDispatcher&) = delete;

  // Any thread: the servers are these from the next turn on.
  void set_upstreams(std::vector<Target> targets);
  // Any thread: connections are opened with these from the next turn on. tls: nullptr without.
  void set_credentials(std::string token, std::shared_ptr<const h2client::ClientTls> tls);
  // Sends and receives what there is, and waits up to timeout_ns if there is nothing. Returns false if this process has
  // been declared dead: it must exit at once.
  [[nodiscard]] bool turn(u64 timeout_ns);
  // From now on it claims nothing. Returns whether all that it has claimed is answered.
  bool drain() { return draining_ = true, !flights_.open_items(); }

  void set_ready();
  void leave() { claimer_.leave(); }
  std::vector<std::string> take_news() { return upstreams_.take_news(); }

 private:
  // ---- out
  bool claim_and_send();
  bool send_waiting();
  void send_suspect();
  u32 next_of(std::deque<u32>& queue);
  void send_batch();
  u32 longest_of(u32 upstream);
  void try_suspended(const Claim& claim);
  void fetch(const Claim& claim) const;
  void add(u32 number, Link& link);
  bool reject_waiting();
  void answer_dropped();
  void answer_canary();
  // ---- back
  void expect(u32 item) override;
  void answered(Link& link, const StepRow& answer) override;
  void serving(Link& link, const StepReady&) override { upstreams_.serving(link); }
  void reported(Link& link, const StepLoad& load) override { upstreams_.reported(link, load); }
  void take_refusal(u32 number, Link& link, const StepRow& answer);
  void take_tokens(u32 number, Link& link, const StepRow& answer);
  void take_row(u32 number, Link& link, const StepRow& answer);
  void take_invalid(u32 number, Link& link, const StepRow& answer);
  void fail(u32 number, Link& link, const StepRow& answer, const char* why);
  void landed(u32 number, Link& link, const StepRow& answer);
  void refuse(u32 number, StatusCode code, std::string_view message, u32 retry_after_ms = 0);
  void reject(u32 number);
  void send_again(u32 number);
  void leave_link(Flight& flight);
  bool launch(Flight& flight);
  // ---- the rest
  void withdraw(u32 door, u32 slot, u32 seq);
  void collect_ended();
  void lose(u32 number, bool broke);
  void wait(u64 timeout_ns);
  void run_timers();
  void watch(Link& link);
  void take_commands();
  void count(u64 claimed_ns, u64 now_ns);

  Segment segment_;
  const WakeFds* fds_;
  const u32 me_;
  Claimer claimer_;
  const Route& route_;
  const EdgeOptions options_;
  const BatchLimits limits_;
  UpstreamTable& table_;
  Flights flights_;
  Upstreams upstreams_;
  Batch batch_;
  std::deque<u32> waiting_, suspects_;  // claimed items to be sent: again, or alone
  std::vector<u32> lost_;               // of collect_ended()
  int epoll_ = -1;
  bool draining_ = false, fenced_ = false;
  u32 alone_ = 0;           // the suspect that was sent last
  u64 alone_until_ns_ = 0;  // its server is reserved for it
  double budget_;           // of items that a server has refused and that are sent again
  u64 now_ns_ = 0;          // of this turn's reads and writes
  u64 awake_ns_ = 0;        // when it last ran
  u64 reported_ns_ = 0;
  u32 sampled_ = 0;
  // Orders of other threads.
  struct Commands {
    std::optional<std::vector<Target>> targets;
    std::optional<std::pair<std::string, std::shared_ptr<const h2client::ClientTls>>> credentials;
  };
  std::mutex commands_mutex_;
  Commands commands_;
};

}  // namespace fastqps::edge
