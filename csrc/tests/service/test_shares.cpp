// How many items of each tenant a front door takes, here a connection, with a dispatcher that claims when the test
// says.
#include <memory>

#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const std::string kOk = "0", kExhausted = "8";
const std::string kPath = "/fastqps.v1.PredictService/";

// A door with `slots` slots, its generator's queue with so many places, and two connections.
struct Two {
  Two(u32 slots, u64 places) : Two(Generating::usual(slots), places) {}
  Two(const Sizes& sizes, u64 places) : test(sizes), b(std::make_unique<Client>(test.door)), a(*test.client) {
    test.world.segment.route(kGeneratorRoute).max_queue_items = places;
  }
  ~Two() { b.reset(); }
  // So many calls of one item each; how many of them were refused.
  u32 refused(Client& client, u32 calls) { return refused(client, std::vector<Ask>(calls, Ask{.ids = {5}})); }
  u32 refused(Client& client, const std::vector<Ask>& asked) {
    std::vector<i32> streams;
    for (const Ask& ask : asked) streams.push_back(client.call(kPath + "Predict", framed(ask.bytes())));
    client.run();
    u32 n = 0;
    for (const i32 stream : streams) {
      const StreamAnswer& answer = client.answers[stream];
      n += answer.closed;
      if (answer.closed) CHECK_EQ(answer.fields.at("grpc-status"), kExhausted);
    }
    return n;
  }
  i32 batch(Client& client, u32 items, const Ask& ask = {.ids = {5}}) {
    const i32 stream = client.call(kPath + "PredictBatch", framed(batch_of(items, ask)));
    client.run();
    return stream;
  }
  // The items of a batch that were refused; all the others have run by then.
  u32 refused_of(Client& client, i32 stream) {
    test.finish_all();
    client.run();
    const StreamAnswer& answer = client.answers[stream];
    CHECK_EQ(answer.code(), kOk);
    u32 n = 0;
    for (const Chunk& item : batch_items(answer.data)) n += item.code == 8;
    return n;
  }
  u64 rejected(Reject why) { return test.world.segment.door_stats(0).rejected[why].load(); }

  Generating test;
  std::unique_ptr<Client> b;
  Client& a;
};

}  // namespace

TEST(one_connection_leaves_a_ninth_of_the_queue) {
  Two two(128, 36);
  CHECK_EQ(two.refused(two.a, 40), 8u);
  CHECK_EQ(two.rejected(kRejectTenant), 8u);
  CHECK_EQ(two.refused(*two.b, 4), 0u);
  CHECK_EQ(two.refused(two.a, 1), 1u);
  CHECK_EQ(two.refused(*two.b, 1), 0u);  // one of the other's makes way
  two.test.door.turn();
  CHECK_EQ(two.rejected(kRejectEvicted), 1u);
}

TEST(a_tenant_with_few_finds_a_place_in_a_queue_that_many_have_filled) {
  Two two(256, 64);
  std::vector<std::unique_ptr<Client>> greedy;
  u32 refused = 0;
  for (int i = 0; i < 8; i++) greedy.push_back(std::make_unique<Client>(two.test.door));
  for (int round = 0; round < 12; round++)
    for (auto& client : greedy) refused += two.refused(*client, 1);
  CHECK_EQ(refused, 8u * 12 - 64);
  CHECK_EQ(two.rejected(kRejectEvicted), 0u);
  CHECK_EQ(two.refused(two.a, 1) + two.refused(*two.b, 1), 0u);
  two.test.door.turn();
  CHECK_EQ(two.rejected(kRejectEvicted), 2u);
  CHECK_EQ(two.refused(two.a, 8), 6u);  // with three it has half of what others have
  CHECK_EQ(two.refused(*greedy[0], 1), 1u);
  CHECK_EQ(two.test.claim_all(), size_t(64));
  greedy.clear();
}

TEST(what_runs_does_not_wait) {
  Two two(256, 36);
  for (int i = 0; i < 3; i++) {
    CHECK_EQ(two.refused(two.a, 30), 0u);
    CHECK_EQ(two.test.claim_all(), size_t(30));
  }
  // The other's share is as large as if nothing ran, and who has 90 of them running and none waiting finds a place.
  CHECK_EQ(two.refused(*two.b, 40), 8u);
  CHECK_EQ(two.refused(two.a, 3), 0u);
  CHECK_EQ(two.test.claim_all(), size_t(35));
  CHECK_EQ(two.refused(two.a, 33), 1u);
}

TEST(what_was_cancelled_waits_no_more_and_a_slot_that_is_used_again_waits_once) {
  Two two(64, 54);
  std::vector<i32> streams;
  for (int i = 0; i < 20; i++) streams.push_back(two.a.call(kPath + "Predict", framed(Ask{.ids = {5}}.bytes())));
  two.a.run();
  for (const i32 stream : streams) two.a.reset(stream);
  two.a.run();
  CHECK_EQ(two.refused(two.a, 30), 0u);  // in the same slots; the old entries still stand in the ring before them
  CHECK_EQ(two.test.claim_all(), size_t(30));
  CHECK_EQ(two.refused(*two.b, 1), 0u);
  CHECK_EQ(two.test.claim_all(), size_t(1));
  // Nothing of either waits. Only the slots are left to share: 31 of 64 are taken.
  CHECK_EQ(two.refused(*two.b, 40), 11u);  // the last 4 are for higher classes
  CHECK_EQ(two.rejected(kRejectSlots), 11u);
}

TEST(what_runs_again_after_a_death_waits_again) {
  Two two(128, 66);
  CHECK_EQ(two.refused(two.a, 58), 0u);
  CHECK_EQ(two.test.claim_all(), size_t(58));
  CHECK_EQ(two.refused(two.a, 1), 0u);
  two.test.dispatcher->die();
  two.test.door.turn();
  two.test.dispatcher = std::make_unique<TestDispatcher>(two.test.world.segment, &two.test.world.fds, 2);
  two.test.door.turn();
  CHECK_EQ(two.refused(two.a, 1), 1u);  // 59 wait, 7 places are left
  CHECK_EQ(two.refused(*two.b, 7), 0u);
}

TEST(a_batch_fills_an_idle_queue) {
  Two two(128, 36);
  for (int i = 0; i < 3; i++) CHECK_EQ(two.refused_of(two.a, two.batch(two.a, 36)), 0u);
  CHECK_EQ(two.refused_of(two.a, two.batch(two.a, 38)), 2u);
  CHECK_EQ(two.rejected(kRejectQueueFull), 2u);
  CHECK_EQ(two.rejected(kRejectTenant), 0u);
  // Beside what its connection has there already, it is nothing special; what others have there is theirs.
  CHECK_EQ(two.refused(two.a, 1), 0u);
  CHECK_EQ(two.refused_of(two.a, two.batch(two.a, 35)), 4u);
  CHECK_EQ(two.rejected(kRejectTenant), 4u);
  CHECK_EQ(two.refused(*two.b, 3), 0u);
  CHECK_EQ(two.refused_of(two.a, two.batch(two.a, 33)), 0u);
}

TEST(a_batch_takes_all_slots_of_an_idle_door) {
  Two two(32, 1000);
  CHECK_EQ(two.refused_of(two.a, two.batch(two.a, 32)), 0u);
  CHECK_EQ(two.refused_of(two.a, two.batch(two.a, 34)), 2u);
  CHECK_EQ(two.rejected(kRejectSlots), 2u);
  CHECK_EQ(two.refused(two.a, 32), 3u);
  CHECK_EQ(two.rejected(kRejectTenant), 3u);
}

TEST(one_connection_leaves_a_ninth_of_the_large_answers) {
  Sizes sizes = Generating::usual(128);
  sizes.large_answers = 36, sizes.large_answer_bytes = TokenAnswer::bytes(kMaxOutput, 20);
  Two two(sizes, 100);
  const Ask large{.ids = {5}, .top_logprobs = 20, .logprobs = true}, small{.ids = {5}};
  CHECK_EQ(two.refused(two.a, std::vector(40, large)), 8u);
  CHECK_EQ(two.rejected(kRejectTenant), 8u);
  CHECK_EQ(two.refused(two.a, std::vector(4, small)), 0u);
  CHECK_EQ(two.refused(*two.b, std::vector(4, large)), 0u);
  CHECK_EQ(two.refused(*two.b, {large}), 1u);
  CHECK_EQ(two.rejected(kRejectSlots), 1u);
}

TEST(a_batch_takes_all_large_answers) {
  Sizes sizes = Generating::usual(128);
  sizes.large_answers = 36, sizes.large_answer_bytes = TokenAnswer::bytes(kMaxOutput, 20);
  Two two(sizes, 100);
  const Ask large{.ids = {5}, .top_logprobs = 20, .logprobs = true};
  for (int i = 0; i < 2; i++) CHECK_EQ(two.refused_of(two.a, two.batch(two.a, 36, large)), 0u);
  CHECK_EQ(two.rejected(kRejectTenant), 0u);
}

TEST(one_connection_leaves_a_ninth_of_the_room_for_structures) {
  Sizes sizes = Generating::usual(128);
  sizes.attachment_bytes = 36 * Attachments::kBlockBytes;
  Two two(sizes, 100);
  std::vector<Ask> asked, more;
  for (u32 i = 0; i < 40; i++) asked.push_back({.ids = {5}, .regex = "a{" + std::to_string(i) + "}"});
  for (u32 i = 0; i < 5; i++) more.push_back({.ids = {5}, .regex = "b{" + std::to_string(i) + "}"});
  CHECK_EQ(two.refused(two.a, asked), 8u);
  CHECK_EQ(two.rejected(kRejectTenant), 8u);
  CHECK_EQ(two.refused(two.a, std::vector(20, asked[0])), 0u);  // it lies there already
  CHECK_EQ(two.refused(*two.b, more), 1u);
  CHECK_EQ(two.rejected(kRejectSlots), 1u);
}
