// Random items and answers of StepService, for tests and fuzzing.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "wire/step_message.h"

namespace fastqps::test {

using namespace front;

// Items, and what their views lie in.
struct RandomItems {
  std::deque<std::vector<u32>> ids;
  std::deque<std::string> names;
  std::deque<StepGenerate> generates;
  std::vector<StepItem> items;
};

inline StepGenerate random_generate(fuzz::Random& random) {
  auto maybe = [&random] { return random.one_in(2) ? u32(random.next()) : 0; };
  StepGenerate g{.seed = random.one_in(2) ? random.next() : 0,
                 .temperature = float(random.below(30)) / 10,
                 .top_p = float(random.below(11)) / 10,
                 .repetition_penalty = float(random.below(30)) / 10,
                 .max_tokens = maybe(),
                 .top_k = maybe(),
                 .no_repeat_ngram_size = maybe(),
                 .min_tokens = maybe(),
                 .min_length = maybe()};
  g.n_stop_ids = u32(random.below(StepGenerate::kIdsMax + 1));
  g.n_suppress_ids = u32(random.below(StepGenerate::kIdsMax + 1));
  for (u32 i = 0; i < g.n_stop_ids; i++) g.stop_ids[i] = u32(random.next());
  for (u32 i = 0; i < g.n_suppress_ids; i++) g.suppress_ids[i] = u32(random.next());
  return g;
}

// Each column is of defaults alone in some messages.
inline RandomItems random_items(fuzz::Random& random, u32 most = 12) {
  RandomItems out;
  const bool pairs = random.one_in(2), limited = random.one_in(2), optioned = random.one_in(2);
  const bool called = random.one_in(2), generates = random.one_in(2);
  out.names = {"", "a tenant", "another", "Z\xc3\xbcrich", std::string(255, 'x')};
  for (u64 n = random.below(most + 1); n; n--) {
    std::vector<u32>& ids = out.ids.emplace_back(random.below(random.one_in(8) ? 300 : 9));
    for (u32& id : ids) id = u32(random.next());
    StepItem item{.number = 1 + u32(random.below(~u32(0))), .ids = ids, .first_len = u32(ids.size()), .options = {}};
    if (pairs) item.first_len = u32(random.below(ids.size() + 1));
    if (limited) item.timeout_us = u32(random.next());
    if (optioned) item.options = StepOptions::unpack(random.next());
    if (called) item.tenant = out.names[random.below(5)], item.group = out.names[random.below(5)];
    if (generates) item.generate = &out.generates.emplace_back(random_generate(random));
    out.items.push_back(item);
  }
  return out;
}

inline std::vector<u8> written(const StepRequestWriter& writer) {
  std::vector<u8> out(writer.size());
  CHECK(writer.write(out.data()) == out.data() + out.size());
  return out;
}

inline std::vector<u8> written(const StepResponse& response) {
  std::vector<u8> out(step_response_size(response));
  CHECK(write_step_response(response, out.data()) == out.data() + out.size());
  return out;
}

inline StepResponse random_response(fuzz::Random& random, std::string& bytes, StepReady& ready, StepLoad& load) {
  auto maybe = [&random] { return random.one_in(2) ? u32(random.next() >> random.below(64)) : 0; };
  bytes = random.bytes(3000);
  StepResponse r{.item = maybe(), .status = maybe()};
  if (random.one_in(2)) r.message = "why it failed";
  r.retry_after_ms = maybe(), r.kind = maybe(), r.dtype = maybe(), r.n_values = maybe(), r.finish = maybe();
  r.batch_items = maybe(), r.queue_us = maybe(), r.device_us = maybe();
  const size_t half = random.below(bytes.size() + 1);
  const u8* data = reinterpret_cast<const u8*>(bytes.data());
  r.values = {data, half}, r.more_values = {data + half, bytes.size() - half};
  ready = {.protocol = maybe(),
           .max_input_tokens = maybe(),
           .max_output_tokens = maybe(),
           .max_inflight = maybe(),
           .server = "0.1"};
  load = {.echo = random.next(),
          .utilization_thousandth = maybe(),
          .waiting = maybe(),
          .running = maybe(),
          .draining = random.one_in(2)};
  if (random.one_in(2)) r.ready = &ready;
  if (random.one_in(2)) r.load = &load;
  return r;
}

}  // namespace fastqps::test
