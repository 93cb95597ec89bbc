#include "record/tally.h"

#include <iterator>

namespace loadgen {
namespace {

void add(OutcomeCounts& to, const OutcomeCounts& from) {
  for (size_t i = 0; i < to.size(); i++) to[i] += from[i];
}
template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
  from.clear();
}
// Adds sparse counts up; both are sorted by index.
void add(std::vector<std::pair<u32, u64>>& to, const std::vector<std::pair<u32, u64>>& from) {
  std::vector<std::pair<u32, u64>> both;
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

}  // namespace

void Tally::merge(Tally& other) {
  add(outcomes_all, other.outcomes_all);
  add(outcomes, other.outcomes);
  add(stream_outcomes, other.stream_outcomes);
  for (u64 Tally::*field : {&Tally::due_all, &Tally::due, &Tally::sent, &Tally::sent_in_window, &Tally::ok_in_window,
                            &Tally::messages, &Tally::empty_answers, &Tally::waiting_max, &Tally::in_flight_max,
                            &Tally::wrong_ids, &Tally::late_answers, &Tally::checked, &Tally::wrong})
    this->*field += other.*field;
  for (Histogram Tally::*field : {&Tally::response, &Tally::service, &Tally::response_failed, &Tally::lateness,
                                  &Tally::own_lateness, &Tally::first_message, &Tally::message_gap})
    (this->*field).merge(other.*field);
  append(samples, other.samples);
  append(calls, other.calls);
}

void Interval::merge(const Interval& other) {
  end_ns = std::max(end_ns, other.end_ns);
  due += other.due;
  sent += other.sent;
  in_flight += other.in_flight;
  waiting += other.waiting;
  own_lateness_max = std::max(own_lateness_max, other.own_lateness_max);
  add(outcomes, other.outcomes);
  add(response, other.response);
}

}  // namespace loadgen
