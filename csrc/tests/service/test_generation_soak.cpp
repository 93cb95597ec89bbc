// Thousands of generations at random: arrivals, cancels, lost connections, deadlines, stop strings, lost hints and
// deaths, against an oracle that knows every request's tokens.
#include <random>

#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u32 kConnections = 3, kSteps = 8000, kSlots = 64;

// All about a request follows from its number.
struct Oracle {
  explicit Oracle(u32 number) : number(number) {
    const u32 n = 1 + number % (kMaxOutput - 1);
    for (u32 k = 0; k < n; k++) ids.push_back('a' + (number + k * (k + number % 5)) % 26);
    stops = number % 3 == 0;
    for (size_t k = 0; k + stops < ids.size(); k++) text += char(ids[k]);
    whole = u32(ids.size());
    if (number % 4 || text.size() < 2) return;
    stop = text.substr((text.size() - 1) / 2, 2);
    const size_t at = text.find(stop);
    text.resize(at);
    ids.resize(at + 2);
    stopped = true;
  }
  Ask ask() const {
    Ask ask{.ids = {1 + number % 250, 1 + number / 250}, .request_id = number, .logprobs = true};
    if (!stop.empty()) ask.stop = {"QQ", stop};
    return ask;
  }
  static u32 number_of(const u32* ids) { return ids[0] - 1 + (ids[1] - 1) * 250; }

  u32 number, whole = 0;  // tokens that its dispatcher would make
  std::vector<u32> ids;
  std::string text, stop;
  bool stops = false, stopped = false;
};

struct Calls {
  std::unique_ptr<Client> client;
  std::map<i32, std::pair<u32, bool>> open;  // stream → number, streamed
};

class Soak {
 public:
  explicit Soak(u32 seed) : random_(seed), test_(Generating::usual(kSlots)) {}

  void run() {
    for (u32 step = 0; step < kSteps; step++) {
      const u32 dice = random_() % 1000;
      Calls& calls = calls_[random_() % kConnections];
      if (!calls.client) calls.client = std::make_unique<Client>(test_.door, random_() % 4 ? 1 << 20 : 64);
      if (dice < 300) begin(calls);
      if (dice >= 300 && dice < 320 && !calls.open.empty()) cancel(calls);
      if (dice == 400) lose(calls);
      if (dice >= 500 && dice < 503) die();
      dispatch();
      for (Calls& each : calls_) turn(each);
    }
    while (work_left()) {
      dispatch();
      for (Calls& each : calls_) turn(each);
    }
    for (Calls& each : calls_) each.client.reset();
    std::printf("  %u begun, %u ok, %u internal, %u late, %u cancelled, %u lost, %u deaths\n", begun_, ok_, internal_,
                late_, cancelled_, lost_, deaths_);
    CHECK_EQ(begun_, ok_ + internal_ + late_ + cancelled_ + lost_);
    CHECK(ok_ > begun_ / 2 && internal_ && late_ && cancelled_ && lost_ && deaths_);
  }

 private:
  bool work_left() const {
    for (const Calls& each : calls_)
      if (!each.open.empty()) return true;
    return !test_.dispatcher->running.empty();
  }
  void begin(Calls& calls) {
    if (test_.world.segment.door(0).slots_used.load() + 8 > kSlots) return;
    const Oracle oracle(begun_);
    const bool streamed = random_() % 3;
    const std::string path = std::string("/fastqps.v1.PredictService/") + (streamed ? "Generate" : "Predict");
    Fields extra;
    if (random_() % 10 == 0) extra.push_back({"grpc-timeout", std::to_string(200 + random_() % 3000) + "u"});
    calls.open[calls.client->call(path, framed(oracle.ask().bytes()), true, extra)] = {begun_++, streamed};
  }
  void cancel(Calls& calls) {
    auto at = calls.open.begin();
    std::advance(at, random_() % calls.open.size());
    if (calls.client->answers[at->first].closed) return;
    calls.client->reset(at->first);
    calls.open.erase(at);
    cancelled_++;
  }
  void lose(Calls& calls) {
    for (auto& [stream, number] : calls.open) check_part(calls, stream, number);
    lost_ += u32(calls.open.size());
    calls.open.clear();
    calls.client.reset();
  }
  void die() {
    test_.dispatcher->die();
    test_.dispatcher = std::make_unique<TestDispatcher>(test_.world.segment, &test_.world.fds, 2 + deaths_++);
  }
  void dispatch() {
    TestDispatcher& d = *test_.dispatcher;
    if (random_() % 2) d.obey();
    if (random_() % 2) d.claim();
    for (size_t i = d.running.size(); i-- > 0;) {
      if (random_() % 3) continue;
      const Oracle oracle(Oracle::number_of(test_.world.segment.ids(d.slot(i))));
      const Oracle plain = unstopped(oracle.number);
      const u32 k = d.made(i);
      if (k + 1 == plain.whole) {
        d.finish(plain.ids[k], plain.stops ? Finish::kStop : Finish::kLength, i);
      } else {
        d.make(plain.ids[k], i, random_() % 5);
      }
    }
  }
  // What its dispatcher makes of it, which knows of no stop strings.
  static Oracle unstopped(u32 number) {
    Oracle plain(number);
    plain.ids.clear();
    for (u32 k = 0; k < plain.whole; k++) plain.ids.push_back('a' + (number + k * (k + number % 5)) % 26);
    return plain;
  }
  void turn(Calls& calls) {
    if (!calls.client) return test_.door.turn();
    calls.client->send(calls.client->output());
    test_.door.turn();
    calls.client->receive();
    if (random_() % 4 == 0)  // a reader with a small window, that reads when it likes
      for (auto& [stream, number] : calls.open)
        nghttp2_submit_window_update(calls.client->session(), NGHTTP2_FLAG_NONE, stream, 500);
    for (auto at = calls.open.begin(); at != calls.open.end();) {
      if (calls.client->answers[at->first].closed) {
        check(calls, at->first, at->second);
        at = calls.open.erase(at);
      } else {
        ++at;
      }
    }
  }
  static Chunk all_of(const StreamAnswer& answer, bool streamed) {
    Chunk all;
    std::string data = answer.data;
    for (size_t at = 0; at + kPrefixBytes <= data.size();) {
      u32 size = 0;
      for (int i = 1; i < 5; i++) size = size << 8 | u8(data[at + i]);
      if (at + kPrefixBytes + size > data.size()) break;  // cut
      const std::string message = data.substr(at + kPrefixBytes, size);
      const Chunk chunk = streamed ? read_chunk(message) : read_prediction(message);
      all.request_id = chunk.request_id, all.finish = chunk.finish, all.output_tokens = chunk.output_tokens;
      all.text += chunk.text;
      all.ids.insert(all.ids.end(), chunk.ids.begin(), chunk.ids.end());
      all.logprobs.insert(all.logprobs.end(), chunk.logprobs.begin(), chunk.logprobs.end());
      at += kPrefixBytes + size;
    }
    return all;
  }
  // Of a call that did not end well: what came is a beginning of the right answer.
  void check_part(Calls& calls, i32 stream, std::pair<u32, bool> call) {
    const Oracle oracle(call.first);
    const Chunk all = all_of(calls.client->answers[stream], call.second);
    CHECK(all.ids.size() <= oracle.ids.size());
    CHECK(std::equal(all.ids.begin(), all.ids.end(), oracle.ids.begin()));
    CHECK(oracle.text.starts_with(all.text));
  }
  void check(Calls& calls, i32 stream, std::pair<u32, bool> call) {
    const StreamAnswer& answer = calls.client->answers[stream];
    const Oracle oracle(call.first);
    if (answer.code() == "13") return internal_++, check_part(calls, stream, call);
    // A deadline that passes when half of a message is with a slow reader is a reset.
    if (answer.code() == "4" || (answer.reset && answer.code() == "none"))
      return late_++, check_part(calls, stream, call);
    CHECK_EQ(answer.code(), std::string("0"));
    ok_++;
    const Chunk all = all_of(answer, call.second);
    CHECK_EQ(all.text, oracle.text);
    CHECK(all.ids == oracle.ids);
    CHECK_EQ(all.output_tokens, oracle.ids.size());
    CHECK_EQ(all.finish, oracle.stopped || oracle.stops ? u64(1) : u64(2));
    CHECK_EQ(all.logprobs.size(), oracle.ids.size());
    for (size_t k = 0; k < all.logprobs.size(); k++) CHECK_EQ(all.logprobs[k], -float(k) - 0.5f);
    if (oracle.number) CHECK_EQ(all.request_id, u64(oracle.number));
  }

  std::mt19937 random_;
  Generating test_;
  Calls calls_[kConnections];
  u32 begun_ = 0, ok_ = 0, internal_ = 0, late_ = 0, cancelled_ = 0, lost_ = 0, deaths_ = 0;
};

}  // namespace

TEST(soak) {
  for (u32 seed = 100; seed <= 104; seed++) Soak(seed).run();
}
