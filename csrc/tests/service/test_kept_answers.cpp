// Answers that wait for the others of their call: how much memory they may take, and that it comes back.
#include <vector>

#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u64 kMost = 6 << 10;  // one call may begin, its first block has 4 KiB, and another one
constexpr u32 kItems = 3;

struct Batches : Generating {
  Batches() : Generating(usual(), {}, little()) {}
  static PredictOptions little() {
    PredictOptions options;
    options.kept_answer_bytes = kMost;
    return options;
  }

  i32 ask() {
    const Ask item{.ids = {5, 6}, .max_tokens = 1};
    return client->call("/fastqps.v1.PredictService/PredictBatch", framed(batch_of(kItems, item)));
  }
  void answer_one() { finish('x', Finish::kLength); }
  // The status code of each item.
  std::vector<i32> codes(i32 stream) {
    std::vector<i32> out;
    for (const Chunk& item : batch_items(answer(stream).data)) out.push_back(item.code);
    return out;
  }
};

const std::vector<i32> kFirstOnly = {0, i32(StatusCode::kResourceExhausted), i32(StatusCode::kResourceExhausted)};

}  // namespace

TEST(a_call_that_keeps_as_much_as_is_free_keeps_no_more_and_another_one_begins) {
  Batches batches;
  const i32 one = batches.ask();
  batches.client->run();
  CHECK_EQ(batches.claim_all(), size_t(kItems));
  batches.answer_one(), batches.answer_one();  // the second one finds less free than its call has
  const i32 other = batches.ask();
  batches.client->run();
  CHECK_EQ(batches.claim_all(), size_t(kItems));
  batches.answer_one();  // the last of the first call
  CHECK(batches.codes(one) == kFirstOnly);
  for (u32 i = 0; i < kItems; i++) batches.answer_one();
  CHECK(batches.codes(other) == kFirstOnly);
  CHECK_EQ(batches.items(StatusCode::kOk), u64(2));
  CHECK_EQ(batches.items(StatusCode::kResourceExhausted), u64(4));
}

TEST(a_call_that_has_gone_gives_its_memory_back) {
  Batches batches;
  for (int round = 0; round < 3; round++) {
    Client gone(batches.door);
    const Ask item{.ids = {5, 6}, .max_tokens = 1};
    gone.call("/fastqps.v1.PredictService/PredictBatch", framed(batch_of(kItems, item)));
    gone.run();
    CHECK_EQ(batches.claim_all(), size_t(kItems));
    batches.answer_one();
  }
  while (!batches.dispatcher->running.empty()) batches.answer_one();
  const i32 stream = batches.ask();
  batches.client->run();
  CHECK_EQ(batches.claim_all(), size_t(kItems));
  for (u32 i = 0; i < kItems; i++) batches.answer_one();
  CHECK(batches.codes(stream) == kFirstOnly);
}

// The places of a call's answers take memory from the first one on, and are given back.
TEST(places_of_answers_count) {
  constexpr u32 kAnswers = 100;
  const Attachment none;
  Groups groups(none, 4, (kAnswers + 50) * sizeof(ResponseView));
  const auto open = [&] {
    const u32 g = groups.open({}, {GroupKind::kTogether, kOther, nullptr, kAnswers}, {});
    groups[g].kept.expect(kAnswers);
    return g;
  };
  const u32 one = open(), other = open();
  CHECK_EQ(groups.kept_bytes(), u64(0));
  CHECK(groups.may_keep(one) && groups.may_keep(other));
  groups.keep(one, 0, ResponseView());
  CHECK_EQ(groups.kept_bytes(), kAnswers * sizeof(ResponseView));
  CHECK(!groups.may_keep(other));
  groups[one].open = false;
  groups.free_if_done(one);
  CHECK_EQ(groups.kept_bytes(), u64(0));
  CHECK(groups.may_keep(other));
}

// Those of a stream's requests are the stream's.
TEST(answers_of_a_stream_wait_in_the_same_memory) {
  const Attachment none;
  Groups groups(none, 4, 1000);
  const auto open = [&] { return groups.open({}, {GroupKind::kRequests, kOther, nullptr}, {}); };
  const u32 stream = open(), request = open(), other = open();
  groups[request].stream = stream;
  groups.keep(stream, 1, std::string(600, 'x'));
  CHECK(!groups.may_keep(stream) && !groups.may_keep(request) && groups.may_keep(other));
  groups.keep(other, 1, std::string(600, 'x'));
  CHECK(!groups.may_keep(open()));
  groups[stream].ordered.sent = 1;
  CHECK_EQ(groups.take(stream).size(), size_t(600));
  CHECK(groups.may_keep(stream) && groups.may_keep(request) && !groups.may_keep(other));
  groups[other].open = false;
  groups.free_if_done(other);
  groups.keep(stream, 2, std::string(500, 'x'));
  CHECK(groups.may_keep(stream));
}
