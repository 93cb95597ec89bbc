// What a run, or one thread's part of it, adds up to. The fields are those of Result in loadgen/_native.pyi.
#pragma once
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "record/histogram.h"
#include "record/outcome.h"

namespace loadgen {

struct Sample {
  u32 payload = 0;
  std::string answer;
};

// One measured call of an open loop. Instants count from the start of the run.
struct CallRecord {
  i64 intended_ns = 0, end_ns = 0;
  u32 payload = 0;
  Outcome outcome = kOk;
};

using SparseCounts = std::vector<std::pair<u32, u64>>;  // (index, count), ascending

inline void add(OutcomeCounts& to, const OutcomeCounts& from) {
  for (size_t i = 0; i < to.size(); i++) to[i] += from[i];
}
template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
  from.clear();
}
inline void add(SparseCounts& to, const SparseCounts& from) {
  SparseCounts both;
  both.reserve(to.size() + from.size());
  auto a = to.begin();
  for (auto b = from.begin(); a != to.end() || b != from.end();) {
    if (b == from.end() || (a != to.end() && a->first < b->first))
      both.push_back(*a++);
    else if (a == to.end() || b->first < a->first)
      both.push_back(*b++);
    else
      both.emplace_back(a->first, a->second + b++->second), ++a;
  }
  to = std::move(both);
}

constexpr u64 kSampleBytesMax = 64 << 20;  // over all threads

struct Tally {
  OutcomeCounts outcomes_all{}, outcomes{};
  u64 due_all = 0, due = 0, sent = 0, sent_in_window = 0, ok_in_window = 0;
  Histogram response, service, response_failed, lateness, own_lateness, first_message, message_gap;
  u64 messages = 0, empty_answers = 0, waiting_max = 0, in_flight_max = 0;
  u64 checked = 0, wrong = 0;
  std::vector<Sample> samples;
  std::vector<CallRecord> calls;  // in the order of their ends

  void merge(Tally& other);  // takes the samples and calls of the other
};

// Their names in results.
inline constexpr std::pair<const char*, u64 Tally::*> kTallyCounts[] = {
    {"due_all", &Tally::due_all},
    {"due", &Tally::due},
    {"sent", &Tally::sent},
    {"sent_in_window", &Tally::sent_in_window},
    {"ok_in_window", &Tally::ok_in_window},
    {"messages", &Tally::messages},
    {"empty_answers", &Tally::empty_answers},
    {"waiting_max", &Tally::waiting_max},
    {"in_flight_max", &Tally::in_flight_max},
    {"checked", &Tally::checked},
    {"wrong", &Tally::wrong},
};
inline constexpr std::pair<const char*, Histogram Tally::*> kTallyTimes[] = {
    {"response", &Tally::response},
    {"service", &Tally::service},
    {"response_failed", &Tally::response_failed},
    {"lateness", &Tally::lateness},
    {"own_lateness", &Tally::own_lateness},
    {"first_message", &Tally::first_message},
    {"message_gap", &Tally::message_gap},
};

inline void Tally::merge(Tally& other) {
  add(outcomes_all, other.outcomes_all);
  add(outcomes, other.outcomes);
  for (const auto& [name, count] : kTallyCounts) this->*count += other.*count;
  for (const auto& [name, time] : kTallyTimes) (this->*time).merge(other.*time);
  append(samples, other.samples);
  append(calls, other.calls);
}

// One interval of the timeline; the response times are those entries of the histogram that are not zero.
struct Interval {
  u64 index = 0;
  i64 end_ns = 0;
  u64 due = 0, sent = 0, in_flight = 0, waiting = 0;
  i64 own_lateness_max = 0;
  SparseCounts outcomes, response;  // by outcome; by the index in the layout

  void merge(const Interval& other) {
    end_ns = std::max(end_ns, other.end_ns);
    due += other.due;
    sent += other.sent;
    in_flight += other.in_flight;
    waiting += other.waiting;
    own_lateness_max = std::max(own_lateness_max, other.own_lateness_max);
    add(outcomes, other.outcomes);
    add(response, other.response);
  }
};

}  // namespace loadgen
