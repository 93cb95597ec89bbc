// How a flight ends: by a server's answer, its refusal, or none.
#include <algorithm>
#include <utility>

#include "core/claimer.h"
#include "edge/edge_dispatcher.h"
#include "edge/slot_item.h"

namespace fastqps::edge {

namespace {

constexpr u32 kStrikesAlone = 2, kStrikesMost = 4, kSendsMost = 8;
constexpr double kBudgetMost = 128, kBudgetPart = 0.1;  // of items that are answered
constexpr u32 kSampleEvery = 16;
constexpr const char* kInvalidAnswer = "the upstream servers' answers do not fit the model: the edge's log says how";

// A code that is none of gRPC's is no answer of this protocol.
StatusCode code_of(const StepRow& answer) {
  return answer.status < kStatusCodes ? StatusCode(answer.status) : StatusCode::kInternal;
}

// Whether the server has worked on the item. Its front door gives the other codes by itself.
bool is_answer(StatusCode code) {
  return code != StatusCode::kUnavailable && code != StatusCode::kResourceExhausted && code != StatusCode::kCancelled &&
         code != StatusCode::kDeadlineExceeded;
}

}  // namespace

void EdgeDispatcher::expect(u32 item) {
  const Flight* flight = flights_.find(item);
  if (!flight) return;
  Slot& slot = claimer_.slot(flight->claim);
  __builtin_prefetch(&slot, 1);
  __builtin_prefetch(&slot.status, 1);
  __builtin_prefetch(segment_.answer(slot), 1);
}

void EdgeDispatcher::answered(Link& link, const StepRow& answer) {
  Flight* flight = flights_.find(answer.item);
  if (!flight || flight->link != link.index()) return;  // of a link that is forgotten
  if (is_answer(code_of(answer))) upstreams_.heard(link);
  const bool last = answer.status || answer.finish || !generates(route_.task);
  if (last && !answer.status && !flight->orphan) link.window.answered(answer.queue_us, answer.device_us);
  if (flight->orphan) {
    if (last) return leave_link(*flight), flights_.close(answer.item);
    if (!flight->tokens) link.cancel(answer.item);  // the copy of a generation has shown what it is for
    flight->tokens += answer.n_values;
    return;
  }
  if (answer.status) return take_refusal(answer.item, link, answer);
  generates(route_.task) ? take_tokens(answer.item, link, answer) : take_row(answer.item, link, answer);
}

// Sends items that another server may take, as far as the budget goes.
void EdgeDispatcher::take_refusal(u32 number, Link& link, const StepRow& answer) {
  Flight& flight = flights_[number];
  const StatusCode code = code_of(answer);
  const bool elsewhere =
      code == StatusCode::kUnavailable || code == StatusCode::kResourceExhausted || code == StatusCode::kCancelled;
  leave_link(flight);
  if (elsewhere) {
    if (UpstreamRow* row = upstreams_.row(link)) bump(row->refused);
    upstreams_.refused(link, flight.sent_ns, answer.retry_after_ms, now_ns_);
    // One that is going away has refused for ever, and that costs nothing.
    const bool free = code != StatusCode::kResourceExhausted && flight.sends < kSendsMost;
    if (free || (budget_ >= 1 && flight.sends < 3)) {
      if (!free) budget_ -= 1;
      flight.avoid = link.upstream();
      return send_again(number);
    }
  }
  refuse(number, code, answer.message, answer.retry_after_ms);
}

void EdgeDispatcher::take_row(u32 number, Link& link, const StepRow& answer) {
  Flight& flight = flights_[number];
  Slot& slot = claimer_.slot(flight.claim);
  if (!row_fits(segment_, route_, answer, flight.claim.n_tokens, slot)) return take_invalid(number, link, answer);
  if (!launch(flight)) return;
  write_row(segment_, answer, slot);
  landed(number, link, answer);
}

// An answer that does not fit the model. If the server has answered other requests right, only this one fails: else a
// request that no server can answer would cost the edge all of them. If not, its next answers would be no better, so
// all that it has goes to others.
void EdgeDispatcher::take_invalid(u32 number, Link& link, const StepRow& answer) {
  if (upstreams_.of(link).proven)
    return fail(number, link, answer, "the upstream server's answer to this request does not fit the model");
  flights_[number].invalid_answer = true;
  const std::string form = std::to_string(answer.n_values) + " values of kind " + std::to_string(answer.kind) + " in " +
                           std::to_string(answer.values[0].size()) + " bytes";
  upstreams_.eject(link, "its answers do not fit the model (" + form + "): run the same fastqps there", now_ns_);
}

// Answers INTERNAL. The server may have more to say of the item.
void EdgeDispatcher::fail(u32 number, Link& link, const StepRow& answer, const char* why) {
  Flight& flight = flights_[number];
  if (answer.finish || !generates(route_.task)) {
    leave_link(flight);
  } else {
    link.cancel(number);
    flight.orphan = true;
  }
  refuse(number, StatusCode::kInternal, why);
}

void EdgeDispatcher::take_tokens(u32 number, Link& link, const StepRow& answer) {
  Flight& flight = flights_[number];
  Slot& slot = claimer_.slot(flight.claim);
  if (!launch(flight)) return;
  if (!flight.tokens) write_times(answer, flight.claimed_ns, flight.sent_ns, now_ns_, slot);
  const Written written = write_tokens(segment_, route_, answer, flight.tokens, slot);
  flight.tokens += answer.n_values;
  if (written == Written::kDone) {
    bump(claimer_.stats().generated_tokens, slot.n_values);
    return landed(number, link, answer);
  }
  if (written == Written::kBroken) return take_invalid(number, link, answer);
  if (written == Written::kPart) return upstreams_.prove(link), claimer_.progress(flight.claim);
  fail(number, link, answer, "the upstream server was lost, and another one made other tokens: the stream had begun");
}

// The answer is in the slot.
void EdgeDispatcher::landed(u32 number, Link& link, const StepRow& answer) {
  Flight& flight = flights_[number];
  Slot& slot = claimer_.slot(flight.claim);
  write_times(answer, flight.claimed_ns, flight.sent_ns, now_ns_, slot);
  if (++sampled_ % kSampleEvery == 0) {
    table_.queue.record(u64(answer.queue_us) * 1000, kSampleEvery);
    table_.device.record(u64(answer.device_us) * 1000, kSampleEvery);
    table_.wire.record(u64(slot.upstream_us) * 1000, kSampleEvery);
    claimer_.stats().stage[kDevice].record(now_ns_ - std::min(now_ns_, flight.sent_ns), kSampleEvery);
  }
  link.took(answer.device_us, answer.batch_items);
  const u32 made = generates(route_.task) ? std::max(flight.tokens, 1u) : 1;
  upstreams_.took(link, now_ns_ - std::min(now_ns_, flight.sent_ns), made);
  if (UpstreamRow* row = upstreams_.row(link)) bump(row->answered);
  upstreams_.prove(link);
  budget_ = std::min(kBudgetMost, budget_ + kBudgetPart);
  count(flight.claimed_ns, now_ns_);
  leave_link(flight);
  if (!launch(flight) || !claimer_.finish(flight.claim)) fenced_ = true;
  flights_.close(number);
}

// Answers an item that no link has, or whose link will still name it (an orphan).
void EdgeDispatcher::refuse(u32 number, StatusCode code, std::string_view message, u32 retry_after_ms) {
  Flight& flight = flights_[number];
  Slot& slot = claimer_.slot(flight.claim);
  if (!launch(flight)) return;
  write_refusal(segment_, code, message, retry_after_ms, slot);
  slot.claimed_ns = slot.gathered_ns = slot.launched_ns = flight.claimed_ns;
  slot.finished_ns = slot.scattered_ns = now_ns_;
  if (!claimer_.finish(flight.claim)) fenced_ = true;
  bump(claimer_.own().steps_done);
  if (!flight.orphan) flights_.close(number);
}

// No server is left for an item that no link has.
void EdgeDispatcher::reject(u32 number) {
  constexpr u32 kRetryMs = 500;
  bump(table_.unroutable);
  if (flights_[number].invalid_answer) return refuse(number, StatusCode::kInternal, kInvalidAnswer);
  refuse(number, StatusCode::kUnavailable, "no upstream server can be used", kRetryMs);
}

bool EdgeDispatcher::launch(Flight& flight) {
  if (!std::exchange(flight.launched, true) && !claimer_.launch(flight.claim)) fenced_ = true;
  return !fenced_;
}

void EdgeDispatcher::leave_link(Flight& flight) {
  if (Link* link = upstreams_.link(std::exchange(flight.link, kNoLink)); link && link->in_flight) link->in_flight--;
}

void EdgeDispatcher::send_again(u32 number) {
  Flight& flight = flights_[number];
  bump(table_.resent);
  (flight.strikes >= kStrikesAlone ? suspects_ : waiting_).push_back(number);
}

void EdgeDispatcher::lose(u32 number, bool broke) {
  Flight& flight = flights_[number];
  flight.link = kNoLink;
  if (flight.orphan) return flights_.close(number);
  flight.strikes = u8(flight.strikes + broke);
  if (flight.sends >= kSendsMost && flight.invalid_answer) return refuse(number, StatusCode::kInternal, kInvalidAnswer);
  if (flight.sends >= kSendsMost)
    return refuse(number, StatusCode::kUnavailable, "no upstream server keeps a connection long enough to answer");
  if (flight.strikes >= kStrikesMost) {
    bump(claimer_.stats().poisoned);
    return refuse(number, StatusCode::kInternal, "the request broke the upstream servers that had it");
  }
  send_again(number);
}

// Counts for front doors how many items come back, and how long that takes.
void EdgeDispatcher::count(u64 claimed_ns, u64 now_ns) {
  DispatcherLine& own = claimer_.own();
  bump(own.items_done);
  bump(own.steps_done);
  const u64 usual = own.step_usual_ns.load(kRelaxed), took = now_ns - std::min(now_ns, claimed_ns);
  own.step_usual_ns.store(usual ? usual - usual / 64 + took / 64 : took, kRelaxed);
}

}  // namespace fastqps::edge
