// What a run, or one thread's part of it, adds up to.
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

// Their names in results, and what they are.
template <class T>
struct TallyRow {
  const char* name;
  T Tally::*member;
  const char* about;
};
inline constexpr TallyRow<u64> kTallyCounts[] = {
    {"due_all", &Tally::due_all, "Arrivals that became due, warm-up included."},
    {"due", &Tally::due, "Measured arrivals."},
    {"sent", &Tally::sent, "Measured arrivals that were written to a socket, whenever that was."},
    {"sent_in_window", &Tally::sent_in_window,
     "Calls written within the measured window: over its length, the achieved rate of sends."},
    {"ok_in_window", &Tally::ok_in_window,
     "Calls that ended OK within the measured window: over its length, the rate of good answers."},
    {"messages", &Tally::messages, "Messages in answers to measured calls that ended OK."},
    {"empty_answers", &Tally::empty_answers, "Measured calls that ended OK with a message of no bytes, or with none."},
    {"waiting_max", &Tally::waiting_max,
     "Most arrivals that were due and not sent at one time, over all threads' own maxima, added up."},
    {"in_flight_max", &Tally::in_flight_max, "The same for calls that were sent and not ended."},
    {"checked", &Tally::checked, "Answers compared with `expected`."},
    {"wrong", &Tally::wrong, "Those of `checked` that differed."},
};
inline constexpr TallyRow<Histogram> kTallyTimes[] = {
    {"response", &Tally::response,
     "Measured calls that ended OK: from the intended time to the end of the answer (its trailers). "
     "Closed loop: from the moment at which the call was made. response = lateness + service for each call."},
    {"service", &Tally::service,
     "The same calls from the moment at which the last byte of the request was handed to the socket."},
    {"response_failed", &Tally::response_failed,
     "Measured calls that did not end OK, from the intended time to the end or the giving up; not those never sent."},
    {"lateness", &Tally::lateness,
     "Measured calls that were sent: from the intended time to the socket write, whatever the reason."},
    {"own_lateness", &Tally::own_lateness,
     "The part of it that the generator itself caused: its thread woke late, or was busy. For the other part the "
     "server "
     "held the call up: no stream was free, no window of flow control, a full socket, or a connection being made. That "
     "is so as long as the thread, having done all that there was to do, had nothing to do but wait; from then on the "
     "time is its own again."},
    {"first_message", &Tally::first_message,
     "server-stream, measured calls that ended OK: from the intended time to the first whole message. Else empty."},
    {"message_gap", &Tally::message_gap, "server-stream, same calls: between one message and the next."},
};

inline void Tally::merge(Tally& other) {
  add(outcomes_all, other.outcomes_all);
  add(outcomes, other.outcomes);
  for (const auto& row : kTallyCounts) this->*row.member += other.*row.member;
  for (const auto& row : kTallyTimes) (this->*row.member).merge(other.*row.member);
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
