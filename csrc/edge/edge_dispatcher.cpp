#include "edge/edge_dispatcher.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "contract/status.h"
#include "core/clock.h"
#include "edge/slot_item.h"

namespace fastqps::edge {

namespace {

constexpr u32 kTokensMax = 256 << 10;  // of a message: a quarter of what a server takes
constexpr u32 kBatchesMax = 16;        // claimed in a turn, before answers are read
constexpr u32 kHandful = 16;
constexpr u64 kReportNs = 100 * transport::kMillisecond;
constexpr u64 kAloneNs = 500 * transport::kMillisecond;  // more than a step and a queue in front of it usually take
// When this process did not run for so long, others are not to blame for their silence.
constexpr u64 kPausedNs = 300 * transport::kMillisecond;
constexpr double kBudgetFirst = 32;
constexpr u32 kEventKey = ~u32(0);

}  // namespace

EdgeDispatcher::EdgeDispatcher(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, EdgeOptions options)
    : segment_(segment),
      fds_(fds),
      me_(me),
      claimer_(segment, fds, me, epoch, route),
      route_(segment.route(route)),
      options_(std::move(options)),
      limits_{options_.max_items, kTokensMax, 0},
      table_(segment.upstream_table(me)),
      flights_(segment.sizes().doors, segment.sizes().all_slots()),
      upstreams_(*this, options_.terms, options_.call, options_.connections, table_),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      budget_(kBudgetFirst),
      awake_ns_(now_ns()) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kEventKey}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fds_->dispatcher[me_], &event);
}

EdgeDispatcher::~EdgeDispatcher() { ::close(epoll_); }

void EdgeDispatcher::set_upstreams(std::vector<Target> targets) {
  {
    std::lock_guard lock(commands_mutex_);
    commands_.targets = std::move(targets);
  }
  signal_fd(fds_->dispatcher[me_]);
}

void EdgeDispatcher::set_credentials(std::string token, std::shared_ptr<const h2client::ClientTls> tls) {
  std::lock_guard lock(commands_mutex_);
  commands_.credentials.emplace(std::move(token), std::move(tls));
}

void EdgeDispatcher::take_commands() {
  Commands given;
  {
    std::lock_guard lock(commands_mutex_);
    given = std::exchange(commands_, {});
  }
  if (given.credentials) upstreams_.set_credentials(given.credentials->first, given.credentials->second);
  if (given.targets) upstreams_.set(*given.targets);
}

void EdgeDispatcher::set_ready() { claimer_.own().ready.store(1, kRelease); }

bool EdgeDispatcher::turn(u64 timeout_ns) {
  now_ns_ = now_ns();
  take_commands();
  upstreams_.connect(now_ns_);
  while (claimer_.next_canary(batch_)) answer_canary();  // items that wait for servers must not hold it up
  const bool more = claim_and_send();
  upstreams_.for_each_link([this](Link& link) {
    link.flush(now_ns_);
    watch(link);
  });
  collect_ended();
  claimer_.publish();
  wait(more ? 0 : timeout_ns);
  run_timers();
  collect_ended();
  claimer_.publish();
  return !fenced_;
}

// ---- out

// Returns whether more may wait: then nobody has been told that this process sleeps.
bool EdgeDispatcher::claim_and_send() {
  batch_.clear();
  claimer_.read_controls(batch_, [this](u32 door, u32 slot, u32 seq) { withdraw(door, slot, seq); });
  if (!upstreams_.hope()) return reject_waiting();
  if (!send_waiting() || draining_) return claimer_.rest(0), false;
  for (u32 i = 0; i < kBatchesMax && !fenced_; i++) {
    BatchLimits limits = limits_;
    limits.items = std::min(limits.items, upstreams_.room(now_ns_));
    if (!limits.items) return upstreams_.note_limit(now_ns_), claimer_.rest(0), false;
    const ClaimMode mode = flights_.open_items() ? ClaimMode::kLaneFree : ClaimMode::kFree;
    if (!claimer_.next(batch_, mode, limits, 0)) return false;
    claimer_.read_controls(batch_, [this](u32 door, u32 slot, u32 seq) { withdraw(door, slot, seq); });
    answer_dropped();
    if (batch_.canary)
      answer_canary();
    else if (!batch_.claims.empty())
      send_batch();
  }
  return true;
}

// Items that a server did not answer go first. Returns false if none may be claimed now.
bool EdgeDispatcher::send_waiting() {
  send_suspect();
  while (const u32 number = next_of(waiting_)) {
    Link* link = upstreams_.choose(flights_[number].avoid, now_ns_);
    if (!link) return false;
    waiting_.pop_front();
    add(number, *link);
  }
  return true;
}

// A suspect has a server to itself: nothing is sent there until what it had is answered, and then until the suspect is.
// But not for long, because a generation may last a minute, and the loss of one server can make many suspects: between
// two of them others have a turn.
void EdgeDispatcher::send_suspect() {
  const Flight* last = flights_.find(alone_);
  if (last && last->link != kNoLink && now_ns_ < alone_until_ns_) return;
  const u32 number = next_of(suspects_);
  if (std::exchange(alone_, 0) || !number) return upstreams_.reserve(kNoUpstream);
  if (upstreams_.reserved() == kNoUpstream) {
    const Link* link = upstreams_.choose(flights_[number].avoid, now_ns_);
    if (!link) return;
    upstreams_.reserve(link->upstream());
    alone_until_ns_ = now_ns_ + kAloneNs;
  }
  if (upstreams_.in_flight(upstreams_.reserved()) && now_ns_ < alone_until_ns_) return;
  Link* link = upstreams_.reserved_link(now_ns_);
  if (!link) return upstreams_.reserve(kNoUpstream);  // it has gone, or is full
  suspects_.pop_front();
  alone_ = number;
  alone_until_ns_ = now_ns_ + kAloneNs;
  add(number, *link);
}

// The first item of a queue; 0: it is empty. Items that nobody waits for any more are dropped.
u32 EdgeDispatcher::next_of(std::deque<u32>& queue) {
  for (; !queue.empty(); queue.pop_front()) {
    if (!flights_[queue.front()].orphan) return queue.front();
    flights_.close(queue.front());
  }
  return 0;
}

// A burst is for all servers. Items of an encoder go in handfuls: a server's cost of a message is that of many items.
void EdgeDispatcher::send_batch() {
  const u32 handful = generates(route_.task) ? 1 : kHandful;
  Link* link = nullptr;
  u32 left = 0;
  for (size_t i = 0; i < batch_.claims.size(); i++) {
    if (i + 1 < batch_.claims.size()) fetch(batch_.claims[i + 1]);  // the next one lies in another process's caches
    const Claim& claim = batch_.claims[i];
    claimer_.record_wait(claim, batch_.claimed_ns);
    const u32 number = flights_.open(claim, batch_.claimed_ns);
    if (!left || !link->room(now_ns_)) {
      link = upstreams_.choose(kNoUpstream, now_ns_);
      left = link ? handful : 0;
    }
    if (link) {
      add(number, *link);
      left--;
    } else {
      waiting_.push_back(number);
    }
  }
  try_suspended(batch_.claims[0]);
  const u64 n = batch_.claims.size();
  Stats& stats = claimer_.stats();
  stats.batch_items.record(n);
  stats.batch_tokens.record(batch_.n_tokens);
  bump(stats.steps);
  bump(stats.step_items, n);
  bump(stats.step_tokens, batch_.n_tokens);
  stats.stage[kGather].record(now_ns() - batch_.claimed_ns, n);
}

// The tokens that an item of this upstream may make before it sends any; 1: of no generation.
u32 EdgeDispatcher::longest_of(u32 upstream) {
  u32 longest = 1;
  if (!generates(route_.task)) return longest;
  flights_.for_each([&](u32 number) {
    const Flight& flight = flights_[number];
    const Link* link = upstreams_.link(flight.link);
    if (!link || link->upstream() != upstream || flight.orphan) return;
    const Slot& slot = claimer_.slot(flight.claim);
    if (!(slot.flags & kProgress)) longest = std::max(longest, slot.sampling.max_tokens);
  });
  return longest;
}

// Whether a suspended server works again shows a copy of a request: if it does not, nobody has waited for it.
void EdgeDispatcher::try_suspended(const Claim& claim) {
  if (Link* link = upstreams_.untried(now_ns_)) add(flights_.open_copy(claim, batch_.claimed_ns), *link);
}

void EdgeDispatcher::fetch(const Claim& claim) const {
  Slot& slot = claimer_.slot(claim);
  const char* ids = reinterpret_cast<const char*>(segment_.ids(slot));
  __builtin_prefetch(&slot);
  for (u32 byte = 0; byte < claim.n_tokens * sizeof(u32); byte += 64) __builtin_prefetch(ids + byte);
  if (segment_.sizes().caller_bytes) __builtin_prefetch(&segment_.caller(slot));
}

// Adds an item to what its link sends at the end of the turn.
void EdgeDispatcher::add(u32 number, Link& link) {
  Flight& flight = flights_[number];
  flight.link = link.index();
  flight.sent_ns = now_ns_;
  flight.sends++;
  flight.tokens = 0;
  link.in_flight++;
  if (UpstreamRow* row = upstreams_.row(link)) bump(row->sent);
  StepGenerate generate;
  StepItem item = read_item(segment_, route_, number, flight.claim, now_ns_, generate);
  if (flight.orphan && item.generate) item.options.flags |= kProgress;  // a copy: its first token will do
  link.put(item);
}

// No server is left: what waits is answered at once. Returns whether more may wait.
bool EdgeDispatcher::reject_waiting() {
  upstreams_.reserve(kNoUpstream);
  for (std::deque<u32>* queue : {&waiting_, &suspects_})
    for (; const u32 number = next_of(*queue); queue->pop_front()) reject(number);
  if (draining_) return claimer_.rest(0), false;
  for (u32 i = 0; i < kBatchesMax && !fenced_; i++) {
    if (!claimer_.next(batch_, ClaimMode::kFree, limits_, 0)) return false;
    answer_dropped();
    if (batch_.canary) {
      answer_canary();
      continue;
    }
    for (const Claim& claim : batch_.claims) reject(flights_.open(claim, batch_.claimed_ns));
  }
  return true;
}

void EdgeDispatcher::answer_dropped() {
  for (const auto& [claim, code] : batch_.dropped) refuse(flights_.open(claim, batch_.claimed_ns), code, {});
}

// That this process gets on is all that a canary asks.
void EdgeDispatcher::answer_canary() {
  for (const Claim& claim : batch_.claims) refuse(flights_.open(claim, batch_.claimed_ns), StatusCode::kCancelled, {});
}

// ---- the rest

// A client has gone, or its deadline has passed, or its text is complete: the slot goes back at once, and the server
// hears of it.
void EdgeDispatcher::withdraw(u32 door, u32 slot, u32 seq) {
  const u32 number = flights_.of_slot(door, slot);
  Flight* flight = flights_.find(number);
  if (!flight || flight->orphan || flight->claim.seq != seq) return;
  if (Link* link = upstreams_.link(flight->link)) link->cancel(number);
  flight->orphan = true;  // its link still names it, or a queue has it
  refuse(number, StatusCode::kCancelled, {});
}

// Sends the items of a link that has ended to others.
void EdgeDispatcher::collect_ended() {
  upstreams_.for_each_link([this](Link& link) {
    if (link.state() == Link::State::kRetiring && !link.in_flight) link.flush(now_ns_);
    if (link.state() != Link::State::kEnded) return;
    const u32 index = link.index();
    lost_.clear();
    if (link.in_flight)
      flights_.for_each([&](u32 number) {
        if (flights_[number].link == index) lost_.push_back(number);
      });
    if (UpstreamRow* row = upstreams_.row(link)) bump(row->lost, lost_.size());
    for (const u32 number : lost_) {
      flights_[number].avoid = link.upstream();
      lose(number, link.broke());
    }
    upstreams_.drop(index, now_ns_);
  });
}

void EdgeDispatcher::watch(Link& link) {
  if (link.state() == Link::State::kEnded) return;
  const u32 wanted = link.interest();
  if (wanted == link.interest_set) return;
  epoll_event event{.events = wanted, .data = {.u64 = link.index()}};
  epoll_ctl(epoll_, link.interest_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, link.fd(), &event);
  link.interest_set = wanted;
}

void EdgeDispatcher::wait(u64 timeout_ns) {
  const u64 before = now_ns();
  u64 due = std::min(upstreams_.due_ns(before), before + timeout_ns);
  upstreams_.for_each_link([&](Link& link) { due = std::min(due, link.due_ns()); });
  if (upstreams_.reserved() != kNoUpstream) due = std::min(due, alone_until_ns_);
  const u64 left = due > before ? due - before : 0;
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  int n = 0;
  claimer_.sleep_by([&] {
    n = epoll_wait(epoll_, events, kEvents, int((left + transport::kMillisecond - 1) / transport::kMillisecond));
  });
  now_ns_ = now_ns();
  for (int i = 0; i < n; i++) {
    if (events[i].data.u64 == kEventKey) {
      u64 signals;
      (void)!read(fds_->dispatcher[me_], &signals, sizeof signals);
    } else if (Link* link = upstreams_.link(u32(events[i].data.u64))) {
      link->on_events(events[i].events, now_ns_);
    }
  }
}

void EdgeDispatcher::run_timers() {
  const u64 since = now_ns_ - std::exchange(awake_ns_, now_ns_);
  const u64 paused = since > kPausedNs ? since : 0;
  upstreams_.for_each_link([&](Link& link) {
    if (paused || now_ns_ >= link.due_ns()) link.on_timer(now_ns_, paused);
  });
  if (now_ns_ - reported_ns_ < kReportNs) return;
  upstreams_.look(std::min(now_ns_ - reported_ns_, kPausedNs), [this](u32 upstream) { return longest_of(upstream); });
  reported_ns_ = now_ns_;
  upstreams_.report();
  claimer_.own().running.store(generates(route_.task) ? upstreams_.in_flight() : 0, kRelaxed);
}

}  // namespace fastqps::edge
