#include "step/decode/decode_stepper.h"

#include <bit>
#include <cmath>
#include <utility>

#include "core/waiting.h"

namespace fastqps {
namespace {

constexpr u32 kUncompiledMin = 64;  // of the requests that may wait for their structures, where fewer can run

// What stands in a slot is another process's: within what the step's memory and the answer's can take.
Sampling checked(const Sampling& asked, const Route& route) {
  Sampling s = asked;
  s.max_tokens = std::clamp(s.max_tokens, 1u, std::max(route.max_output_tokens, 1u));
  s.top_logprobs = std::min(s.top_logprobs, kTopLogprobsMax);
  return s;
}

}  // namespace

DecodeStepper::DecodeStepper(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 route, BatchLimits limits)
    : Stepper(segment, fds, me, epoch, route, limits),
      prompt_rows_(limits.tokens),
      place_of_slot_(u64(segment.sizes().doors) * segment.sizes().all_slots(), DecodeBatch::kNobody) {
  claimed_.claims.reserve(max_running());
  ended_.reserve(max_running());
}

u32 DecodeStepper::add(i32* staging, const i32* output, const DeviceStamps* stamps, u32 lane, u32 max_runs,
                       i32* biases) {
  while (batches_.size() <= lane) batches_.emplace_back(max_running(), route_->prefix_tokens);
  batches_[lane].use_biases(biases);
  requests_.resize(batches_.size() * max_running());
  steps_.push_back({DecodeStep(staging, output, limits_.tokens, std::max(max_runs, max_running()))});
  steps_.back().joined.reserve(max_running());
  return add_step(stamps, lane);
}

u32 DecodeStepper::running() const {
  u32 all = 0;
  for (const DecodeBatch& batch : batches_) all += batch.running();
  return all;
}

i32 DecodeStepper::gather(u64 timeout_ns) {
  clock_.returned(now_ns());
  const u32 free = lanes_.freest([this, open = lanes_.open()](u32 lane) { return lane < open && quiet(lane); });
  const u32 next = lanes_.freest([this](u32 lane) { return !quiet(lane); });
  if (free == Lanes::kNoLane && next == Lanes::kNoLane) return rest(timeout_ns), kNothing;
  const auto goes_on = [this](const Waiting& each) { return each.refused() || (each.compiled() && may_join(each)); };
  if (free != Lanes::kNoLane && structures_.any(goes_on)) timeout_ns = 0;  // Elsewhere they join the next step in time
  const u64 ahead = next == Lanes::kNoLane ? timeout_ns : clock_.ahead_ns(next, now_ns());
  if (free != Lanes::kNoLane) {
    const i32 s = fill(free, std::min(ahead, timeout_ns));
    if (s != kNothing || ahead || next == Lanes::kNoLane) return s;
  } else if (!rest_until_due(claimer_, clock_, ahead, timeout_ns) && lanes_.count() > 1) {
    return kNothing;  // another lane's end goes first
  }
  const i32 s = fill(next, 0);
  if (s != kNothing) return s;
  // The last rows of all of its sequences are on the device.
  return free != Lanes::kNoLane ? fill(free, timeout_ns) : (rest(timeout_ns), kNothing);
}

i32 DecodeStepper::fill(u32 lane, u64 timeout_ns) {
  const u32 s = lanes_.step(lane);
  Step& step = steps_[s];
  DecodeBatch& batch = batches_[lane];
  clock_.begin(now_ns());
  // Scripts get half of the runs that are left: a sequence that joins needs one, too.
  const u32 runs = batch.plan((batch.going() + step.rows.layout.max_runs + 1) / 2);
  const auto prompt = [this](const Claim& claim) { return prompt_of(claim); };
  const StructureQueue::Room compiled = structures_.keep_room(prompt);
  const u32 left = limits_.tokens - runs - batch.more_rows(), rows = u32(left - std::min<u64>(left, compiled.rows));
  const u32 places = step.rows.layout.max_runs - runs, most = lane < lanes_.open() ? items_now() : 0;
  BatchLimits room{.items = std::min({most - std::min(most, batch.running() + compiled.items),
                                      places - std::min(places, compiled.items), uncompiled_left(compiled)}),
                   .tokens = std::min(rows, prompt_rows(lane)),
                   .delay_ns = limits_.delay_ns};
  if (rows < route_->max_input_tokens) room.items = 0;  // a claim takes one request at least
  claim(lane, room, timeout_ns);
  read_controls();  // before the step is packed: what nobody wants any more gets no row in it
  shed(lane);
  if (set_aside() && look_) look_();
  batch.begin(step.rows);
  join(s);
  batch.seal(step.rows);
  if (!answer_dropped(lane) || !answer_refused()) return kFenced;
  claimer_.own().running.store(running(), kRelaxed);
  progress_[s].gathered_ns = now_ns();
  for (u32 at : step.joined) requests_[at].gathered_ns = progress_[s].gathered_ns;
  if (!step.rows.runs.empty()) return i32(s);
  clock_.found_nothing(now_ns());
  return kNothing;
}

// A canary is answered whatever compiles, so that this process proves alive.
void DecodeStepper::claim(u32 lane, const BatchLimits& room, u64 timeout_ns) {
  if (idle() && !structures_.any([](const Waiting& each) { return each.suspect; })) suspect_ = false;
  const bool alone = idle() && !suspect_, full = quiet(lane) && !room.items;
  const ClaimMode mode = !quiet(lane) ? ClaimMode::kJoin : alone ? ClaimMode::kFree : ClaimMode::kLaneFree;
  // Where there is no room for a request, those that wait in the rings would end each sleep.
  if (!claimer_.next(claimed_, mode, room, full ? 0 : i64(timeout_ns)) && full && timeout_ns)
    claimer_.rest(i64(timeout_ns));
  suspect_ |= claimed_.suspect;
  if (claimed_.empty() && idle() && !structures_.settled()) claimer_.next_canary(claimed_);
}

// How many more requests may wait for their structures. The others stay in the rings, where other dispatchers can take
// them.
u32 DecodeStepper::uncompiled_left(const StructureQueue::Room& compiled) const {
  const u32 most = std::max(items_now(), kUncompiledMin);
  return most - std::min(most, structures_.others(compiled));
}

// A suspect has nothing beside it.
bool DecodeStepper::may_join(const Waiting& compiled) const { return compiled.suspect ? idle() : !suspect_; }

// Most prompt rows of the lane's next step. What it does not claim stays in the rings, where other lanes and
// dispatchers can take it: each counts on an equal share of it. While suspects wait, nothing joins what runs: then the
// first step has to take all that will run with it.
u32 DecodeStepper::prompt_rows(u32 lane) const {
  if (claimer_.suspects_wait()) return limits_.tokens;
  const u64 sharers = lanes_.open() * std::max(std::popcount(route_->dispatchers.load(kRelaxed)), 1);
  const u64 wanted = batches_[lane].running() + waiting_of(segment_, claimer_.route()).items() / sharers;
  return prompt_rows_.limit(u32(std::min<u64>(wanted, items_now())));
}

// Empty: what stands there is none.
std::optional<Script> DecodeStepper::script_of(const Claim& claim) const {
  const std::string_view bytes = segment_.attached(claim.door, claimer_.slot(claim), AttachmentKind::kScript);
  if (bytes.empty()) return Script();
  return read_script({reinterpret_cast<const u32*>(bytes.data()), bytes.size() / sizeof(u32)}, route_->vocab_size,
                     route_->max_output_tokens);
}

bool DecodeStepper::in_vocabulary(const Claim& claim) const {
  const u32* ids = segment_.ids(claimer_.slot(claim));
  return *std::max_element(ids, ids + prompt_of(claim)) < route_->vocab_size;
}

void DecodeStepper::read_controls() {
  ended_.clear();
  claimer_.read_controls(claimed_, [this](u32 door, u32 slot, u32 seq) {
    if (slot >= segment_.sizes().slots) return;
    const u32 place = place_of(door, slot);
    if (place == DecodeBatch::kNobody || requests_[place].claim.seq != seq) return drop_waiting(door, slot, seq);
    DecodeBatch& batch = batch_at(place);
    const u32 made = batch.made(place % max_running()), chosen = requests_[place].chosen(made);
    const u64 deadline = claimer_.slot(requests_[place].claim).deadline_ns;
    const bool expired = deadline && now_ns() >= deadline;
    if (chosen == made) {  // else rows of a script shared steps
      expired ? times_.learn_cut(made) : times_.learn_end(made);
      prompt_rows_.learn(requests_[place].claim.n_tokens, made);
    }
    batch.drop(place % max_running());
    end(place, made);
  });
}

// Each sequence more makes the steps of all longer. Who would be answered too late among those that run is refused, the
// last to come first: with all of them let in, none would be in time. One may always run, so that a wrong expectation
// is corrected.
void DecodeStepper::shed(u32 lane) {
  const u32 going = batches_[lane].going();
  const u64 start = std::max(claimed_.claimed_ns, clock_.until_ns(lane));
  bool doubted = false;
  for (size_t i = claimed_.claims.size(); i-- > 0 && going + i > 0;) {
    const Slot& slot = claimer_.slot(claimed_.claims[i]);
    const u32 running = going + u32(i) + 1;
    const u64 expected = times_.expected_ns(running, slot.sampling.max_tokens);
    // An eighth more: half of all generations take longer than expected, and those that join later make it longer.
    if (!slot.deadline_ns || start + expected + expected / 8 <= slot.deadline_ns) continue;
    if (!std::exchange(doubted, true)) times_.doubt(running);
    claimer_.drop(claimed_, i, StatusCode::kResourceExhausted);
  }
}

// The claimed requests become sequences. There is room for all of them, and their ids are in the vocabulary, unless a
// front door is broken.
void DecodeStepper::join(u32 s) {
  Step& step = steps_[s];
  step.joined.clear();
  progress_[s].canary = claimed_.canary;
  if (!claimed_.canary) join_compiled(s);
  for (const Claim& claim : claimed_.claims)
    if (!in_vocabulary(claim) || !admit(s, claim, claimed_.claimed_ns, 0))  // its ids would end the device's process
      claimed_.dropped.push_back({claim, StatusCode::kInternal});
}

// ticket: of a request with a structure. Returns false if there is no room.
bool DecodeStepper::admit(u32 s, const Claim& claim, u64 claimed_ns, u64 ticket) {
  const u32 lane = progress_[s].lane;
  const Slot& slot = claimer_.slot(claim);
  const u32* ids = segment_.ids(claimer_.slot(claim));
  std::optional<Script> script = script_of(claim);
  if (!script) return false;
  const Sampling sampling = checked(slot.sampling, *route_);
  const u32 kv = batches_[lane].admit(steps_[s].rows, ids, prompt_of(claim), sampling, slot.flags, ticket != 0,
                                      biases_of(claim), std::move(*script));
  if (kv == DecodeBatch::kNobody) return false;
  const u32 at = place(lane, kv);
  place_of(claim.door, claim.slot) = at;
  const u32 scored = scored_tokens(slot, prompt_of(claim));
  requests_[at] = {claim,
                   claimed_ns,
                   0,
                   0,
                   0,
                   ticket,
                   scored + sampling.max_tokens,
                   sampling.top_logprobs,
                   batches_[lane].given(kv)};
  steps_[s].joined.push_back(at);
  return true;
}

// They are another process's: the device looks at each id.
std::span<const TokenBias> DecodeStepper::biases_of(const Claim& claim) const {
  const std::string_view bytes = segment_.attached(claim.door, claimer_.slot(claim), AttachmentKind::kLogitBias);
  return {reinterpret_cast<const TokenBias*>(bytes.data()), bytes.size() / sizeof(TokenBias)};
}

// Of the claimed requests, those with a structure wait for it. Returns whether there are some.
bool DecodeStepper::set_aside() {
  return std::erase_if(claimed_.claims, [this](const Claim& claim) {
    const std::string_view structure = segment_.attached(claim.door, claimer_.slot(claim), AttachmentKind::kStructure);
    if (structure.empty() || !in_vocabulary(claim) || !script_of(claim)) return false;
    structures_.add(claim, claimed_.claimed_ns, claimed_.suspect);
    claimed_.n_tokens -= claim.n_tokens;
    return true;
  });
}

// What has no room in this step joins another one. Whoever has expired meanwhile needs none.
void DecodeStepper::join_compiled(u32 s) {
  structures_.take([this, s](const Waiting& each) {
    if (!each.compiled()) return false;
    const u64 deadline = claimer_.slot(each.claim).deadline_ns;
    if (deadline && now_ns() >= deadline)
      return claimed_.dropped.push_back({each.claim, StatusCode::kDeadlineExceeded}), true;
    return each.has_room && may_join(each) && admit(s, each.claim, each.claimed_ns, each.ticket);
  });
}

std::vector<DecodeStepper::Structured> DecodeStepper::take_structured() {
  std::vector<Structured> out;
  structures_.start([this, &out](u64 ticket, const Claim& claim) {
    out.push_back({ticket, segment_.attached(claim.door, claimer_.slot(claim), AttachmentKind::kStructure)});
  });
  return out;
}

bool DecodeStepper::fail(u64 ticket, StatusCode code, std::string_view message) {
  for (u32 at = 0; at < requests_.size(); at++) {
    const Request& request = requests_[at];
    if (request.ticket != ticket || place_of(request.claim.door, request.claim.slot) != at) continue;
    DecodeBatch& batch = batch_at(at);
    Slot& slot = claimer_.slot(request.claim);
    const u32 made = batch.made(at % max_running());
    const u64 now = now_ns();
    batch.drop(at % max_running());
    place_of(request.claim.door, request.claim.slot) = DecodeBatch::kNobody;
    write_refusal(segment_, code, message, 0, slot);
    stamp(slot, request, now, now);
    if (!claimer_.finish(request.claim)) return false;
    clock_.answered(1, request.claimed_ns, now, times_.steps_ns(batch.going() + 1, made));
    claimer_.publish();
    claimer_.own().running.store(running(), kRelaxed);
  }
  return true;
}

bool DecodeStepper::awaited(u64 ticket) const {
  if (structures_.holds(ticket)) return true;
  for (u32 lane = 0; lane < batches_.size(); lane++)
    for (const u32 kv : batches_[lane].waiting())
      if (requests_[place(lane, kv)].ticket == ticket) return true;
  return false;
}

std::vector<std::pair<u32, u64>> DecodeStepper::masked(u32 s) const {
  const DecodeStep& rows = steps_[s].rows;
  std::vector<std::pair<u32, u64>> out;
  for (const u32 run : rows.masked)
    out.emplace_back(run, requests_[place(progress_[s].lane, rows.runs[run].kv)].ticket);
  return out;
}

// Its front door does not want a request any more.
void DecodeStepper::drop_waiting(u32 door, u32 slot, u32 seq) {
  structures_.take([&](const Waiting& each) {
    const Claim& claim = each.claim;
    if (claim.door != door || claim.slot != slot || claim.seq != seq) return false;
    return claimed_.dropped.push_back({claim, StatusCode::kCancelled}), true;
  });
}

// Requests whose structure cannot be had go LAUNCHED all the same, so that there is one way back.
bool DecodeStepper::answer_refused() {
  if (!structures_.settled()) return true;
  bool alive = true;
  const u64 now = now_ns();
  const bool answered = structures_.take([&](const Waiting& each) {
    if (!each.refused()) return false;
    Slot& slot = claimer_.slot(each.claim);
    if (!alive || !claimer_.launch(each.claim)) return alive = false;
    write_refusal(segment_, each.code, each.refusal, 0, slot);
    stamp(slot, {each.claim, each.claimed_ns, now, now, 0}, now, now);
    return (alive = claimer_.finish(each.claim)), true;
  });
  if (answered) claimer_.publish();
  return alive;
}

// The sequence is over: its request leaves with the next publish().
void DecodeStepper::end(u32 place, u32 made) {
  const Claim& claim = requests_[place].claim;
  place_of(claim.door, claim.slot) = DecodeBatch::kNobody;
  ended_.push_back(requests_[place]);
  ended_.back().made = made;
}

// Requests without an answer: expired or cancelled before launch, which go LAUNCHED all the same so that there is one
// way back, and those that were ended while they ran.
bool DecodeStepper::answer_dropped(u32 lane) {
  if (claimed_.dropped.empty() && ended_.empty()) return true;
  const u64 now = now_ns();
  auto give_back = [&](const Request& request, StatusCode code) {
    Slot& slot = claimer_.slot(request.claim);
    slot.status = u16(code);
    slot.kind = Answer::kNone;
    stamp(slot, request, now, now);
    return claimer_.finish(request.claim);
  };
  for (const Request& request : ended_) {
    if (!give_back(request, StatusCode::kCancelled)) return false;
    // Their cache slots serve others: front doors count on that.
    clock_.answered(1, request.claimed_ns, now, times_.steps_ns(batches_[lane].going(), request.made));
  }
  for (const auto& [claim, code] : claimed_.dropped)
    if (!claimer_.launch(claim) || !give_back({claim, claimed_.claimed_ns, now, now, 0}, code)) return false;
  claimer_.publish();
  return true;
}

void DecodeStepper::stamp(Slot& slot, const Request& request, u64 finished_ns, u64 now) {
  slot.claimed_ns = request.claimed_ns;
  slot.gathered_ns = request.gathered_ns;
  slot.launched_ns = request.launched_ns;
  slot.finished_ns = finished_ns;
  slot.scattered_ns = now;
}

bool DecodeStepper::launch_requests(u32 s) {
  for (u32 at : steps_[s].joined)
    if (!claimer_.launch(requests_[at].claim)) return false;
  return true;
}

void DecodeStepper::note_launch(u32 s) {
  const Step& step = steps_[s];
  for (u32 at : step.joined) {
    Request& request = requests_[at];
    request.launched_ns = progress_[s].launched_ns;
    claimer_.slot(request.claim).batch_items = u32(step.rows.runs.size());
    stamp(claimer_.slot(request.claim), request, 0, 0);  // a front door may end it by itself, at a stop string
  }
}

bool DecodeStepper::scatter(u32 s) {
  const Step& step = steps_[s];
  const u32 lane = progress_[s].lane;
  const bool canary = progress_[s].canary;
  const u64 finished = ended_ns(s, now_ns());
  u32 tokens = 0;
  ended_.clear();
  batches_[lane].retire(step.rows, [&](u32 kv, u32 made, Token token) {
    const u32 at = place(lane, kv), chosen = requests_[at].chosen(made + 1);
    tokens += chosen > 0;
    if (std::isnan(token.logprob)) {
      if (token.finish == Finish::kNot) batches_[lane].drop(kv);
      not_finite(claimer_.slot(requests_[at].claim));
      return end(at, made + 1);
    }
    write(requests_[at], made, token);
    if (token.finish == Finish::kNot) return;
    if (!canary && chosen) {
      times_.learn_end(chosen);
      prompt_rows_.learn(requests_[at].claim.n_tokens, chosen);
    }
    end(at, made + 1);
  });
  const u64 now = now_ns();  // one stamp for all, before the first of their answers can be read
  for (const Request& request : ended_) {
    Slot& slot = claimer_.slot(request.claim);
    stamp(slot, request, finished, now);
    if (!canary) count(request, finished, now);
    if (!claimer_.finish(request.claim)) return false;
  }
  claimer_.publish();
  claimer_.own().running.store(running(), kRelaxed);
  const u64 took_ns = finish_step(s, now);
  if (canary) {
    for (const Request& request : ended_) clock_.answered_canary(request.claimed_ns, now);
    return true;
  }
  bump(claimer_.stats().generated_tokens, tokens);
  const u32 runs = u32(step.rows.runs.size());
  times_.learn_step(runs, took_ns);
  for (const Request& request : ended_)
    clock_.answered(1, request.claimed_ns, now, times_.steps_ns(runs, request.made));
  return true;
}

// Where the time of a request that has ended went.
void DecodeStepper::count(const Request& request, u64 finished_ns, u64 now) {
  Stats& stats = claimer_.stats();
  claimer_.record_wait(request.claim, request.claimed_ns);
  stats.stage[kGather].record(request.gathered_ns - request.claimed_ns);
  stats.stage[kLaunch].record(request.launched_ns - request.gathered_ns);
  stats.stage[kDevice].record(finished_ns - request.launched_ns);
  stats.stage[kScatter].record(now - finished_ns);
}

// Token number `made` of a request: into its slot, and the count behind it.
void DecodeStepper::write(const Request& request, u32 made, const Token& token) {
  Slot& slot = claimer_.slot(request.claim);
  TokenAnswer(segment_.answer_room(slot), request.max_tokens, request.top).write(made, token);
  if (token.finish != Finish::kNot) {
    slot.status = 0;
    slot.kind = Answer::kTokens;
    slot.n_values = made + 1;
    slot.finish = token.finish;
    return;
  }
  const bool asked = slot.flags & kProgress;
  // Who did not ask has its first one counted all the same: should this process die, it tells that the request ran.
  if (asked || !made) slot.n_made.store(made + 1, kRelease);  // pairs with the front door's load: the token is readable
  if (asked) claimer_.progress(request.claim);
}

}  // namespace fastqps
