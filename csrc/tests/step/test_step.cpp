// gather and scatter: the packed layout, and what an answer becomes on its way into a slot.
#include <cmath>
#include <map>
#include <memory>

#include "core/slab.h"
#include "step/encode/encode_stepper.h"
#include "tests/made_segment.h"

using namespace fastqps;

namespace {

struct Answers : test::SlabHost {
  std::map<u32, Verdict> got;
  void answer(u32 slot, u64, Verdict verdict) { got[slot] = verdict; }
};

// One front door, one dispatcher, one model, in one thread.
struct World : test::OwnSegment {
  static constexpr u32 kWidth = 8, kItems = 4, kTokens = 32, kVocab = 1000;
  Answers answers;
  std::unique_ptr<Slab<Answers>> slab;
  std::unique_ptr<EncodeStepper> stepper;
  i32 ids[kTokens], positions[kTokens], types[kTokens], starts[kItems + 1];
  float output[kItems * kWidth] = {};
  DeviceStamps stamps;
  u32 step;

  explicit World(Task task = Task::kEmbed, BatchLimits limits = {kItems, kTokens, 0})
      : OwnSegment({.slots = 16, .max_tokens = 32, .answer_bytes = 8 * kWidth}) {
    Route& route = segment.route(0);
    route.task = task;
    route.dimensions = kWidth;
    route.vocab_size = kVocab;
    route.pair_type_id = 1;
    route.position_offset = 2;
    route.normalize = 1;
    route.dispatchers = 1;
    slab = std::make_unique<Slab<Answers>>(segment, &fds, 0, answers);
    slab->adopt();
    stepper = std::make_unique<EncodeStepper>(segment, &fds, 0, 1, 0, limits);
    step = add(0);
  }
  // One more step of a lane; all have the same buffers.
  u32 add(u32 lane) {
    return stepper->add({ids, positions, types, starts, output, &stamps, kItems, kTokens, kWidth}, lane);
  }
  Slot& put(std::initializer_list<u32> tokens, u32 first_len, Class kind = kNormal, u64 deadline_ns = 0) {
    i64 i = slab->take();
    CHECK(i >= 0);
    Slot& s = slab->slot(u32(i));
    u32 n = 0;
    for (u32 t : tokens) segment.ids(s)[n++] = t;
    s.n_tokens.store(n, kRelaxed);
    s.first_len = first_len;
    s.deadline_ns = deadline_ns;
    s.dimensions = 0, s.top_labels = 0, s.dtype = 0, s.flags = 0;
    CHECK(slab->put(u32(i), 0, kind, 0, now_ns()));
    slab->publish();
    return s;
  }
  // The device takes so long.
  void compute(u32 us) {
    stamps.start_ns = i64(now_ns());
    usleep(us);
    stamps.end_ns = i64(now_ns());
  }
  // One whole step; the slots' bytes stay readable for the caller.
  void run(u32 us = 0) {
    CHECK(stepper->gather(0) == i32(step));
    CHECK(stepper->launch(step));
    if (us) compute(us);
    CHECK(stepper->scatter(step));
  }
};

float half_to_float(u16 h) {
  int exponent = h >> 10 & 31;
  float mantissa = float(h & 1023);
  float value = exponent == 0    ? std::ldexp(mantissa, -24)
                : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                 : std::ldexp(mantissa + 1024, exponent - 25);
  return h & 0x8000 ? -value : value;
}

}  // namespace

TEST(items_are_packed_one_behind_the_other) {
  World w;
  w.put({101, 7, 102}, 3);
  w.put({101, 8, 9, 102, 5, 102}, 4);  // a pair: its second text has two tokens
  CHECK(w.stepper->gather(0) == i32(w.step));
  const i32 ids[] = {101, 7, 102, 101, 8, 9, 102, 5, 102}, positions[] = {2, 3, 4, 2, 3, 4, 5, 6, 7},
            types[] = {0, 0, 0, 0, 0, 0, 0, 1, 1}, starts[] = {0, 3, 9};
  for (int i = 0; i < 9; i++) {
    CHECK_EQ(w.ids[i], ids[i]);
    CHECK_EQ(w.positions[i], positions[i]);
    CHECK_EQ(w.types[i], types[i]);
  }
  for (int i = 0; i < 3; i++) CHECK_EQ(w.starts[i], starts[i]);
  CHECK_EQ(w.stepper->step(w.step).n_items, 2u);
  CHECK_EQ(w.stepper->step(w.step).n_tokens, 9u);
}

// As RoBERTa in transformers: the position below the first, and the next token goes on as if it were not there.
TEST(padding_in_a_text_is_not_counted) {
  World w;
  w.put({1, 7, 1, 1, 8}, 5);
  w.put({9, 1, 0}, 3);
  CHECK(w.stepper->gather(0) == i32(w.step));
  const i32 positions[] = {1, 2, 1, 1, 3, 2, 1, 3};
  for (int i = 0; i < 8; i++) CHECK_EQ(w.positions[i], positions[i]);
}

// Of an input that begins with the model's opening, the device is given what follows, and a step has room for as much.
TEST(an_opening_is_not_computed_again) {
  World w;
  w.segment.route(0).opening_tokens = 3, w.segment.route(0).position_offset = 0;
  w.put({7, 8, 9, 5, 6}, 5).opening = 3;
  w.put({7, 8, 4}, 3).opening = 2;
  w.put({1, 2}, 2);
  w.put({7, 8}, 2).opening = 9;  // of a broken front door
  CHECK(w.stepper->gather(0) == i32(w.step));
  const i32 ids[] = {5, 6, 4, 1, 2, 7, 8}, positions[] = {3, 4, 2, 0, 1, 0, 1}, starts[] = {0, 2, 3, 5, 7};
  for (int i = 0; i < 7; i++) CHECK_EQ(w.ids[i], ids[i]), CHECK_EQ(w.positions[i], positions[i]);
  for (int i = 0; i < 5; i++) CHECK_EQ(w.starts[i], starts[i]);
  CHECK_EQ(w.stepper->step(w.step).batch.n_tokens, 7u);
  CHECK(w.stepper->launch(w.step) && w.stepper->scatter(w.step));

  World small(Task::kEmbed, {4, 4, 0});
  small.segment.route(0).opening_tokens = 3, small.segment.route(0).position_offset = 0;
  for (int i = 0; i < 3; i++) small.put({7, 8, 9, 5, 6}, 5).opening = 3;
  CHECK(small.stepper->gather(0) == i32(small.step));
  CHECK_EQ(small.stepper->step(small.step).n_items, 2u);
}

// The device would read behind its embedding table.
TEST(only_the_item_with_an_unknown_token_fails) {
  World w;
  w.put({101, 7, 102}, 3);
  const Slot& far = w.put({101, 0xFFFFFFFF, 102}, 3);
  w.put({101, World::kVocab - 1, 102}, 3);
  const Slot& next = w.put({World::kVocab}, 1);
  CHECK(w.stepper->gather(0) == i32(w.step));
  CHECK_EQ(w.stepper->step(w.step).n_items, 2u);
  CHECK_EQ(w.stepper->step(w.step).n_tokens, 6u);
  const i32 ids[] = {101, 7, 102, 101, World::kVocab - 1, 102};
  for (int i = 0; i < 6; i++) CHECK_EQ(w.ids[i], ids[i]);
  for (const Slot* slot : {&far, &next}) CHECK_EQ(slot->status, 13);
  CHECK(w.stepper->launch(w.step) && w.stepper->scatter(w.step));

  const Slot& alone = w.put({101, World::kVocab}, 2);
  CHECK_EQ(w.stepper->gather(0), kNothing);
  CHECK_EQ(alone.status, 13);
}

TEST(the_high_class_goes_first) {
  World w(Task::kEmbed, {1, 32, 0});
  w.put({1}, 1, kLow);
  w.put({2}, 1, kNormal);
  w.put({3}, 1, kHigh);
  for (i32 want : {3, 2, 1}) {
    w.run();
    CHECK_EQ(w.ids[0], want);
  }
}

TEST(a_step_keeps_to_its_tokens) {
  World w(Task::kEmbed, {4, 8, 0});
  w.put({1, 1, 1, 1, 1}, 5);
  w.put({2, 2, 2}, 3);
  w.put({3}, 1);
  w.run();
  CHECK_EQ(w.stepper->step(w.step).n_tokens, 8u);
  w.run();
  CHECK_EQ(w.ids[0], 3);
}

TEST(embeddings_are_normalized_as_asked) {
  World w;
  for (u32 i = 0; i < w.kWidth; i++) w.output[i] = w.output[w.kWidth + i] = w.output[2 * w.kWidth + i] = float(i) - 3;
  Slot& usual = w.put({1}, 1);
  Slot& raw = w.put({1}, 1);
  raw.flags = kNormalizeSet;
  Slot& cut = w.put({1}, 1);
  cut.dimensions = 3;
  w.run();
  const float norm = std::sqrt(9 + 4 + 1 + 0 + 1 + 4 + 9 + 16.0f), norm_cut = std::sqrt(9 + 4 + 1.0f);
  auto value = [&](Slot& s, u32 i) { return reinterpret_cast<float*>(w.segment.answer(s))[i]; };
  for (u32 i = 0; i < w.kWidth; i++) {
    CHECK(std::abs(value(usual, i) - (float(i) - 3) / norm) < 1e-6f);
    CHECK_EQ(value(raw, i), float(i) - 3);
  }
  CHECK_EQ(cut.n_values, 3u);
  for (u32 i = 0; i < 3; i++) CHECK(std::abs(value(cut, i) - (float(i) - 3) / norm_cut) < 1e-6f);
}

TEST(an_item_whose_result_is_not_finite_fails_alone) {
  for (const Task task : {Task::kEmbed, Task::kClassify, Task::kEmbedMulti, Task::kClassifyTokens}) {
    for (const float value : {NAN, INFINITY, -INFINITY}) {
      World w(task);
      const Slot& good = w.put({1}, 1);
      const Slot& bad = w.put({1}, 1);
      w.output[World::kWidth + 3] = value;
      w.run();
      CHECK(!good.status && good.kind != Answer::kRefusal);
      CHECK_EQ(bad.status, 13);
      CHECK(bad.kind == Answer::kRefusal && bad.n_values);
    }
  }
}

TEST(embeddings_become_float16_and_int8) {
  World w;
  const float row[] = {0, 1, -1, 0.5f, 65504, 1e6f, 6e-8f, -0.333251953125f};
  for (u32 i = 0; i < w.kWidth; i++) w.output[i] = row[i], w.output[w.kWidth + i] = row[i] / 2;
  Slot& half = w.put({1}, 1);
  half.dtype = 2, half.flags = kNormalizeSet;
  Slot& byte = w.put({1}, 1);
  byte.dtype = 3, byte.flags = kNormalizeSet;
  w.run();
  const u16* halves = reinterpret_cast<u16*>(w.segment.answer(half));
  const u16 want[] = {0, 0x3c00, 0xbc00, 0x3800, 0x7bff, 0x7c00, 1, 0xb555};
  for (u32 i = 0; i < 8; i++) CHECK_EQ(halves[i], want[i]);
  const auto* bytes = reinterpret_cast<std::int8_t*>(w.segment.answer(byte));
  const int bytes_want[] = {0, 64, -63, 32, 127, 127, 0, -21};
  for (u32 i = 0; i < 8; i++) CHECK_EQ(int(bytes[i]), bytes_want[i]);
}

TEST(float16_is_rounded_to_nearest_and_ties_to_even) {
  World w;
  const float row[] = {1 + 0x1p-11f, 1 + 0x3p-11f, -1 - 0x1p-11f - 0x1p-20f, 1 + 0x1p-11f - 0x1p-20f, 65519, 65520,
                       0x1p-25f,     0x3p-26f};
  for (u32 i = 0; i < w.kWidth; i++) w.output[i] = row[i];
  Slot& half = w.put({1}, 1);
  half.dtype = 2, half.flags = kNormalizeSet;
  w.run();
  const u16 want[] = {0x3c00, 0x3c02, 0xbc01, 0x3c00, 0x7bff, 0x7c00, 0, 1};
  for (u32 i = 0; i < w.kWidth; i++) CHECK_EQ(reinterpret_cast<u16*>(w.segment.answer(half))[i], want[i]);
}

TEST(every_finite_float16_survives_the_way_there_and_back) {
  constexpr u32 kExponent = 0x7c00;
  World w;
  for (u32 h = 0; h < 0x10000; h += World::kWidth) {
    for (u32 i = 0; i < World::kWidth; i++) w.output[i] = half_to_float(u16(h + i));
    Slot& s = w.put({1}, 1);
    s.dtype = 2, s.flags = kNormalizeSet;
    w.run();
    w.slab->drain();
    if ((h & kExponent) == kExponent) continue;
    for (u32 i = 0; i < World::kWidth; i++) CHECK_EQ(reinterpret_cast<u16*>(w.segment.answer(s))[i], h + i);
  }
}

TEST(labels_come_best_first) {
  World w(Task::kClassify);
  w.segment.route(0).activation = Activation::kSoftmax;
  const float logits[] = {0, 2, 2, -1, -50, 1, 0, 3};
  for (u32 i = 0; i < w.kWidth; i++) w.output[i] = w.output[w.kWidth + i] = logits[i];
  Slot& raw = w.put({1}, 1);
  raw.flags = kRawScores;
  Slot& two = w.put({1}, 1);
  two.top_labels = 2;
  w.run();
  const auto* labels = reinterpret_cast<LabelScore*>(w.segment.answer(raw));
  const u32 order[] = {7, 1, 2, 5, 0, 6, 3, 4};  // equal scores by index
  for (u32 i = 0; i < 8; i++) CHECK_EQ(labels[i].index, order[i]);
  CHECK_EQ(two.n_values, 2u);
  const auto* top = reinterpret_cast<LabelScore*>(w.segment.answer(two));
  float sum = 0;
  for (u32 i = 0; i < 8; i++) sum += std::exp(w.output[w.kWidth + i] - 3);
  CHECK_EQ(top[0].index, 7u);
  CHECK(std::abs(top[0].score - 1 / sum) < 1e-6f);
  CHECK_EQ(top[1].index, 1u);
}

TEST(expired_requests_never_reach_the_device) {
  World w;
  Slot& late = w.put({1}, 1, kNormal, now_ns() - 1);
  w.put({2}, 1);
  w.run();
  CHECK_EQ(w.stepper->step(w.step).n_items, 1u);
  CHECK_EQ(w.ids[0], 2);
  CHECK_EQ(late.status, 4);
  w.slab->drain();
  CHECK_EQ(w.answers.got.size(), 2u);
  CHECK_EQ(w.slab->used(), 0u);
}

TEST(what_would_be_late_is_shed_and_the_rest_runs) {
  World w;
  w.put({1, 1, 1, 1}, 4);
  CHECK(w.stepper->gather(0) == i32(w.step));
  CHECK(w.stepper->launch(w.step));
  w.compute(200'000);  // 4 tokens in 200 ms
  CHECK(w.stepper->scatter(w.step));
  w.slab->drain();
  w.put({3, 3}, 2, kNormal, now_ns() + test::kPatienceNs);
  Slot& hopeless = w.put({2, 2}, 2, kNormal, now_ns() + 60'000'000);  // it would take 100 ms
  w.put({5, 5}, 2, kNormal, now_ns() + test::kPatienceNs);
  CHECK(w.stepper->gather(0) == i32(w.step));
  CHECK_EQ(w.stepper->step(w.step).n_items, 2u);
  CHECK(w.ids[0] == 3 && w.ids[2] == 5);
  CHECK_EQ(hopeless.status, 8);
  CHECK(w.stepper->launch(w.step));
  CHECK(w.stepper->scatter(w.step));
  // The last one is never shed: a wrong expectation could not be corrected otherwise.
  w.put({4, 4, 4, 4}, 4, kNormal, now_ns() + 60'000'000);
  CHECK(w.stepper->gather(0) == i32(w.step));
  CHECK_EQ(w.ids[0], 4);
}

TEST(the_next_step_is_prepared_late) {
  World w;
  const u32 second = w.add(0);
  w.put({1, 1, 1, 1}, 4);
  w.run(20'000);  // 4 tokens in 20 ms, or longer
  const u64 took = u64(w.stamps.end_ns - w.stamps.start_ns);
  w.put({1, 1, 1, 1}, 4);
  CHECK(w.stepper->gather(0) == i32(second));
  const u64 start = now_ns();
  CHECK(w.stepper->launch(second));
  for (u32 i = 0; i < w.kItems; i++) w.put({2}, 1);
  // A full batch, but it can still be cancelled, and grow old.
  CHECK(w.stepper->gather(2 * test::kPatienceNs) == i32(w.step));
  CHECK(now_ns() - start > took / 2 && now_ns() - start < test::kPatienceNs);
}

TEST(a_ring_ends_every_wait) {
  World w;
  u64 start = now_ns();
  const auto rung = [&] {
    signal_fd(w.fds.dispatcher[0]);
    CHECK_EQ(w.stepper->gather(2 * test::kPatienceNs), kNothing);
  };
  rung();  // nothing waits
  w.add(0);
  w.put({1}, 1);
  CHECK(w.stepper->gather(0) == i32(w.step) && w.stepper->launch(w.step));
  rung();  // no full batch waits
  signal_fd(w.fds.dispatcher[0]);
  w.stepper->rest(2 * test::kPatienceNs);
  CHECK(now_ns() - start < test::kPatienceNs);
}

TEST(a_free_lane_takes_what_waits) {
  World w;
  const u32 ahead = w.add(0), beside = w.add(1), last = w.add(1);
  Slot& first = w.put({1}, 1);
  CHECK(w.stepper->gather(0) == i32(w.step) && w.stepper->launch(w.step));
  CHECK_EQ(w.stepper->gather(0), kNothing);
  w.put({2}, 1);
  CHECK(w.stepper->gather(0) == i32(beside) && w.stepper->launch(beside));  // at once, and however little it is
  w.put({3}, 1);
  CHECK_EQ(w.stepper->gather(0), kNothing);  // both run: it waits for company
  for (u32 i = 0; i < 2 * w.kItems; i++) w.put({4}, 1);
  CHECK(w.stepper->gather(0) == i32(ahead) && w.stepper->launch(ahead));
  CHECK(w.stepper->gather(0) == i32(last) && w.stepper->launch(last));
  CHECK_EQ(w.stepper->gather(0), kNothing);  // no step is free
  w.compute(1000);
  CHECK(w.stepper->scatter(beside));  // the lanes end in any order
  CHECK_EQ(w.stepper->gather(0), kNothing);
  for (u32 i = 1; i < w.kItems; i++) w.put({5}, 1);
  CHECK(w.stepper->gather(0) == i32(beside) && w.stepper->launch(beside));
  CHECK(w.stepper->scatter(last) && w.stepper->scatter(w.step));
  CHECK(first.scattered_ns >= first.launched_ns);
  CHECK(w.stepper->scatter(ahead) && w.stepper->scatter(beside));
  w.slab->drain();
  CHECK_EQ(w.answers.got.size(), 2u + 3 * w.kItems);
  CHECK_EQ(w.slab->used(), 0u);
}

TEST(steps_keep_to_the_limits_that_the_route_has_now) {
  World w;
  const u32 ahead = w.add(0), beside = w.add(1);
  w.add(1);
  Route& route = w.segment.route(0);
  route.max_batch_items = 2;
  for (u32 i = 0; i < 10; i++) w.put({1}, 1);
  const auto launch = [&](u32 step, u32 items) {
    CHECK(w.stepper->gather(0) == i32(step));
    CHECK_EQ(w.stepper->step(step).n_items, items);
    CHECK(w.stepper->launch(step));
  };
  launch(w.step, 2);
  route.lanes = 1;
  launch(ahead, 2);  // two that wait are a full step now
  CHECK_EQ(w.stepper->gather(0), kNothing);
  route.lanes = 2, route.sync_steps = 1;
  launch(beside, 2);
  CHECK_EQ(w.stepper->gather(0), kNothing);
  CHECK(w.stepper->scatter(w.step));
  CHECK_EQ(w.stepper->gather(0), kNothing);  // one of its steps still runs
  CHECK(w.stepper->scatter(ahead));
  route.max_batch_items = 3;
  launch(w.step, 3);
  CHECK_EQ(w.stepper->gather(0), kNothing);
  route.max_batch_items = 0, route.sync_steps = 0;
  for (u32 i = 0; i < 3; i++) w.put({1}, 1);
  launch(ahead, w.kItems);
  CHECK(w.stepper->scatter(beside) && w.stepper->scatter(w.step) && w.stepper->scatter(ahead));
  w.slab->drain();
  CHECK_EQ(w.slab->used(), 0u);
}

TEST(what_waits_for_company_is_let_go_when_a_lane_rings) {
  World w(Task::kEmbed, {World::kItems, World::kTokens, 2 * test::kPatienceNs});
  w.add(1);
  for (u32 i = 0; i < w.kItems; i++) w.put({1}, 1);
  CHECK(w.stepper->gather(0) == i32(w.step) && w.stepper->launch(w.step));
  w.put({2}, 1);
  signal_fd(w.fds.dispatcher[0]);
  const u64 start = now_ns();
  CHECK_EQ(w.stepper->gather(2 * test::kPatienceNs), 1);
  CHECK(now_ns() - start < test::kPatienceNs);
}

TEST(a_vector_for_each_token_that_has_one) {
  World w(Task::kEmbedMulti);
  for (u32 i = 0; i < w.kItems * w.kWidth; i++) w.output[i] = float(i + 1);
  Slot& all = w.put({5, 6}, 2);
  Slot& some = w.put({7 | kNoOwnAnswer, 8}, 2);
  all.flags = kNormalizeSet;
  some.dimensions = 2;
  w.run();
  CHECK_EQ(w.ids[2], 7);
  const auto values = [&](Slot& s) { return reinterpret_cast<const float*>(w.segment.answer(s)); };
  CHECK(all.kind == Answer::kFloats && all.status == 0);
  CHECK_EQ(all.n_values, 2 * w.kWidth);
  for (u32 i = 0; i < 2 * w.kWidth; i++) CHECK_EQ(values(all)[i], float(i + 1));
  CHECK_EQ(some.n_values, 2u);  // of the fourth row, of length 1
  const float first = float(3 * w.kWidth + 1), norm = std::sqrt(first * first + (first + 1) * (first + 1));
  CHECK(std::abs(values(some)[0] - first / norm) < 1e-6 && std::abs(values(some)[1] - (first + 1) / norm) < 1e-6);
}

TEST(vectors_for_which_a_door_left_no_room_are_not_written) {
  World w(Task::kEmbedMulti);
  const Slot& s = w.put({5, 6, 7}, 3);  // a slot has room for two
  w.run();
  CHECK(s.kind == Answer::kNone);
  CHECK_EQ(s.status, 13u);
}

TEST(a_dispatcher_that_was_declared_dead_notices) {
  World w;
  Slot& s = w.put({1}, 1);
  CHECK(w.stepper->gather(0) == i32(w.step));
  s.state.store(Word::make(State::kQueued, 9).bits);  // as a door does when it settles
  CHECK(!w.stepper->launch(w.step));
}
