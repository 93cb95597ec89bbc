// What a run, or one thread's part of it, adds up to. The fields are those of Result in loadgen/_native.pyi.
#pragma once
#include <string>
#include <vector>

#include "record/histogram.h"
#include "record/outcome.h"

namespace loadgen {

struct Sample {
  u32 payload = 0;
  u64 request_id = 0;
  std::string answer;
};

// One measured call of an open loop. Instants count from the start of the run.
struct CallRecord {
  i64 intended_ns = 0, end_ns = 0;
  u32 payload = 0;
  Outcome outcome = kOk;
};

constexpr u64 kSampleBytesMax = 64 << 20;  // over all threads

struct Tally {
  OutcomeCounts outcomes_all{}, outcomes{}, stream_outcomes{};
  u64 due_all = 0, due = 0, sent = 0, sent_in_window = 0, ok_in_window = 0;
  Histogram response, service, response_failed, lateness, own_lateness, first_message, message_gap;
  u64 messages = 0, empty_answers = 0, waiting_max = 0, in_flight_max = 0;
  u64 wrong_ids = 0, late_answers = 0, checked = 0, wrong = 0;
  std::vector<Sample> samples;
  std::vector<CallRecord> calls;  // in the order of their ends

  void merge(Tally& other);  // takes the samples and calls of the other
};

// One interval of the timeline; the response times are those entries of the histogram that are not zero.
struct Interval {
  u64 index = 0;
  i64 end_ns = 0;
  u64 due = 0, sent = 0, in_flight = 0, waiting = 0;
  i64 own_lateness_max = 0;
  std::vector<std::pair<u32, u64>> outcomes;
  std::vector<std::pair<u32, u64>> response;  // (index in the layout, count), ascending

  void merge(const Interval& other);
};

}  // namespace loadgen
