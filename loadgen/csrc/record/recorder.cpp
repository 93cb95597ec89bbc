#include "record/recorder.h"

namespace loadgen {
namespace {

constexpr size_t kIntervalsKept = 600;
constexpr i64 kAtOnce = kMillisecond;

// True for about one number in `every`, without a pattern that payloads sent in turn could fall in step with.
bool one_in(u64 every, u64 number) {
  u64 mixed = number * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93;
  return (mixed >> 32) % every == 0;
}

// Entries that are not zero; they become zero.
template <class Counts>
SparseCounts take(Counts& counts) {
  SparseCounts found;
  for (size_t i = 0; i < counts.size(); i++) {
    if (!counts[i]) continue;
    found.emplace_back(u32(i), counts[i]);
    counts[i] = 0;
  }
  return found;
}

}  // namespace

Recorder::Recorder(const Options& options)
    : options_(options),
      samples_max_((options.samples_max + options.threads - 1) / options.threads),
      sample_bytes_max_(kSampleBytesMax / options.threads),
      responses_(kHistogramLength) {}

void Recorder::begin(const Load& load, i64 start_ns) {
  closed_ = load.closed;
  start_ns_ = start_ns;
  from_ns_ = start_ns + load.measure_from;
  until_ns_ = start_ns + load.measure_until;
  interval_end_ns_ = start_ns + options_.interval_ns;
  if (options_.record_calls) tally.calls.reserve(load.times.size() / options_.threads + 1);
}

void Recorder::started(Call& call, i64 now) {
  starts_++;
  if (!in_window(closed_ ? now : call.intended_ns)) return;
  call.kept = samples_ < samples_max_ && one_in(options_.sample_every, starts_) && sample_bytes_ < sample_bytes_max_;
  samples_ += call.kept;
  call.checked = !options_.expected.empty();
}

void Recorder::written(Call& call, i64 now, i64 idle_ns) {
  call.written_ns = now;
  // While the thread had nothing to do and this was not written, the server held it up.
  call.own_lateness_ns += std::max<i64>(now - std::max(call.submitted_ns, idle_ns), 0);
  current_.sent++;
  current_.own_lateness_max = std::max(current_.own_lateness_max, call.own_lateness_ns);
  // The last call of a trace is due as its window ends: what goes out at once is in time.
  tally.sent_in_window += in_window(now) || (now - until_ns_ < kAtOnce && in_window(call.intended_ns));
}

void Recorder::count(Outcome outcome) {
  tally.outcomes_all[outcome]++;
  interval_outcomes_[outcome]++;
}

bool Recorder::ended(Call& call, Outcome outcome, i64 now) {
  count(outcome);
  if (outcome == kOk) {
    tally.ok_in_window += in_window(now);
    responses_[histogram_index(now - call.intended_ns)]++;
  }
  const bool counts = in_window(closed_ ? now : call.intended_ns);
  if (counts) measured(call, outcome, now);
  if (call.kept || call.checked) keep(call, outcome);
  return counts;
}

void Recorder::measured(Call& call, Outcome outcome, i64 now) {
  tally.due++;
  tally.outcomes[outcome]++;
  log(call.intended_ns, call.payload, outcome, now);
  if (call.written_ns) {
    tally.sent++;
    tally.lateness.record(call.written_ns - call.intended_ns);
    tally.own_lateness.record(call.own_lateness_ns);
  }
  if (outcome != kOk) return tally.response_failed.record(now - call.intended_ns);
  tally.response.record(now - call.intended_ns);
  tally.service.record(now - (call.written_ns ? call.written_ns : now));
  tally.messages += call.messages;
  tally.empty_answers += call.empty_answer;
  if (options_.call == CallKind::kServerStream && call.first_message_ns)
    tally.first_message.record(call.first_message_ns - call.intended_ns);
}

void Recorder::keep(Call& call, Outcome outcome) {
  if (call.checked && outcome == kOk) {
    tally.checked++;
    tally.wrong += call.answer != options_.expected[call.payload];
  }
  if (!call.kept) return;
  if (outcome == kOk && sample_bytes_ + call.answer.size() <= sample_bytes_max_) {
    sample_bytes_ += call.answer.size();
    tally.samples.push_back({call.payload, std::move(call.answer)});
  } else {
    samples_--;
  }
}

// A closed loop is not recorded: it has no bound on its calls.
void Recorder::log(i64 intended_ns, u32 payload, Outcome outcome, i64 now) {
  if (options_.record_calls && !closed_)
    tally.calls.push_back({intended_ns - start_ns_, now - start_ns_, payload, outcome});
}

void Recorder::unsent(const Arrival& arrival, Outcome outcome, i64 now) {
  count(outcome);
  if (!in_window(arrival.intended_ns)) return;
  tally.due++;
  tally.outcomes[outcome]++;
  log(arrival.intended_ns, arrival.payload, outcome, now);
}

void Recorder::message(const Call& call, i64 now) {
  if (call.last_message_ns && in_window(closed_ ? now : call.intended_ns))
    tally.message_gap.record(now - call.last_message_ns);
}

void Recorder::close_interval(i64 now, u64 due_so_far, u64 in_flight, u64 waiting) {
  const i64 end = std::min(now, interval_end_ns_);
  current_.end_ns = end - start_ns_;
  current_.due = due_so_far - due_before_;
  current_.in_flight = in_flight;
  current_.waiting = waiting;
  current_.outcomes = take(interval_outcomes_);
  current_.response = take(responses_);
  due_before_ = due_so_far;
  const u64 index = current_.index;
  {
    std::lock_guard lock(mutex);
    if (finished.size() == kIntervalsKept) finished.pop_front();
    finished.push_back(std::move(current_));
  }
  current_ = {};
  current_.index = index + 1;
  interval_end_ns_ += options_.interval_ns;
}

}  // namespace loadgen
