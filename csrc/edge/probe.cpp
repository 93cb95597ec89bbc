#include <poll.h>

#include <algorithm>

#include "core/clock.h"
#include "edge/upstreams.h"

namespace fastqps::edge {
namespace {

class Probe final : private Link::Host {
 public:
  Probe(const Target& target, const Terms& terms, const upstream::CallSettings& settings)
      : link_(*this, 0, 0, terms, target.address, settings) {}

  ProbeAnswer run(u64 end_ns) {
    while (!done_ && link_.state() != Link::State::kEnded) {
      u64 now = now_ns();
      if (now >= end_ns) link_.end(UpstreamState::kConnecting, "it has not answered in time");
      if (now >= link_.due_ns()) link_.on_timer(now, 0);
      link_.flush(now);
      if (link_.state() == Link::State::kEnded) break;
      wait(std::min(link_.due_ns(), end_ns));
    }
    if (!done_) {
      answer_.state = link_.verdict();
      answer_.reason = link_.why();
    }
    return answer_;
  }

 private:
  void wait(u64 until_ns) {
    const u64 now = now_ns();
    const u64 left_ms = until_ns > now ? (until_ns - now) / 1'000'000 + 1 : 0;
    pollfd watched{link_.fd(), short(link_.interest()), 0};  // EPOLLIN is POLLIN, and so on
    if (::poll(&watched, 1, int(std::min<u64>(left_ms, 1000))) > 0) link_.on_events(u32(watched.revents), now_ns());
  }

  void answered(Link&, const StepRow&) override {}
  void serving(Link&, const StepReady& ready) override {
    answer_.server = ready.server;
    answer_.max_input_tokens = ready.max_input_tokens, answer_.max_output_tokens = ready.max_output_tokens;
    answer_.max_inflight = ready.max_inflight;
    ready_ = true;
  }
  void reported(Link& link, const StepLoad& load) override {
    if (!ready_ || !load.echo) return;
    answer_.state = load.draining ? UpstreamState::kDraining : UpstreamState::kServing;
    if (load.draining) answer_.reason = "it drains";
    answer_.load = load;
    answer_.rtt_ns = link.rtt_ns();
    done_ = true;
  }

  ProbeAnswer answer_;
  bool ready_ = false, done_ = false;
  Link link_;  // last: it may call back while it is made
};

}  // namespace

ProbeAnswer probe(const Target& target, const Terms& terms, upstream::CallSettings settings, u64 timeout_ns) {
  settings.authority = target.address.name;
  settings.tls_name = target.tls_name;
  return Probe(target, terms, settings).run(now_ns() + timeout_ns);
}

}  // namespace fastqps::edge
