// A request that has broken dispatchers, at the front door that gave it up and at another one.
#include <memory>

#include "tests/service/generation_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const std::string kInternal = "13";
const Ask kPoison = {.ids = {5, 6, 7}}, kAnother = {.ids = {5, 6, 8}};

// Beside the usual door a second one on the same segment, which has had its tick before anything happens.
struct TwoDoors {
  TwoDoors() : test(sizes()), second(test.world.segment, &test.world.fds, {.door = 1}) {
    second.setups()[kGeneratorRoute].detokenizer = test_detokenizer();
    door.attach();
    client = std::make_unique<Client>(door);
    client->run();
  }
  ~TwoDoors() {
    client.reset();
    for (int i = 0; i < 100 && door.net.connections.open(); i++) door.turn();
    CHECK_EQ(test.world.segment.door(1).slots_used.load(), 0u);
  }
  static Sizes sizes() {
    Sizes sizes = Generating::usual();
    sizes.doors = 2;
    return sizes;
  }
  // It is launched, alone the second time, and its dispatcher dies both times.
  void give_up(const Ask& ask) {
    const i32 stream = test.call("Predict", ask);
    test.client->run();
    for (int life = 0; life < 2; life++) {
      CHECK_EQ(test.dispatcher->claim(), size_t(1));
      test.dispatcher->die();
      test.dispatcher = std::make_unique<TestDispatcher>(test.world.segment, &test.world.fds, ++epoch);
      test.client->run();
    }
    CHECK_EQ(test.answer(stream).code(), kInternal);
    CHECK(test.answer(stream).fields["grpc-message"].find("broke") != std::string::npos);
  }
  // Asked at the second door: whether it reaches the dispatcher, which then answers it.
  bool runs(const Ask& ask) {
    const i32 stream = client->call("/fastqps.v1.PredictService/Predict", framed(ask.bytes()));
    client->run();
    if (!test.dispatcher->claim()) {
      CHECK_EQ(client->answers[stream].code(), kInternal);
      CHECK(client->answers[stream].fields["grpc-message"].find("is refused for ten minutes") != std::string::npos);
      return false;
    }
    test.dispatcher->finish('x', Finish::kLength);
    client->run();
    CHECK_EQ(client->answers[stream].code(), std::string("0"));
    return true;
  }
  u64 rejected() { return test.world.segment.door_stats(1).rejected[kRejectPoison].load(); }

  Generating test;
  Counters counters;
  PredictService second;
  FrontDoor door{second, without_sleep({}), {}, counters};
  std::unique_ptr<Client> client;
  u32 epoch = 1;
};

}  // namespace

TEST(what_one_door_gave_up_no_other_lets_in) {
  TwoDoors two;
  CHECK(two.runs(kPoison));
  two.give_up(kPoison);
  CHECK(!two.runs(kPoison));  // its next request, whenever it last looked at anything
  CHECK(two.runs(kAnother));
  CHECK(!two.runs(kPoison));
  CHECK_EQ(two.rejected(), u64(2));
}

TEST(a_mark_holds_for_ten_minutes) {
  TwoDoors two;
  const u64 before = now_ns();
  two.give_up(kPoison);
  Segment& segment = two.test.world.segment;
  PoisonMark* mark = nullptr;
  for (PoisonMark& m : segment.door(0).poison)
    if (m.fingerprint) mark = &m;
  CHECK(mark);
  const u64 until = mark->until_ns, ten_minutes = 600 * kSecond;
  CHECK(until >= before + ten_minutes && until <= now_ns() + ten_minutes);
  CHECK_EQ(segment.supervisor().poison_until_ns.load(), until);
  mark->until_ns = now_ns();  // it is over, while another one may hold
  CHECK(two.runs(kPoison));
  mark->until_ns = until;
  CHECK(!two.runs(kPoison));
  segment.supervisor().poison_until_ns = now_ns();  // all are over
  CHECK(two.runs(kPoison));
}

// A door keeps its newest marks, and no door takes back what another has said.
TEST(the_last_mark_of_all_doors_counts) {
  TwoDoors two;
  const u64 later = now_ns() + 3600 * kSecond;
  two.test.world.segment.supervisor().poison_until_ns = later;
  for (u32 i = 0; i <= kPoisonEntries; i++) two.give_up({.ids = {9, i}});
  CHECK_EQ(two.test.world.segment.supervisor().poison_until_ns.load(), later);
  CHECK(two.runs({.ids = {9, 0}}));
  for (u32 i = 1; i <= kPoisonEntries; i++) CHECK(!two.runs({.ids = {9, i}}));
}
