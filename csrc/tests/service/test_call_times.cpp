// How long requests and calls of many may take, and what they are refused with.
#include "service/predict_service.h"
#include "tests/check.h"
#include "tests/made_segment.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr u64 kS = 1'000'000'000, kReceived = 100 * kS;

// An admission without a door: a test says when calls came, what they hold, and when they were answered.
struct World {
  explicit World(TimeLimits limits = {10 * kS, 60 * kS}) : options(with(limits)) { info.receive_ns = kReceived; }
  static PredictOptions with(TimeLimits limits) {
    PredictOptions options;
    options.settings.default_timeout_ns = limits.default_ns;
    options.settings.max_timeout_ns = limits.max_ns;
    return options;
  }

  u32 open(GroupKind kind, u32 items = 0) {
    return groups.open({}, {.kind = kind, .method = kPredictBatch, .writer = nullptr, .items = items}, info);
  }
  ItemTime time(u32 group = Groups::kNone, u64 timeout_s = 0) {
    RequestView view;
    view.timeout_us = timeout_s * 1'000'000;
    const Origin from{.call = {}, .info = &info, .method = kPredictBatch, .group = group};
    return admission.time_of(view, from);
  }
  // The rate of a queue that is never empty, of items of this many tokens.
  void answer(u64 items_per_s, u64 tokens = 8) {
    Route& route = segment.route(0);
    route.state = RouteState::kServing, route.dispatchers = 1, route.max_batch_items = 4;
    route.max_queue_items = 1000;
    segment.request_ring(0, 0, kNormal).tail = 64;
    for (u64 tenth = 1; tenth < 100; tenth++) {
      segment.dispatcher(0).items_done = tenth * items_per_s / 10;
      segment.dispatcher_stats(0).step_tokens = tenth * items_per_s / 10 * tokens;
      segment.dispatcher(0).step_usual_ns = kS / 10;
      tables.loads.look(tenth * kS / 10);
    }
  }

  const PredictOptions options;
  Segment segment = test::made_segment({.slots = 64, .max_tokens = 8, .answer_bytes = 64});
  SlotEvents events{tables, answers};
  WakeFds fds;
  Tables tables{segment, &fds, options, events};
  AnswerPath answers{tables};
  Groups& groups = tables.groups;
  const CallFit& fit = tables.fit;
  Admission admission{tables};
  CallInfo info{};
};

void check(const ItemTime& found, u64 due_s, u64 last_s, TimeBound bound) {
  CHECK_EQ(found.due_ns, due_s ? kReceived + due_s * kS : 0);
  CHECK_EQ(found.last_ns, last_s ? kReceived + last_s * kS : 0);
  CHECK(found.bound == bound);
}

}  // namespace

TEST(a_request_has_its_own_time_or_the_default) {
  World w;
  check(w.time(), 10, 10, TimeBound::kDefault);
  check(w.time(Groups::kNone, 3), 3, 3, TimeBound::kOwn);
  check(w.time(Groups::kNone, 30), 30, 30, TimeBound::kOwn);  // longer than the default
  check(w.time(Groups::kNone, 90), 60, 60, TimeBound::kMax);
  w.info.deadline_ns = kReceived + 20 * kS;
  check(w.time(), 20, 20, TimeBound::kOwn);
  check(w.time(Groups::kNone, 30), 20, 20, TimeBound::kOwn);
  w.info.deadline_ns = kReceived + 90 * kS;
  check(w.time(), 60, 60, TimeBound::kMax);
}

TEST(limits_of_0_are_none_and_the_maximum_is_not_below_the_default) {
  World endless({0, 60 * kS}), unbounded({10 * kS, 0}), low({10 * kS, 5 * kS});
  check(endless.time(), 0, 0, TimeBound::kOwn);
  check(endless.time(Groups::kNone, 90), 90, 90, TimeBound::kOwn);
  check(unbounded.time(Groups::kNone, 90), 90, 90, TimeBound::kOwn);
  check(low.time(Groups::kNone, 90), 10, 10, TimeBound::kMax);
}

TEST(an_item_behind_others_of_its_call_has_the_default_from_the_newest_answer) {
  World w;
  const u32 g = w.open(GroupKind::kTogether, 3);
  check(w.time(g), 10, 10, TimeBound::kDefault);  // nothing of its call is before it
  w.groups.link(g, 5, 0);
  check(w.time(g), 10, 60, TimeBound::kDefault);
  w.groups.note_answer(g, kReceived + 8 * kS);
  check(w.time(g), 18, 60, TimeBound::kDefault);
  w.groups.note_answer(g, kReceived + 55 * kS);
  check(w.time(g), 60, 60, TimeBound::kDefault);  // the bound of the whole call
  check(w.time(g, 4), 4, 4, TimeBound::kOwn);     // the client's own binds the whole call
  w.info.deadline_ns = kReceived + 20 * kS;
  check(w.time(g), 20, 20, TimeBound::kOwn);
}

TEST(a_deadline_of_a_stream_gives_its_requests_no_longer_time) {
  World w;
  w.info.deadline_ns = kReceived + 30 * kS;
  const u32 g = w.open(GroupKind::kEach);
  check(w.time(g), 10, 10, TimeBound::kDefault);
  w.groups.link(g, 5, 0);
  check(w.time(g), 10, 30, TimeBound::kDefault);
  check(w.time(g, 40), 30, 30, TimeBound::kOwn);
}

TEST(an_answer_moves_the_times_that_have_passed) {
  Deadlines deadlines(4);
  deadlines.set(0, 10), deadlines.set(1, 10), deadlines.set(2, 30);
  u32 expired = 0;
  deadlines.advance(12, [&](u32 slot) { return slot ? expired++, Deadlines::kNone : u64(20); });
  CHECK_EQ(expired, 1u);
  CHECK_EQ(deadlines.soonest_ns(), u64(20));
  deadlines.advance(25, [&](u32) { return expired++, Deadlines::kNone; });
  CHECK_EQ(expired, 2u);
  CHECK_EQ(deadlines.soonest_ns(), u64(30));
}

TEST(a_call_that_cannot_fit_is_refused_for_ever_and_says_how_many_do) {
  World w;
  w.answer(100);
  const u32 small = w.open(GroupKind::kTogether, 400), large = w.open(GroupKind::kTogether, 1000);
  const u64 last = kReceived + 5 * kS;
  CHECK(!w.fit.check(small, 0, kReceived, last, TimeBound::kOwn));
  Refusal refusal = w.fit.check(large, 0, kReceived, last, TimeBound::kOwn);
  CHECK(refusal.code == StatusCode::kInvalidArgument);
  CHECK_EQ(refusal.retry_after_ms, -1);
  CHECK(refusal.message.find("1000 inputs take longer than the 5000 ms that its timeout") != std::string_view::npos);
  CHECK(refusal.message.find("about 500 fit") != std::string_view::npos);
  CHECK(!w.fit.check(large, 0, kReceived, last, TimeBound::kDefault));  // 6000 fit into the maximum
  const u32 huge = w.open(GroupKind::kTogether, 7000);
  refusal = w.fit.check(huge, 0, kReceived, last, TimeBound::kDefault);
  CHECK(refusal.message.find("60000 ms that the server's --max-timeout") != std::string_view::npos);
}

// The rate may be that of other calls, whose items are of another size. Longer ones than those do not count more: a
// call is refused for ever only for what is known.
TEST(shorter_items_fit_in_greater_numbers) {
  World w;
  w.answer(100, 64);
  const u64 last = kReceived + 5 * kS;
  for (const auto& [tokens, refused] : {std::pair{64u, true}, {24u, false}, {128u, true}}) {
    const u32 g = w.open(GroupKind::kTogether, 1000);
    w.groups.count_tokens(g, tokens);
    const Refusal refusal = w.fit.check(g, 0, kReceived, last, TimeBound::kOwn);
    CHECK_EQ(bool(refusal), refused);
    if (refused) CHECK(refusal.message.find("about 500 fit") != std::string_view::npos);
    CHECK(!w.fit.check(g, 0, kReceived, last, TimeBound::kOwn, 2));  // half of it fits
  }
}

TEST(a_call_of_one_status_that_is_larger_than_the_queue_is_refused_for_ever) {
  struct Writer final : AnswerWriter {
    size_t room(const AnsweredCall&, std::span<const ResponseView>) const override { return 0; }
    u8* write(const AnsweredCall&, std::span<const ResponseView>, u8* out) const override { return out; }
    bool has_item_statuses() const override { return statuses; }
    bool statuses = false;
  } one, each;
  each.statuses = true;
  World w;
  w.answer(100);
  w.segment.route(0).max_queue_items = 50;  // 64 wait
  for (const auto& [writer, inputs, code] : {std::tuple{&one, 51u, StatusCode::kInvalidArgument},
                                             {&one, 50u, StatusCode::kResourceExhausted},
                                             {&each, 51u, StatusCode::kResourceExhausted}}) {
    const u32 g =
        w.groups.open({}, {.kind = GroupKind::kTogether, .method = kOther, .writer = writer, .items = inputs}, w.info);
    const Origin from{.call = {}, .info = &w.info, .method = kOther, .group = g, .batch_slots = 1};
    const Refusal refusal = w.admission.check({}, 0, 0, from, kReceived, w.time(g));
    CHECK(refusal.code == code);
    CHECK_EQ(refusal.retry_after_ms < 0, code == StatusCode::kInvalidArgument);
  }
}

// Of 1,000 texts that wait, nearly all are this call's own.
TEST(an_item_is_refused_for_the_items_of_others_only) {
  World w({2 * kS, 60 * kS});
  w.answer(16);  // 64 wait: four seconds
  const u32 g = w.open(GroupKind::kTogether, 60);
  RequestView view;
  const Origin from{.call = {}, .info = &w.info, .method = kPredictBatch, .group = g};
  const auto refused = [&] { return w.admission.check(view, 0, 0, from, kReceived, w.time(g)).code; };
  CHECK(refused() == StatusCode::kResourceExhausted);
  for (u32 slot = 0; slot < 60; slot++) w.groups.link(g, slot, 0);
  CHECK(refused() == StatusCode::kOk);
}

// 64 items wait and 100 a second are answered, so a new one takes 740 ms.
TEST(a_refusal_for_lack_of_time_names_the_limit_of_the_server) {
  constexpr u64 kMs = kS / 1000;
  struct Case {
    u64 default_ms, most_ms, own_ms;
    u32 of_its_call;
    std::string_view left, limit;
  } const cases[] = {
      {500, 600, 0, 0, " 500 ms left",
       ": the request has no timeout, and --default-timeout is 500 ms; send a longer one with it"},
      {500, 600, 550, 0, " 550 ms left", ""},
      {500, 600, 9000, 0, " 600 ms left", ": --max-timeout has limited its time to 600 ms"},
      {500, 600, 0, 64, " 600 ms left", ": --max-timeout has limited its time to 600 ms"},
      {500, 500, 0, 64, " 500 ms left",
       ": the request has no timeout, and --default-timeout is 500 ms; send a longer one with it"},
  };
  for (const Case& c : cases) {
    World w({c.default_ms * kMs, c.most_ms * kMs});
    w.answer(100);
    w.info.deadline_ns = c.own_ms ? kReceived + c.own_ms * kMs : 0;
    const u32 g = c.of_its_call ? w.open(GroupKind::kTogether, 8) : Groups::kNone;
    for (u32 slot = 0; slot < c.of_its_call; slot++) w.groups.link(g, slot, 0);
    RequestView view;
    const Origin from{.call = {}, .info = &w.info, .method = kPredictBatch, .group = g};
    const ItemTime time = w.admission.time_of(view, from);
    const Refusal refusal = w.admission.check(view, 0, 0, from, kReceived, time);
    CHECK(refusal.code == StatusCode::kResourceExhausted && refusal.retry_after_ms > 0);
    CHECK(refusal.message.ends_with(std::string(c.left).append(c.limit)));
    const ItemTime whole{time.last_ns, time.last_ns, time.bound};
    const Refusal late = w.admission.check(view, 0, 0, from, time.last_ns, whole);
    CHECK(late.code == StatusCode::kDeadlineExceeded);
    CHECK(late.message.ends_with(std::string("at stage receive").append(c.limit)));
  }
}
