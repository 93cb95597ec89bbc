// A door that serves a generator, and a dispatcher that makes tokens as the test says: all in the test's own thread.
#pragma once
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/wire.h"
#include "core/claimer.h"
#include "core/supervise.h"
#include "service/predict_service.h"
#include "tests/check.h"
#include "tests/made_segment.h"
#include "tests/transport/http2_client.h"

namespace fastqps::test {

inline constexpr u32 kVocab = 300, kMaxInput = 32, kMaxOutput = 24, kGeneratorRoute = 0, kEncoderRoute = kGenerations;
// Tokens: below 128 the character itself, and these.
enum Token : u32 { kHalf = 200, kOtherHalf = 201, kEos = 202, kHello = 203 };

inline std::shared_ptr<const text::Detokenizer> test_detokenizer() {
  std::vector<std::pair<u32, std::string>> tokens;
  for (u32 id = 0; id < 128; id++) tokens.emplace_back(id, std::string(1, char(id)));
  tokens.emplace_back(kHalf, "\xe2\x82");
  tokens.emplace_back(kOtherHalf, "\xac");
  tokens.emplace_back(kEos, "</s>");  // has text, so that it is the door that must leave it out
  tokens.emplace_back(kHello, "hello ");
  return std::make_shared<text::Detokenizer>(tokens);
}

// ---- messages

struct Ask {
  std::string text = {};
  std::vector<u32> ids = {};
  bool pair = false, truncate = false;
  std::string model = {};
  u64 request_id = 0, timeout_us = 0, seed = 0;
  u32 max_tokens = 0, top_k = 0, top_logprobs = 0;
  float temperature = 0, top_p = 0;
  bool ignore_eos = false, logprobs = false, timings = false, raw_scores = false, normalize = false;
  u32 dtype = 0, dimensions = 0, top_labels = 0;
  std::vector<std::string> stop = {};
  std::vector<u32> stop_ids = {};
  std::optional<float> repetition_penalty = {};
  std::optional<u32> no_repeat_ngram_size = {}, min_tokens = {};
  std::vector<u32> suppress_ids = {};
  u32 n = 0, best_of = 0;
  std::optional<u32> prompt_logprobs = {};
  bool no_tokens = false;  // max_tokens 0 is written
  std::string regex = {};  // of the text

  std::string bytes() const {
    u8 buffer[65536];
    WireWriter out(buffer);
    out.string(1, model);
    if (!text.empty()) out.string(2, text);
    if (!ids.empty()) {
      u8 inner[4096];
      WireWriter list(inner);
      for (const u32 id : ids) list.varint(id);
      const size_t n = size_t(list.end() - inner);
      out.head(3, delimited_size(n));
      out.bytes(1, inner, n);
    }
    out.scalar(4, request_id);
    u8 inner[32768];
    WireWriter generate(inner);
    generate.scalar(1, max_tokens);
    if (no_tokens) generate.varint(varint_tag(1)), generate.varint(0);
    generate.float32(2, temperature);
    generate.scalar(3, top_k);
    generate.float32(4, top_p);
    generate.scalar(5, seed);
    for (const std::string& s : stop) generate.head(6, s.size()), generate = append(generate, s);
    generate.scalar(7, ignore_eos);
    generate.scalar(8, logprobs);
    for (const u32 id : stop_ids) generate.scalar(9, id);
    if (repetition_penalty) generate.float32(10, *repetition_penalty);
    // 0 is a value of its own: it is written.
    if (no_repeat_ngram_size) generate.varint(varint_tag(11)), generate.varint(*no_repeat_ngram_size);
    if (min_tokens) generate.varint(varint_tag(12)), generate.varint(*min_tokens);
    for (const u32 id : suppress_ids) generate.varint(varint_tag(13)), generate.varint(id);
    if (n) generate.varint(varint_tag(20)), generate.varint(n);
    if (best_of) generate.varint(varint_tag(21)), generate.varint(best_of);
    if (top_logprobs) generate.varint(varint_tag(22)), generate.varint(top_logprobs);
    if (prompt_logprobs) generate.varint(varint_tag(23)), generate.varint(*prompt_logprobs);
    if (!regex.empty()) {
      generate.varint(varint_tag(28)), generate.varint(3), generate.head(29, regex.size());
      generate = append(generate, regex);
    }
    out.bytes(6, inner, size_t(generate.end() - inner));
    u8 options[64];
    WireWriter output(options);
    output.scalar(1, dtype);
    output.scalar(2, dimensions);
    output.scalar(3, normalize);
    output.scalar(4, top_labels);
    output.scalar(5, raw_scores);
    output.scalar(6, timings);
    out.bytes(7, options, size_t(output.end() - options));
    out.scalar(8, timeout_us);
    out.scalar(9, truncate);
    if (pair) out.head(10, 0);
    return {reinterpret_cast<char*>(buffer), size_t(out.end() - buffer)};
  }

 private:
  static WireWriter append(WireWriter out, const std::string& s) {
    std::memcpy(out.end(), s.data(), s.size());
    return WireWriter(out.end() + s.size());
  }
};

// A PredictBatchRequest of items that are all alike.
inline std::string batch_of(u32 items, const Ask& ask) {
  const std::string item = ask.bytes();
  u8 head[16];
  WireWriter out(head);
  out.head(1, item.size());
  const std::string one = std::string(reinterpret_cast<char*>(head), size_t(out.end() - head)) + item;
  std::string body;
  for (u32 i = 0; i < items; i++) body += one;
  return body;
}

// A GenerateChunk, or the Generation of a PredictResponse.
struct Chunk {
  u64 request_id = 0;
  std::string text;
  std::vector<u32> ids;
  std::vector<float> logprobs;
  std::vector<u32> top_ids;
  std::vector<float> top_logprobs;
  std::vector<Chunk> prompt = {};  // none, or one: its ids, logprobs and likeliest tokens
  u64 finish = 0;
  bool has_usage = false, has_timings = false;
  u64 input_tokens = 0, output_tokens = 0;
  i32 code = 0;  // of an item's status
  u64 choice = 0;
  std::vector<std::string> others;  // texts of the other choices
};

inline void read_usage(std::string_view bytes, Chunk& chunk) {
  chunk.has_usage = true;
  for (WireReader in(bytes); !in.done();) {
    u32 tag;
    u64 value;
    CHECK(in.tag(&tag) && in.varint(&value));
    if (tag == varint_tag(1)) chunk.input_tokens = value;
    if (tag == varint_tag(2)) chunk.output_tokens = value;
  }
}

inline void read_floats(std::string_view part, std::vector<float>& out) {
  out.resize(part.size() / sizeof(float));
  if (!part.empty()) std::memcpy(out.data(), part.data(), part.size());
}

inline void read_top(std::string_view bytes, Chunk& chunk) {
  for (WireReader in(bytes); !in.done();) {
    u32 tag;
    u64 value;
    std::string_view part;
    CHECK(in.tag(&tag) && in.bytes(&part));
    if (tag >> 3 == 2) read_floats(part, chunk.top_logprobs);
    if (tag >> 3 == 1)
      for (WireReader list(part); !list.done(); chunk.top_ids.push_back(u32(value))) CHECK(list.varint(&value));
  }
}

inline void read_prompt(std::string_view bytes, Chunk& chunk) {
  for (WireReader in(bytes); !in.done();) {
    u32 tag;
    u64 value;
    std::string_view part;
    CHECK(in.tag(&tag) && in.bytes(&part));
    if (tag >> 3 == 1)
      for (WireReader list(part); !list.done(); chunk.ids.push_back(u32(value))) CHECK(list.varint(&value));
    if (tag >> 3 == 2) read_floats(part, chunk.logprobs);
    if (tag >> 3 == 3) read_top(part, chunk);
  }
}

// first: the number of the field `text`.
inline Chunk read_chunk(std::string_view bytes, u32 first = 2) {
  Chunk chunk;
  for (WireReader in(bytes); !in.done();) {
    u32 tag;
    u64 value = 0;
    std::string_view part;
    CHECK(in.tag(&tag));
    CHECK((tag & 7) == 0 ? in.varint(&value) : in.bytes(&part));
    const u32 field = tag >> 3;
    if (first == 2 && field == 1) chunk.request_id = value;
    if (field == first) chunk.text = part;
    if (field == first + 1)
      for (WireReader list(part); !list.done(); chunk.ids.push_back(u32(value))) CHECK(list.varint(&value));
    if (field == first + 2) chunk.finish = value;
    if (field == 5) read_floats(part, chunk.logprobs);
    if (field == 8) read_top(part, chunk);
    if (field == 9) read_prompt(part, chunk.prompt.emplace_back());
    if (first == 1 && field == 11) chunk.others.push_back(read_chunk(part, 1).text);
    if (first == 2 && field == 12) chunk.choice = value;
    if (first == 2 && field == 6) read_usage(part, chunk);
    if (first == 2 && field == 7) chunk.has_timings = true;
  }
  return chunk;
}

inline Chunk read_prediction(std::string_view bytes) {
  Chunk chunk;
  for (WireReader in(bytes); !in.done();) {
    u32 tag;
    u64 value = 0;
    std::string_view part;
    CHECK(in.tag(&tag));
    CHECK((tag & 7) == 0 ? in.varint(&value) : in.bytes(&part));
    if (tag >> 3 == 1) chunk.request_id = value;
    if (tag >> 3 == 4) {
      const u64 id = chunk.request_id;
      chunk = read_chunk(part, 1);
      chunk.request_id = id;
    }
    if (tag >> 3 == 5) chunk.has_timings = true;
    if (tag >> 3 == 6) {
      for (WireReader status(part); !status.done();) {
        CHECK(status.tag(&tag));
        CHECK((tag & 7) == 0 ? status.varint(&value) : status.bytes(&part));
        if (tag == varint_tag(1)) chunk.code = i32(value);
      }
      continue;
    }
    if (tag >> 3 == 7) read_usage(part, chunk);
  }
  return chunk;
}

inline std::vector<std::string> unframed(std::string_view data) {
  std::vector<std::string> out;
  while (!data.empty()) {
    CHECK(data.size() >= kPrefixBytes);
    u32 size = 0;
    for (int i = 1; i < 5; i++) size = size << 8 | u8(data[i]);
    CHECK(data.size() >= kPrefixBytes + size);
    out.emplace_back(data.substr(kPrefixBytes, size));
    data.remove_prefix(kPrefixBytes + size);
  }
  return out;
}

// The items of a PredictBatchResponse.
inline std::vector<Chunk> batch_items(std::string_view data) {
  const auto messages = unframed(data);
  CHECK_EQ(messages.size(), size_t(1));
  std::vector<Chunk> items;
  for (WireReader in(messages[0]); !in.done();) {
    u32 tag;
    std::string_view item;
    CHECK(in.tag(&tag) && tag == length_tag(1) && in.bytes(&item));
    items.push_back(read_prediction(item));
  }
  return items;
}

// ---- the two sides

struct GenerationWorld : test::OwnSegment {
  explicit GenerationWorld(const Sizes& sizes) : OwnSegment(sizes) {
    for (u32 m = 0; m < sizes.models; m++) {
      std::strcpy(segment.model(m).name, m ? "encoder" : "generator");
      segment.model(m).ready = 1;
      Route& route = segment.route(m * kGenerations);
      route.state = RouteState::kServing;
      route.dispatchers = 1;
      route.task = m ? Task::kEmbed : Task::kGenerate;
      route.dimensions = m ? 8 : 0;
      route.vocab_size = kVocab;
      route.max_input_tokens = kMaxInput;
      route.max_output_tokens = m ? 0 : kMaxOutput;
      route.max_queue_items = 1000;
      route.max_batch_items = 64, route.max_batch_tokens = 4096;
    }
    segment.supervisor().phase = fastqps::Phase::kServing;
  }
};

// A running sequence's end, driven token by token.
class TestDispatcher {
 public:
  TestDispatcher(Segment segment, const WakeFds* fds, u32 epoch = 1)
      : segment_(segment), fds_(fds), epoch_(epoch), claimer_(segment, fds, 0, epoch, kGeneratorRoute) {}

  // Takes what waits; how many were claimed.
  size_t claim() {
    Batch batch;
    claimer_.next(batch, ClaimMode::kFree, {}, 0);
    for (const Claim& c : batch.claims) {
      CHECK(claimer_.launch(c));
      Slot& s = claimer_.slot(c);
      s.claimed_ns = s.gathered_ns = s.launched_ns = now_ns();
      made_[c.slot] = 0;
      running.push_back(c);
    }
    for (const auto& [c, code] : batch.dropped) {  // expired
      CHECK(claimer_.launch(c));
      claimer_.slot(c).status = u16(code);
      CHECK(claimer_.finish(c));
    }
    claimer_.publish();
    return batch.claims.size();
  }
  void make(u32 id, size_t which = 0, bool hint_too = true) {
    const Claim& c = running[which];
    Slot& s = claimer_.slot(c);
    const u32 k = made_[c.slot]++;
    write(s, k, id);
    if (!(s.flags & kProgress)) return;
    s.n_made.store(k + 1, kRelease);
    if (hint_too) hint(which);
  }
  void hint(size_t which = 0) {
    claimer_.progress(running[which]);
    claimer_.publish();
  }
  // With the token that ends it.
  void finish(u32 id, Finish how, size_t which = 0) {
    const Claim c = running[which];
    Slot& s = claimer_.slot(c);
    write(s, made_[c.slot], id);
    s.status = 0, s.kind = fastqps::Answer::kTokens, s.finish = how;
    s.n_values = made_[c.slot] + 1;
    s.finished_ns = s.scattered_ns = now_ns();
    CHECK(claimer_.finish(c));
    claimer_.publish();
    running.erase(running.begin() + i64(which));
  }
  // Controls that have come, by what they ask.
  std::vector<Control> controls() {
    std::vector<Control> out;
    ring_drain(segment_.control_ring(0, 0), kControlEntries, [&](u64 entry) { out.push_back(control_op(entry)); });
    return out;
  }
  // Reads them as a dispatcher does: what nobody wants any more goes back at once.
  void obey() {
    ring_drain(segment_.control_ring(0, 0), kControlEntries, [&](u64 entry) {
      for (size_t i = 0; i < running.size(); i++) {
        const Claim c = running[i];
        if (c.slot != control_slot(entry) || c.seq != entry_seq(entry)) continue;
        Slot& s = claimer_.slot(c);
        s.status = 1, s.kind = fastqps::Answer::kNone;
        CHECK(claimer_.finish(c));
        running.erase(running.begin() + i64(i));
        break;
      }
    });
    claimer_.publish();
  }
  u32 made(size_t which) const { return made_[running[which].slot]; }
  void die() { publish_death(segment_, *fds_, 0, epoch_); }
  Slot& slot(size_t which = 0) { return claimer_.slot(running[which]); }
  std::vector<Claim> running;

 private:
  void write(Slot& s, u32 k, u32 id) {
    u32 top_ids[kTopLogprobsMax];
    float top_logprobs[kTopLogprobsMax];
    for (u32 i = 0; i < kTopLogprobsMax; i++) top_ids[i] = id + i, top_logprobs[i] = -float(k) - 0.5f - float(i);
    const u32 scored = scored_tokens(s, s.n_tokens.load());
    TokenAnswer(segment_.answer_room(s), scored + s.sampling.max_tokens, s.sampling.top_logprobs)
        .write(k, {id, -float(k) - 0.5f, top_ids, top_logprobs});
  }

  Segment segment_;
  const WakeFds* fds_;
  u32 epoch_;
  Claimer claimer_;
  u32 made_[1024] = {};  // by slot
};

class Generating {
 public:
  explicit Generating(const Sizes& sizes = usual(16), const Limits& limits = {}, PredictOptions options = {})
      : world(sizes),
        service(world.segment, &world.fds, options),
        door(service, without_sleep(limits), {}, counters),
        dispatcher(std::make_unique<TestDispatcher>(world.segment, &world.fds)) {
    service.setups()[kGeneratorRoute].detokenizer = test_detokenizer();
    door.attach();
    client = std::make_unique<Client>(door);
  }
  // Nothing may be left when the clients are gone and the dispatcher has let go.
  ~Generating() {
    client.reset();
    for (int i = 0; i < 100 && door.net.connections.open(); i++) door.turn();
    while (!dispatcher->running.empty()) dispatcher->finish('.', Finish::kLength);
    for (int i = 0; i < 10; i++) door.turn();
    CHECK_EQ(door.calls.pool.used(), 0u);
    CHECK_EQ(door.net.wheel.armed(), u64(0));
    CHECK_EQ(world.segment.door(0).slots_used.load(), 0u);
    CHECK_EQ(service.generations(), 0u);
  }
  static Sizes usual(u32 slots = 16) {
    return {.models = 2, .slots = slots, .max_tokens = 64, .answer_bytes = TokenAnswer::bytes(kMaxOutput, 0)};
  }

  i32 call(const char* method, const Ask& ask, const Fields& extra = {}) {
    return client->call(std::string("/fastqps.v1.PredictService/") + method, framed(ask.bytes()), true, extra);
  }
  i32 generate(const Ask& ask, const Fields& extra = {}) { return call("Generate", ask, extra); }
  // A call that the door has heard.
  i32 send(const char* method, const Ask& ask, const Fields& extra = {}) {
    const i32 stream = call(method, ask, extra);
    client->run();
    return stream;
  }
  // A call whose request has reached the dispatcher.
  i32 start(const char* method, const Ask& ask, const Fields& extra = {}) {
    const i32 stream = send(method, ask, extra);
    CHECK_EQ(dispatcher->claim(), size_t(1));
    return stream;
  }
  // The dispatcher takes all that waits, while the door gives it what it has held back; how many were claimed.
  size_t claim_all() {
    size_t n = 0;
    for (u32 idle = 0; idle < 2; idle++) {
      if (const size_t more = dispatcher->claim()) n += more, idle = 0;
      door.turn();
    }
    return n;
  }
  // All that wait run, and end with their next token.
  void finish_all() {
    claim_all();
    while (!dispatcher->running.empty()) dispatcher->finish('x', Finish::kLength);
  }
  // The dispatcher makes tokens, the door reads each.
  void make(std::initializer_list<u32> ids, size_t which = 0) {
    for (const u32 id : ids) dispatcher->make(id, which), client->run();
  }
  void finish(u32 id, Finish how, size_t which = 0) { dispatcher->finish(id, how, which), client->run(); }

  StreamAnswer& answer(i32 stream) { return client->answers[stream]; }
  std::vector<Chunk> chunks(i32 stream) {
    std::vector<Chunk> out;
    for (const std::string& message : unframed(answer(stream).data)) out.push_back(read_chunk(message));
    return out;
  }
  Chunk prediction(i32 stream) {
    const auto messages = unframed(answer(stream).data);
    CHECK_EQ(messages.size(), size_t(1));
    return read_prediction(messages[0]);
  }
  u64 counted(Rpc method, StatusCode code) { return world.segment.door_stats(0).requests[0][method][u32(code)].load(); }
  u64 items(StatusCode code) { return world.segment.door_stats(0).items[0][u32(code)].load(); }

  GenerationWorld world;
  Counters counters;
  PredictService service;
  FrontDoor door;
  std::unique_ptr<TestDispatcher> dispatcher;
  std::unique_ptr<Client> client;
};

}  // namespace fastqps::test
