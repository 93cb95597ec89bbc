// Servers that take items and do not answer them, whatever else they say.
#include "tests/edge/edge_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

UpstreamState state_of(const Edge& edge, u32 upstream) {
  return edge.segment.upstream_table(0).row[upstream].state.load();
}

void answer_all(KeepingServer& server) {
  for (Called& each : server.calls) server.answer(each, each.items.size(), StatusCode::kOk);
}

// Both servers are up, and have answered an item each.
struct Pair {
  KeepingServer good, bad;
  Edge edge{{&good, &bad}};
  u32 done = 0;

  Pair() {
    while (!good_answered || !bad_answered) {
      edge.put(1);
      done++;
      edge.run([&] { return edge.held() == 1; });
      good_answered |= good.items(), bad_answered |= bad.items();
      answer_all(good), answer_all(bad);
      edge.run([&] { return edge.ended.of[0] == done; });
    }
  }
  // Requests at a steady pace, which `good` answers, until it is so.
  void serve(const std::function<bool()>& condition) {
    edge.run([&] {
      if (!waiting()) edge.put(1), done++;
      answer_all(good);
      return condition();
    });
  }
  u32 waiting() const { return done - edge.ended.of[0]; }
  bool suspended() const { return state_of(edge, 1) == UpstreamState::kSuspended; }

 private:
  bool good_answered = false, bad_answered = false;
};

}  // namespace

// All that it has goes to the other one, and later nothing but copies: no request waits for it again, however often it
// lets the edge in.
TEST(what_a_server_does_not_answer_goes_to_another_one) {
  Pair pair;
  pair.edge.put(64);
  pair.done += 64;
  pair.edge.run([&] { return pair.bad.items() > 0; });
  pair.serve([&] { return pair.suspended(); });
  pair.serve([&] { return pair.waiting() <= 1; });

  const size_t connections = pair.bad.calls.size();
  for (u32 tries = 1; tries <= 2; tries++) {  // each after twice the time
    pair.serve([&] { return pair.bad.calls.size() == connections + tries; });
    Called& last = pair.bad.calls.back();
    pair.serve([&] { return last.items.size() == 1; });
    for (u32 i = 0; i < 100; i++) {
      const u32 done = pair.done;
      pair.serve([&] { return pair.done > done; });
      CHECK(last.items.size() == 1 && pair.suspended());
    }
  }

  Called& last = pair.bad.calls.back();
  pair.bad.answer(last, 1, StatusCode::kOk);
  pair.serve([&] { return state_of(pair.edge, 1) == UpstreamState::kServing; });
  pair.edge.put(64);
  pair.done += 64;
  pair.edge.run([&] { return pair.bad.items() > 1; });
}

// Its connections break, and it answers nothing between. Items that were on two of them would wait for a server of
// their own.
TEST(a_server_that_breaks_before_it_answers_is_suspended) {
  Pair pair;
  for (u32 breaks = 0; !pair.suspended(); breaks++) {
    CHECK(breaks < 4);
    pair.edge.put(64);
    pair.done += 64;
    pair.serve([&] { return pair.bad.items() > 0; });
    pair.bad.break_down();
    pair.serve([&] { return pair.waiting() <= 1 && !pair.bad.items(); });
  }
}

// The codes that a front door gives by itself are no answers: its dispatchers may hang.
TEST(a_server_whose_items_only_expire_is_suspended) {
  Pair pair;
  pair.serve([&] {
    for (Called& each : pair.bad.calls)
      while (each.items.size() > 1) pair.bad.answer(each, 1, StatusCode::kDeadlineExceeded), pair.done--;
    return pair.suspended();
  });
}

// Nobody else could answer: perhaps it is only slow.
TEST(the_only_server_may_take_its_time) {
  KeepingServer server;
  Edge edge({&server});
  edge.put(10);
  const u64 begin = now_ns();
  edge.run([&] { return now_ns() - begin > 2500 * transport::kMillisecond; });
  CHECK_EQ(server.items(), 10u);
  CHECK(state_of(edge, 0) == UpstreamState::kServing);
}

// It has answered before, in a second: it gets some of those.
TEST(a_slow_server_may_take_its_time) {
  Pair pair;
  for (u32 i = 0; i < 2; i++) {
    const u64 begin = now_ns();
    pair.edge.put(64);
    pair.done += 64;
    pair.edge.run([&] { return pair.bad.items() >= 16; });
    pair.serve([&] { return now_ns() - begin > (i ? 2500 : 700) * transport::kMillisecond; });
    CHECK(!pair.suspended());
    answer_all(pair.bad);
  }
}
