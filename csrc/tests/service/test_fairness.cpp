// What one connection can take of a door's time and memory, and what it leaves to the others.
#include <memory>
#include <optional>

#include "core/waiting.h"
#include "service/tables/tokenizers.h"
#include "tests/service/generation_fixture.h"
#include "tests/transport/transport_fixture.h"
#include "transport/rpc/fair_queue.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

const Fields kDeflate = {{"grpc-encoding", "deflate"}};

// Slices that end with the first message that costs anything, in turns that end with the last connection.
const Limits kShortSlices = {.turn_work_ns = test::kPatienceNs, .connection_work_ns = 1};

std::string bomb(size_t bytes) { return framed(deflated(std::string(bytes, 'a')), 1); }

// Of a message that is read again it finds one item alone, as a reader whose items depend on the model can.
class ShrinkingReader final : public service::RequestReader {
 public:
  FieldError read(std::span<const u8> message, const CallInfo& info, ReasonText& reason) override {
    reads++;
    return native_.read(message, info, reason);
  }
  u32 items() const override { return reads > 1 ? 1 : native_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    CHECK(index < items());
    return native_.item(index, view);
  }
  u32 reads = 0;

 private:
  service::NativeReader native_{1024};
};

}  // namespace

TEST(messages_that_inflate_are_delivered_one_by_one_between_those_of_others) {
  Fixture fixture(kShortSlices);
  Client greedy(fixture.door), other(fixture.door);
  greedy.run(), other.run();
  constexpr int kBombs = 40;
  for (int i = 0; i < kBombs; i++) greedy.call("/test.Service/Echo", bomb(60'000), true, kDeflate);
  greedy.send(greedy.output());
  fixture.door.turn();
  const size_t first = fixture.service.messages.size();
  CHECK(first >= 1 && first <= 2);
  const i32 asked = other.call("/test.Service/Echo", framed("hello"));
  other.send(other.output());
  fixture.door.turn();
  other.receive();
  CHECK_EQ(other.answers[asked].code(), std::string("0"));
  CHECK(fixture.service.messages.size() <= first + 4);
  greedy.run_until([&] { return fixture.service.messages.size() == kBombs + 1; });
  for (const auto& [stream, answer] : greedy.answers)
    if (stream) CHECK_EQ(answer.code(), std::string("0"));
}

// Also when each turn has time for one connection alone. Those that wait for others' small requests get on.
TEST(a_small_request_does_not_wait_for_connections_with_unfinished_work) {
  Fixture fixture({.turn_work_ns = 1, .connection_work_ns = 1});
  constexpr u32 kGreedy = 8, kBombs = 40;
  std::vector<std::unique_ptr<Client>> greedy;
  for (u32 i = 0; i < kGreedy; i++) greedy.emplace_back(std::make_unique<Client>(fixture.door))->run();
  Client other(fixture.door);
  other.run();
  for (auto& client : greedy) {
    for (u32 i = 0; i < kBombs; i++) client->call("/test.Service/Echo", bomb(60'000), true, kDeflate);
    client->send(client->output());
  }
  for (u32 i = 0; i < kGreedy; i++) fixture.door.turn();
  for (u32 i = 0; i < 3; i++) {
    const size_t before = fixture.service.messages.size();
    const i32 asked = other.call("/test.Service/Echo", framed("hello"));
    other.send(other.output());
    fixture.door.turn();
    other.receive();
    CHECK_EQ(other.answers[asked].code(), std::string("0"));
    CHECK(fixture.service.messages.size() > before + 1);
  }
  for (auto& client : greedy)
    client->run_until([&] { return fixture.service.messages.size() == kGreedy * kBombs + 3; });
}

// The same where more connections than epoll names in a turn have more input than one read takes.
TEST(a_small_request_is_seen_at_once_beside_a_crowd_with_unread_input) {
  Fixture fixture({.turn_work_ns = 1, .connection_work_ns = 1, .events = 8});
  constexpr u32 kGreedy = 40, kMessages = 20;
  std::vector<std::unique_ptr<Client>> greedy;
  for (u32 i = 0; i < kGreedy; i++) greedy.emplace_back(std::make_unique<Client>(fixture.door))->run();
  Client other(fixture.door);
  other.run();
  for (auto& client : greedy) {
    for (u32 i = 0; i < kMessages; i++) client->call("/test.Service/Echo", framed(std::string(9'000, 'a')));
    client->send(client->output());
  }
  while (fixture.door.net.queues.unfinished.size() < kGreedy) fixture.door.turn();
  for (u32 i = 0; i < 3; i++) {
    const i32 asked = other.call("/test.Service/Echo", framed("hello"));
    other.send(other.output());
    fixture.door.turn();
    other.receive();
    CHECK_EQ(other.answers[asked].code(), std::string("0"));
  }
  for (auto& client : greedy)
    client->run_until([&] { return fixture.service.messages.size() == kGreedy * kMessages + 3; });
}

TEST(ready_connections_share_the_time_of_a_turn) {
  const Limits limits = {.turn_work_ns = 1000, .connection_work_ns = 400, .crowd_work_ns = 100};
  const u64 lengths[][2] = {{0, 400}, {1, 400}, {2, 400}, {4, 250}, {10, 100}, {1000, 100}};
  for (const auto& [ready, length_ns] : lengths) CHECK_EQ(Slice::length_ns(limits, ready), length_ns);
}

TEST(a_stream_that_is_resumed_has_its_messages_in_order_over_many_turns) {
  Fixture fixture(kShortSlices);
  fixture.service.hold_after = 1;
  Client client(fixture.door);
  std::string body;
  for (int i = 0; i < 20; i++) body += framed(std::to_string(i) + std::string(9000, '.'));
  StreamAnswer& stream = client.ask("/test.Service/Stream", body);
  CHECK_EQ(fixture.service.messages.size(), size_t(1));
  fixture.service.transport->resume({0, 1});
  fixture.door.turn();
  CHECK_EQ(fixture.service.messages.size(), size_t(2));  // and not all that waited
  client.run();
  CHECK(stream.data == body);
  CHECK_EQ(stream.code(), std::string("0"));
}

TEST(a_connection_that_ends_takes_its_queued_messages_along) {
  Fixture fixture(kShortSlices);
  Client client(fixture.door);
  client.run();
  for (int i = 0; i < 20; i++) client.call("/test.Service/Echo", bomb(60'000), true, kDeflate);
  client.send(client.output());
  fixture.door.turn();
  CHECK(fixture.counters.reassembly_bytes > 0);
  client.close();
}

TEST(results_of_the_worker_are_delivered_by_the_time_of_a_turn_and_one_at_least) {
  Fixture fixture({.turn_work_ns = 1});
  Client client(fixture.door);
  std::vector<i32> streams;
  for (int i = 0; i < 8; i++) streams.push_back(client.call("/test.Service/Echo", bomb(100'000), true, kDeflate));
  for (size_t before = 0; before < 8;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // several of them are ready then
    client.turn();
    const size_t delivered = fixture.service.messages.size();
    CHECK(delivered <= before + 1);
    before = delivered;
  }
  client.run();
  for (const i32 stream : streams) CHECK_EQ(client.answers[stream].code(), std::string("0"));
}

TEST(one_connection_cannot_take_all_the_room_of_unfinished_messages) {
  Fixture fixture({.reassembly_bytes = 1 << 20});
  Client greedy(fixture.door), other(fixture.door);
  const std::string unfinished = framed(std::string(2'000, 'x')).substr(0, 1'900);
  for (int i = 0; i < 800; i++) greedy.call("/test.Service/Echo", unfinished, false);
  greedy.run_until([&] { return fixture.counters.bytes_in >= 800 * unfinished.size(); });
  const i32 asked = other.call("/test.Service/Echo", framed(std::string(20'000, 'y')).substr(0, 19'000), false);
  other.run();
  other.more(asked, std::string(1005, 'y'), true);
  other.run();
  CHECK_EQ(other.answers[asked].code(), std::string("0"));
}

TEST(control_messages_are_short) {
  Fixture fixture;
  Client client(fixture.door);
  const std::string path = "/grpc.health.v1.Health/Check";
  const i32 plain = client.call(path, framed(std::string(20'000, 'x')));
  const i32 zipped = client.call(path, bomb(60'000), true, kDeflate);
  const i32 large = client.call(path, bomb(1'000'000), true, kDeflate);
  const i32 rare = client.call("/test.Service/Rare", framed(std::string(20'000, 'x')));
  client.run();
  for (const i32 stream : {plain, zipped, large, rare}) {
    CHECK_EQ(client.answers[stream].code(), std::string("8"));
    CHECK_EQ(client.answers[stream].fields["grpc-message"], std::string("the message is larger than 16384 bytes"));
  }
}

// A byte now and then is no progress.
TEST(a_message_that_trickles_is_stalled) {
  Fixture fixture({.message_timeout = 60 * kMillisecond});
  Client client(fixture.door);
  const i32 unary = client.call("/test.Service/Echo", framed(std::string(4000, 'x')).substr(0, 6), false);
  const i32 empty = client.call("/test.Service/Echo", "", false);
  client.run();
  const auto refused = [&](i32 stream) { return client.answers[stream].code() == "4"; };
  client.run_until([&] {
    if (!refused(unary)) client.more(unary, "x", false);
    return refused(unary) && refused(empty);
  });
}

TEST(an_idle_stream_ends_and_a_busy_one_does_not) {
  Fixture fixture({.settings = {.stream_idle_timeout_ns = 30 * kMillisecond}});
  Client client(fixture.door);
  fixture.service.busy = true;
  const i32 silent = client.call("/test.Service/Stream", "", false);
  const i32 told = client.call("/test.Service/Stream", framed("x"), false);
  client.run_until([&] { return client.answers[silent].code() == "14"; });
  client.run_for(2 * fixture.limits.settings.stream_idle_timeout_ns);
  CHECK_EQ(client.answers[told].code(), std::string("none"));
  fixture.service.busy = false;
  client.run_until([&] { return client.answers[told].code() == "14"; });
}

namespace {

// All calls of a door, taken by connections of which some have idle streams and some wait for answers.
struct FullDoor {
  Client& open(u32 streams, const std::string& path, bool end) {
    Client& client = *clients.emplace_back(std::make_unique<Client>(fixture.door));
    for (u32 i = 0; i < streams; i++) client.call(path, framed("x"), end);
    client.run();
    return client;
  }
  Client& open_idle(u32 streams) { return open(streams, "/test.Service/Stream", false); }
  Client& open_waiting(u32 calls) { return open(calls, "/test.Service/Later", true); }
  static u32 ended(const Client& client) {
    u32 ended = 0;
    for (const auto& [stream, answer] : client.answers) ended += answer.closed;
    return ended;
  }
  // With all calls taken: a call of a connection that has had none costs streams of `idle`, and none of `kept`.
  void check_room(Client& idle, Client& kept) {
    const auto full = [this] { return fixture.door.calls.pool.used() == fixture.limits.calls; };
    while (!full()) open_waiting(8);  // the last quarter of the calls is for those that have few
    idle.run_for(2 * fixture.limits.stream_idle_when_full);
    idle.run_until([&] { return !full(); });
    Client other(fixture.door);
    CHECK_EQ(other.ask("/test.Service/Echo", framed("hello")).code(), std::string("0"));
    kept.run();
    CHECK_EQ(ended(kept), 0u);
    CHECK(ended(idle) > 0);
  }

  Fixture fixture{{.calls = 1280, .rejected_timeout = 5 * kMillisecond, .stream_idle_when_full = 20 * kMillisecond}};
  std::vector<std::unique_ptr<Client>> clients;
};

}  // namespace

// Streams that nobody uses take no call from who needs one. Those that end are the connection's that has most.
TEST(idle_streams_make_room_when_all_calls_are_taken) {
  FullDoor full;
  Client &greedy = full.open_idle(900), &second = full.open_idle(40);
  full.check_room(greedy, second);
  CHECK(full.ended(greedy) < 50);  // no more than are needed
}

TEST(idle_streams_beside_a_busier_connection_make_room) {
  FullDoor full;
  Client &idle = full.open_idle(100), &busy = full.open_waiting(800);
  for (int i = 0; i < 50; i++) busy.call("/test.Service/Stream", framed("x"), false);
  busy.run();
  full.check_room(idle, busy);
}

// They are not idle, whatever their number and however long ago they got a message.
TEST(idle_streams_behind_those_that_wait_for_answers_make_room) {
  FullDoor full;
  Client& owed = full.open_idle(850);
  full.fixture.service.owed = full.fixture.service.open;
  Client& idle = full.open_idle(100);
  full.check_room(idle, owed);
}

TEST(connections_take_turns_in_a_queue_and_share_its_room) {
  FairQueue<int> queue(90);
  const ConnectionId a{0, 1}, b{1, 1};
  int pushed = 0;
  while (queue.push(a, 1, pushed)) pushed++;
  CHECK_EQ(pushed, 80);  // eight times what it leaves
  CHECK(queue.push(b, 1, 1000));
  CHECK(queue.push(b, 1, 1001));
  std::vector<int> order;
  for (int i = 0; i < 5; i++) {
    const auto entry = queue.pop();
    order.push_back(entry.job);
    queue.release(entry.connection, entry.bytes);
  }
  CHECK(order == (std::vector<int>{0, 1000, 1, 1001, 2}));
  queue.clear();
  CHECK(queue.empty());
  CHECK(queue.push(a, 80, 0));
}

TEST(a_text_that_nobody_waits_for_is_not_tokenized) {
  TokenizeQueue queue(-1, 8);
  for (u32 slot = 0; slot < 3; slot++) CHECK(queue.push({slot, 1}, {slot, 0, false, "text", ""}));
  queue.drop(1);
  const auto jobs = queue.pop(8, 0);
  CHECK_EQ(jobs.size(), size_t(2));
  const auto results = queue.take();
  CHECK_EQ(results.size(), size_t(1));
  CHECK(results[0].slot == 1 && !results[0].failure.empty());
  CHECK(queue.push({1, 1}, {1, 0, false, "the next text of the slot", ""}));
  CHECK_EQ(queue.pop(8, 0).size(), size_t(1));
}

// It has been begun where short ones wait, and took too long there.
TEST(a_deferred_text_waits_among_the_long_ones) {
  TokenizeQueue queue(-1, 8);
  CHECK(queue.push({0, 1}, {0, 0, false, "slow", ""}));
  auto jobs = queue.pop(8, 0);
  CHECK_EQ(jobs.size(), size_t(1));
  CHECK(!queue.dropped(0));
  queue.drop(0);
  CHECK(queue.dropped(0));
  queue.defer(std::move(jobs[0]));
  CHECK(queue.pop(8, 0).empty());
  CHECK(queue.pop(8, 0, TextLane::kLong).empty());
  CHECK_EQ(queue.take().size(), size_t(1));  // it was dropped before, which holds in either lane
  CHECK(queue.push({0, 1}, {1, 0, false, "slow", ""}));
  jobs = queue.pop(8, 0);
  queue.defer(std::move(jobs[0]));
  jobs = queue.pop(8, 0, TextLane::kLong);
  CHECK_EQ(jobs.size(), size_t(1));
  CHECK(jobs[0].from == (ConnectionId{0, 1}));
}

TEST(a_deferred_text_without_room_can_be_tried_again) {
  TokenizeQueue queue(-1, 8);
  const std::string large(TokenizeQueue::kRoomBytes / 2, 'x');
  CHECK(queue.push({0, 1}, {0, 0, false, large, ""}, TextLane::kLong));
  CHECK(queue.push({1, 1}, {1, 0, false, large, ""}));
  auto jobs = queue.pop(8, 0);
  CHECK_EQ(jobs.size(), size_t(1));
  queue.defer(std::move(jobs[0]));
  const auto results = queue.take();
  CHECK_EQ(results.size(), size_t(1));
  CHECK(results[0].slot == 1 && results[0].busy && results[0].failure == TokenizeQueue::kNoRoom);
}

// Its items are taken in parts, and it is answered as one.
TEST(a_large_batch_does_not_keep_the_loop) {
  Generating test(Generating::usual(1024), kShortSlices);
  test.world.segment.route(kGeneratorRoute).max_queue_items = 1024;
  constexpr u32 kItems = 300;
  const i32 stream = test.client->call("/fastqps.v1.PredictService/PredictBatch",
                                       framed(batch_of(kItems, {.ids = std::vector<u32>(8, 5)})));
  test.client->send(test.client->output());
  u32 turns = 0, taken = 0;
  for (; taken < kItems && turns < 200; turns++) {
    test.door.turn();
    taken = u32(waiting_of(test.world.segment, kGeneratorRoute).items());
  }
  CHECK_EQ(taken, kItems);
  CHECK(turns >= 5);
  test.finish_all();
  test.client->run();
  CHECK_EQ(test.client->answers[stream].code(), std::string("0"));
}

TEST(a_large_batch_that_has_other_items_when_it_is_read_again_is_refused) {
  ShrinkingReader reader;
  const service::NativeWriter writer{true};
  std::optional<service::ItemsMethod> method;  // it outlives the loop
  Generating test(Generating::usual(1024), kShortSlices);
  method.emplace(test.service.items_path(), reader, service::Answering{writer, kPredictBatch});
  CHECK(test.door.grpc.methods.add(
      {"/test.Service/Shrinks", MethodKind::kUnary, &*method, MethodRole::kService, kPredictBatch}));
  test.world.segment.route(kGeneratorRoute).max_queue_items = 1024;
  const std::string batch = framed(batch_of(300, {.ids = std::vector<u32>(8, 5)}));
  const i32 stream = test.client->call("/test.Service/Shrinks", batch);
  test.client->send(test.client->output());
  for (u32 turns = 0; reader.reads < 2 && turns < 200; turns++) test.door.turn();
  CHECK_EQ(reader.reads, 2u);
  test.finish_all();
  test.client->run();
  const std::vector<Chunk> items = batch_items(test.answer(stream).data);
  CHECK_EQ(items.size(), size_t(300));
  CHECK(items.front().code == 0 && items.back().code == i32(StatusCode::kUnavailable));
}
