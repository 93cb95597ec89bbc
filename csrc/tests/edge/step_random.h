// Random items and answers of StepService, for tests and fuzzing.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "edge/messages/step_message.h"
#include "tests/fuzz/fuzz.h"

namespace fastqps::test {

// Items, and what their views lie in.
struct RandomItems {
  std::deque<std::vector<u32>> ids;
  std::deque<std::string> names;
  std::deque<Sampling> generates;
  std::deque<SpanContext> spans;
  std::vector<StepItem> items;
};

inline Sampling random_sampling(fuzz::Random& random) {
  Sampling out;
  each_option(kSamplingOptions, [&](const auto& row) {
    auto& value = out.*row.member;
    if constexpr (std::is_same_v<typename std::decay_t<decltype(row)>::Value, IdList>)
      for (u64 n = random.below(IdList::kMax + 1); n; n--) value.add(u32(random.next()));
    else if constexpr (std::is_same_v<typename std::decay_t<decltype(row)>::Value, float>)
      value = float(random.below(30)) / 10;
    else if (random.one_in(2))
      value = std::decay_t<decltype(value)>(random.next());
  });
  return out;
}

// Each column is of defaults alone in some messages.
inline RandomItems random_items(fuzz::Random& random, u32 most = 12) {
  RandomItems out;
  const bool pairs = random.one_in(2), limited = random.one_in(2), optioned = random.one_in(2);
  const bool called = random.one_in(2), generates = random.one_in(2), traced = random.one_in(2),
             stated = random.one_in(2), attached = random.one_in(2);
  out.names = {"", "a tenant", "another", "Z\xc3\xbcrich", std::string(255, 'x')};
  for (u64 n = random.below(most + 1); n; n--) {
    std::vector<u32>& ids = out.ids.emplace_back(random.below(random.one_in(8) ? 300 : 9));
    for (u32& id : ids) id = u32(random.next());
    StepItem item{.number = 1 + u32(random.below(~u32(0))), .ids = ids, .first_len = u32(ids.size()), .options = {}};
    if (pairs) item.first_len = u32(random.below(ids.size() + 1));
    if (limited) item.timeout_us = u32(random.next());
    if (optioned) item.options = StepOptions::unpack(random.next());
    if (called) item.tenant = out.names[random.below(5)], item.group = out.names[random.below(5)];
    if (generates) item.generate = &out.generates.emplace_back(random_sampling(random));
    if (attached)
      for (std::string_view& part : item.attached)
        if (random.one_in(2)) part = out.names[random.below(5)];
    if (traced && random.one_in(3)) {
      item.span = &out.spans.emplace_back();
      for (u8& byte : out.spans.back().trace_id) byte = u8(random.next());
      for (u8& byte : out.spans.back().span_id) byte = u8(random.next());
      if (stated && random.one_in(2)) item.trace_state = out.names[random.below(5)];
    }
    out.items.push_back(item);
  }
  return out;
}

inline std::vector<u8> written(const StepRequestWriter& writer) {
  std::vector<u8> out(writer.size());
  CHECK(writer.write(out.data()) == out.data() + out.size());
  return out;
}

// An answer's parts, and what their views lie in.
struct RandomResponse {
  bool has_ready = false, has_load = false;
  StepReady ready;
  StepLoad load;
  std::deque<std::string> bytes;
  std::vector<StepRow> rows;
};

inline std::vector<u8> written(const RandomResponse& response) {
  size_t size = kChecksumBytes;
  if (response.has_ready) size += step_ready_size(response.ready);
  for (const StepRow& row : response.rows) size += step_row_size(row);
  if (response.has_load) size += step_load_size(response.load);
  std::vector<u8> out(size);
  u8* at = out.data();
  if (response.has_ready) at = write_step_ready(response.ready, at);
  for (const StepRow& row : response.rows) at = write_step_row(row, at);
  if (response.has_load) at = write_step_load(response.load, at);
  CHECK(seal_step_message(out.data(), at) == out.data() + out.size());
  return out;
}

inline RandomResponse random_response(fuzz::Random& random, u32 most = 6) {
  auto maybe = [&random] { return random.one_in(2) ? u32(random.next() >> random.below(64)) : 0; };
  RandomResponse out;
  for (u64 n = random.below(most + 1); n; n--) {
    const std::string& bytes = out.bytes.emplace_back(random.bytes(3000));
    StepRow row{.item = 1 + u32(random.below(~u32(0))), .status = maybe()};
    if (random.one_in(2)) row.message = "why it failed";
    row.retry_after_ms = maybe(), row.kind = maybe(), row.dtype = maybe(), row.n_values = maybe();
    row.finish = maybe(), row.batch_items = maybe(), row.queue_us = maybe(), row.device_us = maybe();
    std::span<const u8> rest{reinterpret_cast<const u8*>(bytes.data()), bytes.size()};
    for (auto& part : row.values) {
      part = rest.first(&part == &row.values.back() ? rest.size() : random.below(rest.size() + 1));
      rest = rest.subspan(part.size());
    }
    out.rows.push_back(row);
  }
  out.ready = {.protocol = 1 + u32(random.below(9)),
               .max_input_tokens = maybe(),
               .max_output_tokens = maybe(),
               .max_inflight = maybe(),
               .server = "0.1"};
  out.load = {.echo = random.next(),
              .utilization_thousandth = maybe(),
              .waiting = maybe(),
              .running = maybe(),
              .draining = random.one_in(2),
              .items_per_s = maybe()};
  out.has_ready = random.one_in(2);
  out.has_load = random.one_in(2);
  return out;
}

}  // namespace fastqps::test
