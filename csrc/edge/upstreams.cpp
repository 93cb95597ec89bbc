#include "edge/upstreams.h"

#include <algorithm>
#include <utility>

namespace fastqps::edge {

namespace {

constexpr u64 kRetryNs = 250 * transport::kMillisecond, kRetryWrongNs = 1000 * transport::kMillisecond;
constexpr u64 kRestMostNs = 16 * kRetryWrongNs;
// Items without an answer, while other servers answer.
constexpr u64 kPatienceNs = 1000 * transport::kMillisecond;
constexpr double kPatienceUsual = 8;  // times what an item usually takes
constexpr size_t kNewsMax = 64;

}  // namespace

Upstreams::Upstreams(Link::Host& host, const Terms& terms, const upstream::CallSettings& settings, u32 connections,
                     UpstreamTable& table)
    : host_(host), terms_(terms), settings_(settings), connections_(connections), table_(table) {
  for (UpstreamRow& row : table_.row) row.state.store(UpstreamState::kNone, kRelaxed);  // those of the predecessor
}

void Upstreams::set(const std::vector<Target>& targets) {
  known_ = true;
  for (Upstream& upstream : upstreams_) {
    const bool listed = std::find(targets.begin(), targets.end(), upstream.target) != targets.end();
    if (upstream.listed && !listed) {
      upstream.listed = false;
      change(upstream, UpstreamState::kDraining, "its name does not lead to it any more");
      for (const u32 link : upstream.links) links_[link]->retire();
      hide_if_gone(upstream);
    } else if (!upstream.listed && listed) {
      upstream.listed = true;
      upstream.failures = 0;
      upstream.retry_ns = 0;
      change(upstream, UpstreamState::kConnecting, "");
    }
  }
  for (const Target& target : targets) {
    const auto has = [&](const Upstream& each) { return each.target == target; };
    if (std::none_of(upstreams_.begin(), upstreams_.end(), has)) open(target);
  }
}

void Upstreams::set_credentials(const std::string& token, std::shared_ptr<const h2client::ClientTls> tls) {
  settings_.token = token;
  settings_.tls = std::move(tls);
}

// Takes the place of one that is gone, if there is one.
void Upstreams::open(const Target& target) {
  const auto gone = [](const Upstream& each) { return !each.listed && each.links.empty(); };
  auto place = std::find_if(upstreams_.begin(), upstreams_.end(), gone);
  if (place == upstreams_.end()) place = upstreams_.insert(upstreams_.end(), Upstream{});
  const u32 row = u32(place - upstreams_.begin());
  *place = {.target = target, .row = std::min(row, kUpstreamRows)};
  if (row < kUpstreamRows) {
    UpstreamRow& shown = table_.row[row];
    for (auto* count : {&shown.sent, &shown.answered, &shown.refused, &shown.lost, &shown.connects, &shown.bytes_out,
                        &shown.bytes_in, &shown.rtt_ns, &shown.heard_ns})
      count->store(0, kRelaxed);
    shown.name.write(target.address.name);
    shown.reason.write("");
    shown.state.store(UpstreamState::kConnecting, kRelaxed);
  }
}

void Upstreams::connect(u64 now_ns) {
  for (u32 u = 0; u < upstreams_.size(); u++) {
    Upstream& upstream = upstreams_[u];
    if (!upstream.listed || now_ns < upstream.retry_ns) continue;
    u32 open = 0;  // retiring ones are replaced
    for (const u32 link : upstream.links) open += links_[link]->state() != Link::State::kRetiring;
    // One connection shows whether the server is there; the others follow.
    const u32 wanted = upstream.state == UpstreamState::kServing ? connections_ : 1;
    if (upstream.state == UpstreamState::kDraining && !upstream.links.empty()) continue;
    for (; open < wanted; open++) {
      auto place = std::find(links_.begin(), links_.end(), nullptr);
      if (place == links_.end()) place = links_.insert(links_.end(), nullptr);
      const u32 index = u32(place - links_.begin());
      upstream::CallSettings settings = settings_;
      settings.authority = upstream.target.address.name;
      settings.tls_name = upstream.target.tls_name;
      *place = std::make_unique<Link>(host_, index, u, terms_, upstream.target.address, settings);
      upstream.links.push_back(index);
    }
  }
}

void Upstreams::serving(Link& link) {
  Upstream& upstream = of(link);
  if (!upstream.listed) return link.retire();
  upstream.failures = 0;
  if (UpstreamRow* shown = row(link)) bump(shown->connects);
  if (upstream.links.size() == 1) upstream.load = {}, upstream.proven = false;  // perhaps another process than before
  if (upstream.on_probation) return link.set_probation(true);  // it stays a mismatch until it has answered right
  if (upstream.stalled) {
    link.set_probation(true);
    return change(upstream, UpstreamState::kSuspended, "it gets copies of requests until it has answered one");
  }
  settle(upstream);
}

void Upstreams::reported(Link& link, const StepLoad& load) {
  Upstream& upstream = of(link);
  upstream.load = load;
  link.draining = load.draining;
  settle(upstream);
}

// Behind one address there may be several processes, of which only one is about to stop.
void Upstreams::settle(Upstream& upstream) {
  if (!upstream.listed || upstream.on_probation || upstream.stalled || !serves(upstream)) return;
  const bool draining = drains(upstream);
  change(upstream, draining ? UpstreamState::kDraining : UpstreamState::kServing,
         draining ? "it is about to stop" : "");
}

bool Upstreams::may_take(u32 u) const {
  return u != reserved_ && !(is_last_choice(upstreams_[u]) && has_better(upstreams_[u]));
}

// A server that is about to stop, or was suspended, gets requests only if no other one is there.
bool Upstreams::is_last_choice(const Upstream& upstream) const { return upstream.stalled || drains(upstream); }

// proven: it has answered an item.
bool Upstreams::has_better(const Upstream& upstream, bool proven) const {
  return std::any_of(upstreams_.begin(), upstreams_.end(), [&](const Upstream& other) {
    const bool reserved = reserved_ != kNoUpstream && &other == &upstreams_[reserved_];
    return &other != &upstream && (!reserved || upstream.stalled) && serves(other) && !is_last_choice(other) &&
           (!proven || other.usual_ns);
  });
}

// Whether all that serves there is about to stop.
bool Upstreams::drains(const Upstream& upstream) const {
  return std::any_of(upstream.links.begin(), upstream.links.end(),
                     [this](u32 link) { return links_[link]->draining; }) &&
         std::none_of(upstream.links.begin(), upstream.links.end(), [this](u32 index) {
           return links_[index]->state() == Link::State::kServing && !links_[index]->draining;
         });
}

bool Upstreams::serves(const Upstream& upstream) const {
  return std::any_of(upstream.links.begin(), upstream.links.end(),
                     [this](u32 link) { return links_[link]->state() == Link::State::kServing; });
}

// While the link has other items, their answers say when there is room again: a pause would let a short queue run
// empty. A link without any would only be refused again, by a queue that is full of others' items.
void Upstreams::refused(Link& link, u64 sent_ns, u32 retry_after_ms, u64 now_ns) {
  constexpr u32 kPauseMsMost = 100;
  link.window.refused(sent_ns, now_ns);
  if (link.in_flight) return;
  link.resume_ns = std::max(link.resume_ns, now_ns + std::min(retry_after_ms, kPauseMsMost) * transport::kMillisecond);
}

// It is left alone for twice as long as the last time, if that was not long ago.
void Upstreams::extend_rest(Upstream& upstream, u64 now_ns) {
  if (upstream.rested_ns == now_ns) return;  // for another of its links
  const bool again = upstream.rest_ns && now_ns - upstream.rested_ns < 4 * kRestMostNs;
  upstream.rest_ns = again ? std::min(2 * upstream.rest_ns, kRestMostNs) : kRetryWrongNs;
  upstream.rested_ns = now_ns;
}

void Upstreams::eject(Link& link, const std::string& why, u64 now_ns) {
  Upstream& upstream = of(link);
  extend_rest(upstream, now_ns);
  upstream.on_probation = true;
  for (const u32 index : upstream.links) links_[index]->end(UpstreamState::kMismatch, why, false);
}

void Upstreams::readmit(Link& link) {
  of(link).on_probation = false;
  link.set_probation(false);
  settle(of(link));
}

// Only answers show that a server does anything with what it gets: echoes, and what it says of itself, do not. Returns
// whether it has been silent for so long that its items have to be looked at.
bool Upstreams::is_silent(Upstream& upstream, u64 since_ns) const {
  const bool has_items = items_of(upstream) > 0;
  if (std::exchange(upstream.answered, false))
    upstream.unanswered_ns = 0;
  else if (has_items)
    upstream.unanswered_ns += since_ns;
  return has_items && upstream.unanswered_ns >= kPatienceNs && has_better(upstream, true);
}

// A slow server has earned the time that its answers take. One that is tried again gets longer each time, because it
// may be slower than all that is known: its items are copies, for which nobody waits.
u64 Upstreams::patience_ns(const Upstream& upstream, u32 made) const {
  double usual_ns = 0;
  for (const Upstream& each : upstreams_) usual_ns = std::max(usual_ns, each.usual_ns);
  return std::max(upstream.stalled ? upstream.rest_ns : 0, u64(kPatienceUsual * usual_ns * made));
}

void Upstreams::end_silent(Upstream& upstream) {
  const std::string why = "it has answered none of its " + std::to_string(items_of(upstream)) + " items for " +
                          std::to_string(upstream.unanswered_ns / transport::kMillisecond) + " ms";
  for (const u32 index : upstream.links) links_[index]->end(UpstreamState::kSuspended, why);
}

void Upstreams::resume(Link& link) {
  Upstream& upstream = of(link);
  upstream.stalled = false;
  if (!upstream.on_probation) link.set_probation(false);
  settle(upstream);
}

Link* Upstreams::untried(u64 now_ns) {
  for (u32 u = 0; u < upstreams_.size(); u++)
    if (upstreams_[u].stalled && u != reserved_ && !items_of(upstreams_[u]) && has_better(upstreams_[u]))
      if (Link* link = freest(upstreams_[u], now_ns)) return link;
  return nullptr;
}

void Upstreams::drop(u32 index, u64 now_ns) {
  const std::unique_ptr<Link> link = std::move(links_[index]);
  Upstream& upstream = of(*link);
  std::erase(upstream.links, index);
  upstream.bytes_in += link->bytes_in(), upstream.bytes_out += link->bytes_out();
  if (!upstream.listed) return hide_if_gone(upstream);
  if (serves(upstream)) {  // its other links go on
    upstream.retry_ns = now_ns + kRetryNs;
    return settle(upstream);
  }
  if (upstream.state == UpstreamState::kDraining && !link->broke()) {  // as it has said
    upstream.retry_ns = now_ns + kRetryNs;
    return;
  }
  // It takes items and answers none: each connection would cost as many again.
  const bool silent = link->broke() && (link->verdict() == UpstreamState::kSuspended || !link->answered) &&
                      (upstream.stalled || has_better(upstream, true));
  if (silent) {
    upstream.stalled = true;
    upstream.unanswered_ns = 0;
    extend_rest(upstream, now_ns);
  }
  const bool wrong = link->verdict() == UpstreamState::kMismatch || link->verdict() == UpstreamState::kRefused;
  // The first attempt after a connection that worked is made at once: perhaps only that connection was cut.
  const bool again = upstream.state == UpstreamState::kServing && link->broke() && !upstream.stalled &&
                     link->verdict() == UpstreamState::kConnecting;
  upstream.failures += !again;
  const u64 rest =
      link->verdict() != UpstreamState::kMismatch || !upstream.on_probation ? kRetryWrongNs : upstream.rest_ns;
  upstream.retry_ns = again ? now_ns : now_ns + (wrong ? rest : kRetryNs) + random(u32(kRetryNs));
  change(upstream, silent ? UpstreamState::kSuspended : link->verdict(), link->why());
}

// One that was suspended rests while another one serves.
u64 Upstreams::retry_at(const Upstream& upstream) const {
  const bool rests = upstream.stalled && has_better(upstream);
  return std::max(upstream.retry_ns, rests ? upstream.rested_ns + upstream.rest_ns : 0);
}

// One that is not listed leaves the table with its last connection.
void Upstreams::hide_if_gone(const Upstream& upstream) {
  if (upstream.links.empty() && upstream.row < kUpstreamRows)
    table_.row[upstream.row].state.store(UpstreamState::kNone, kRelaxed);
}

u32 Upstreams::room(u64 now_ns) const {
  u32 room = 0;
  for (u32 u = 0; u < upstreams_.size(); u++) {
    if (!may_take(u)) continue;
    const bool draining = drains(upstreams_[u]);
    for (const u32 index : upstreams_[u].links)
      if (draining || !links_[index]->draining) room += links_[index]->room(now_ns);
  }
  return room;
}

Link* Upstreams::choose(u32 avoid, u64 now_ns) {
  able_.clear();
  for (u32 u = 0; u < upstreams_.size(); u++)
    if (may_take(u) && freest(upstreams_[u], now_ns)) able_.push_back(u);
  if (able_.size() > 1) std::erase(able_, avoid);
  if (able_.empty()) return nullptr;
  const u32 one = random(u32(able_.size())), step = 1 + random(u32(std::max<size_t>(able_.size(), 2) - 1));
  const Upstream& first = upstreams_[able_[one]];
  const Upstream& second = upstreams_[able_[(one + step) % able_.size()]];
  return freest(does_less(second, first) ? second : first, now_ns);
}

// Its link with the most room, of those to a process that stays if there is one; nullptr: none has any.
Link* Upstreams::freest(const Upstream& upstream, u64 now_ns) {
  const bool draining = drains(upstream);
  Link* best = nullptr;
  for (const u32 index : upstream.links) {
    Link* link = links_[index].get();
    if (link->draining && !draining) continue;
    if (link->room(now_ns) > (best ? best->room(now_ns) : 0)) best = link;
  }
  return best;
}

// Which would be done sooner with what it has and one more item: so unequal ones get as much as each of them can do.
// One that has answered nothing yet is taken to be as fast as the other.
bool Upstreams::does_less(const Upstream& one, const Upstream& other) const {
  double one_us = item_us(one), other_us = item_us(other);
  if (!one_us || !other_us) one_us = other_us = 1;
  return items(one) * one_us < items(other) * other_us;
}

u32 Upstreams::items(const Upstream& upstream) const { return std::max(1 + items_of(upstream), upstream.load.waiting); }

// The server's time for an item. Before it knows its capacity, the time of its steps has to do. 0: not known.
double Upstreams::item_us(const Upstream& upstream) const {
  if (upstream.load.items_per_s) return 1e6 / upstream.load.items_per_s;
  double us = 0;
  for (const u32 index : upstream.links) us = std::max(us, links_[index]->item_us());
  return us ? std::max(us, 1.0) : 0;
}

void Upstreams::note_limit(u64 now_ns) {
  for (const auto& each : links_)
    if (each && each->state() == Link::State::kServing && each->resume_ns <= now_ns && !each->room(now_ns))
      each->window.limit();
}

bool Upstreams::hope() const {
  if (!known_) return true;
  for (const auto& each : links_)
    if (each && each->state() == Link::State::kServing) return true;
  const auto young = [](const Upstream& each) { return each.listed && !each.failures; };
  return std::any_of(upstreams_.begin(), upstreams_.end(), young);
}

UpstreamRow* Upstreams::row(const Link& link) {
  const u32 row = of(link).row;
  return row < kUpstreamRows ? &table_.row[row] : nullptr;
}

u64 Upstreams::due_ns(u64 now_ns) const {
  u64 due = transport::kNever;
  for (const Upstream& upstream : upstreams_) {
    if (!upstream.listed) continue;
    for (const u32 link : upstream.links)
      if (links_[link]->resume_ns > now_ns) due = std::min(due, links_[link]->resume_ns);
    const bool wants = upstream.links.size() < (upstream.state == UpstreamState::kServing ? connections_ : 1);
    if (wants) due = std::min(due, upstream.retry_ns);
  }
  return due;
}

u32 Upstreams::in_flight() const {
  u32 n = 0;
  for (const auto& each : links_) n += each ? each->in_flight : 0;
  return n;
}

u32 Upstreams::items_of(const Upstream& upstream) const {
  u32 n = 0;
  for (const u32 index : upstream.links) n += links_[index]->in_flight;
  return n;
}

void Upstreams::change(Upstream& upstream, UpstreamState state, std::string reason) {
  if (upstream.state == state && upstream.reason == reason) return;
  upstream.state = state;
  upstream.reason = std::move(reason);
  if (news_.size() < kNewsMax) {
    std::string line = "upstream " + upstream.target.address.name + ": " + kUpstreamStateNames[u32(state)];
    if (!upstream.reason.empty()) line += ": " + upstream.reason;
    news_.push_back(std::move(line));
  }
  if (upstream.row < kUpstreamRows) {
    table_.row[upstream.row].reason.write(upstream.reason);
    table_.row[upstream.row].state.store(state, kRelaxed);  // relaxed: a report
  }
}

// relaxed: reports, each word by itself.
void Upstreams::report() {
  for (Upstream& upstream : upstreams_) {
    if (upstream.row == kUpstreamRows) continue;
    UpstreamRow& shown = table_.row[upstream.row];
    u32 in_flight = 0, window = 0;
    u64 bytes_in = upstream.bytes_in, bytes_out = upstream.bytes_out;
    for (const u32 index : upstream.links) {
      const Link& link = *links_[index];
      in_flight += link.in_flight;
      bytes_in += link.bytes_in(), bytes_out += link.bytes_out();
      if (link.state() == Link::State::kServing) window += link.window.size();
      if (link.rtt_ns()) shown.rtt_ns.store(link.rtt_ns(), kRelaxed);
      shown.heard_ns.store(std::max(shown.heard_ns.load(kRelaxed), link.heard_ns()), kRelaxed);
    }
    shown.bytes_in.store(bytes_in, kRelaxed);
    shown.bytes_out.store(bytes_out, kRelaxed);
    shown.in_flight.store(in_flight, kRelaxed);
    shown.window.store(window, kRelaxed);
    shown.utilization_thousandth.store(upstream.load.utilization_thousandth, kRelaxed);
    shown.waiting.store(upstream.load.waiting, kRelaxed);
    shown.running.store(upstream.load.running, kRelaxed);
  }
}

}  // namespace fastqps::edge
