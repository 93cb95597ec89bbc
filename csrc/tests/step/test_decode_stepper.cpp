// Requests through a decoder's dispatcher: one front door and up to two dispatchers in one thread, over ModelDevice.
#include <map>
#include <random>

#include "core/supervise.h"
#include "tests/step/decode_stepper_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

TEST(requests_join_and_leave_at_any_step) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  std::map<u32, List> want;
  for (u32 round = 0; round < 200; round++) {
    for (u32 i = 0; i < round % 3 && w.slab->used() < 16; i++) {
      const List prompt{round, i, 5};
      const u32 n = 1 + (round * 7 + i) % 12;
      const u32 slot = w.put(prompt, n, round % 2 ? kProgress : 0);
      CHECK(!want.contains(slot));
      want[slot] = expected_tokens(prompt, n);
    }
    d.turn();
    w.slab->drain();
    for (auto& [slot, verdict] : w.host.ended) {
      CHECK(verdict == Verdict::kDone && w.host.status[slot] == 0);
      CHECK(w.host.tokens[slot] == want[slot]);
      want.erase(slot);
    }
    w.host.ended.clear();
  }
  d.finish(*w.slab);
  CHECK_EQ(w.slab->used(), 0u);
  for (auto& [slot, tokens] : want) CHECK(w.host.tokens[slot] == tokens);
  CHECK_EQ(w.segment.dispatcher(0).running.load(), 0u);
  CHECK(w.segment.dispatcher_stats(0).generated_tokens.load() > 500);
}

TEST(progress_is_told_only_to_who_asked) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 told = w.put({1, 2}, 6, kProgress | kIgnoreEos), silent = w.put({3}, 6, kIgnoreEos);
  for (u32 step = 1; step <= 5; step++) {
    CHECK(d.launch());
    d.retire();
    w.slab->drain();
    CHECK_EQ(w.host.progressed[told], step);
    CHECK(!w.host.progressed.contains(silent));
    const u32* ids = reinterpret_cast<const u32*>(w.segment.answer(w.segment.slot(0, told)));
    CHECK_EQ(ids[step - 1], expected_tokens({1, 2}, step, true).back());
    const Slot& s = w.segment.slot(0, told);  // its front door may end it now, and tell these times
    CHECK(s.claimed_ns && s.claimed_ns <= s.gathered_ns && s.gathered_ns <= s.launched_ns);
  }
  CHECK(d.launch());
  d.retire();
  w.slab->drain();
  CHECK_EQ(w.host.ended.size(), 2u);
}

TEST(a_sequence_without_a_number_for_its_token_ends_alone) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 bad = w.put({1, 2}, 6, kIgnoreEos), good = w.put({3}, 6, kIgnoreEos);
  CHECK(d.launch());
  const u32 s = d.flying[0].front();
  const DecodeLayout& layout = d.stepper.step(s).layout;
  d.devices[0].run(layout, d.in[s].data(), d.out[s].data());
  d.out[s][layout.out_logprobs] = std::bit_cast<i32>(NAN);
  CHECK(d.stepper.scatter(s));
  d.flying[0].pop_front();
  d.finish(*w.slab);
  CHECK_EQ(w.host.status[bad], 13);
  CHECK(!w.host.tokens.contains(bad));
  CHECK(w.host.tokens[good] == expected_tokens({3}, 6, true));
  CHECK_EQ(w.slab->used(), 0u);
}

// A cancel reaches a sequence that runs, with a step of it on its way: its cache slot serves the next one at once.
TEST(a_cancelled_sequence_leaves_at_the_next_step) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  std::vector<u32> slots;
  for (u32 i = 0; i < 4; i++) slots.push_back(w.put({i}, 12, kIgnoreEos));
  CHECK(d.launch());
  const u32 fifth = w.put({77}, 3, kIgnoreEos);  // no cache slot is left for it
  CHECK(d.launch());
  d.retire();
  CHECK(w.state(fifth) == State::kQueued);
  CHECK(w.slab->cancel(slots[1]) == Cancel::kWaiting);
  CHECK(w.state(slots[1]) == State::kLaunched);
  CHECK(d.launch());  // retires the cancelled one; its late row is on the device
  w.slab->drain();
  CHECK(w.state(slots[1]) == State::kFree);
  CHECK(!w.host.ended.contains(slots[1]));                      // nobody waits for it
  CHECK_EQ(w.segment.dispatcher(0).items_done.load(), u64(1));  // but its place is another's
  d.finish(*w.slab);
  CHECK(w.host.tokens[fifth] == expected_tokens({77}, 3, true));
  for (u32 i : {0u, 2u, 3u}) CHECK(w.host.tokens[slots[i]] == expected_tokens({i}, 12, true));
  CHECK_EQ(w.slab->used(), 0u);
}

// As the choices of one request: the first one computes their prompt. One leaves before it has had a row.
TEST(equal_prompts_are_computed_once) {
  for (const u32 max_tokens : {1u, 2u, 7u}) {
    World w(16, 20);
    Dispatcher d(w.segment, &w.fds, 0, 1, 1, {8, 160});
    const List prompt(20, 7);
    std::vector<u32> slots;
    for (u32 i = 0; i < 6; i++) slots.push_back(w.put(prompt, max_tokens + i, kIgnoreEos));
    CHECK(d.launch());
    CHECK_EQ(d.stepper.step(0).runs.size(), 1u);
    for (const u32 slot : slots) CHECK(w.state(slot) == State::kLaunched);
    if (max_tokens < 7) d.retire();  // else the next step is prepared ahead
    CHECK(w.slab->cancel(slots[3]) == Cancel::kWaiting);
    for (u32 i = 0; i < 2; i++) slots.push_back(w.put(prompt, 3, kIgnoreEos));
    CHECK(d.launch());
    const DecodeStep& second = d.stepper.step(1);
    const bool gone = max_tokens == 1;  // the prompt's own sequence: one of the last two computes it again
    CHECK_EQ(second.runs.size(), 7u - gone - gone);
    CHECK_EQ(second.n_copies, 6u - gone - gone);
    CHECK_EQ(second.n_tokens, gone ? 4 * 4 + 20u : 1 + 6 * 4u);
    d.finish(*w.slab);
    for (u32 i = 0; i < slots.size(); i++)
      if (i != 3) CHECK(w.host.tokens[slots[i]] == expected_tokens(prompt, i < 6 ? max_tokens + i : 3, true));
    CHECK_EQ(w.slab->used(), 0u);
    CHECK_EQ(w.segment.dispatcher(0).running.load(), 0u);
  }
}

TEST(a_repeated_prompt_with_a_structure_is_awaited_until_it_has_a_row) {
  World w(16, 40);
  Dispatcher d(w.segment, &w.fds, 0, 1, 2, {4, 160});
  w.structure_bytes = 64;
  const List prompt(40, 7);
  std::vector<u32> slots;
  for (u32 i = 0; i < 3; i++) slots.push_back(w.put(prompt, 6, kIgnoreEos));
  CHECK(!d.launch());
  std::vector<u64> tickets;
  for (const auto& each : d.stepper.take_structured()) tickets.push_back(each.ticket);
  for (const u64 ticket : tickets) d.stepper.compiled(ticket, StatusCode::kOk, "");
  CHECK(d.launch());
  const u32 first = d.flying[0].empty() ? 2 : 0;
  CHECK(d.stepper.masked(first) == (std::vector<std::pair<u32, u64>>{{0, tickets[0]}}));
  CHECK(!d.stepper.awaited(tickets[0]) && d.stepper.awaited(tickets[1]) && d.stepper.awaited(tickets[2]));
  CHECK(d.launch());
  CHECK_EQ(d.stepper.masked(first + 1).size(), 3u);
  CHECK(!d.stepper.awaited(tickets[1]) && !d.stepper.awaited(tickets[2]));
  for (u32 turn = 0; w.slab->used(); turn++) {
    CHECK(turn < 20);
    d.retire(0, first / 2);
    d.launch();
    w.slab->drain();
  }
  for (const u32 slot : slots) CHECK(w.host.tokens[slot] == expected_tokens(prompt, 6, true));
}

TEST(an_old_cancel_hits_nobody) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 slot = w.put({4}, 5, kIgnoreEos);
  CHECK(d.launch());
  RingLine& control = w.segment.control_ring(0, 0);
  const u32 seq = Word{w.segment.slot(0, slot).state.load()}.seq();
  control.entry[0] = control_entry(seq - 1, Control::kCancel, slot);
  control.entry[1] = control_entry(seq, Control::kCancel, slot + 1);
  control.entry[2] = control_entry(seq, Control::kStop, 0xffffff);  // no such slot
  control.tail = 3;
  d.finish(*w.slab);
  CHECK(w.host.tokens[slot] == expected_tokens({4}, 5, true));
}

TEST(expired_requests_never_reach_the_device) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 late = w.put({1}, 5, 0, 1);
  CHECK(!d.launch());
  w.slab->drain();
  CHECK_EQ(w.host.status[late], 4u);
}

// What a broken front door writes is bounded before it reaches the step.
TEST(who_would_be_late_among_those_that_run_is_refused) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const auto run_slowly = [&] { d.retire(20'000); };
  const u32 ends = w.put({1, 2}, 4, kIgnoreEos), stays = w.put({3}, 12, kIgnoreEos);
  for (u32 step = 0; step < 4; step++) {  // two sequences, four tokens, 20 ms each
    CHECK(d.launch());
    run_slowly();
  }
  w.slab->drain();
  CHECK(w.host.ended.contains(ends));
  const u32 joins = w.put({6}, 2, kIgnoreEos, now_ns() + test::kPatienceNs);
  const u32 hopeless = w.put({4}, 12, kIgnoreEos, now_ns() + 120'000'000);  // it would take 240 ms
  CHECK(d.launch());
  w.slab->drain();
  CHECK_EQ(w.host.status[hopeless], 8);
  CHECK(w.state(joins) == State::kLaunched && w.state(stays) == State::kLaunched);
  run_slowly();
  while (d.turn()) {}
  w.slab->drain();
  CHECK_EQ(w.host.status[joins] + w.host.status[stays], 0);
  // Alone it may run: a wrong expectation could not be corrected otherwise.
  const u32 alone = w.put({4}, 12, kIgnoreEos, now_ns() + 120'000'000);
  CHECK(d.launch());
  CHECK(w.state(alone) == State::kLaunched);
}

// The first step of two sequences lasts a second, a twelfth of their answers. All others are fast.
TEST(one_slow_step_refuses_nobody) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 first = w.put({1}, 12, kIgnoreEos);
  d.finish(*w.slab);  // answers are of 12 tokens
  CHECK(w.host.ended.contains(first));
  w.put({2}, 12, kIgnoreEos), w.put({3}, 12, kIgnoreEos);
  size_t runs = 0;
  while (runs < 2) {  // they join one by one
    CHECK(d.launch());
    runs = d.stepper.step(d.flying[0].back()).runs.size();
    d.retire(runs == 2 ? 1'000'000 : 0);
  }
  const u32 joins = w.put({4}, 12, kIgnoreEos, now_ns() + 10'000'000'000);
  CHECK(d.launch());
  CHECK(w.state(joins) == State::kLaunched);
}

// Front doors expect what answers take on average. A long one among short ones counts by its own tokens.
TEST(a_long_answer_among_short_ones_is_no_stall) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const auto answer = [&](u32 tokens) {
    w.put({1}, tokens, kIgnoreEos);
    while (d.launch()) d.retire(2'000);
    w.slab->drain();
  };
  for (u32 i = 0; i < 40; i++) answer(1);
  const u64 usual = w.segment.dispatcher(0).step_usual_ns.load();
  answer(12);
  CHECK(w.segment.dispatcher(0).step_usual_ns.load() > usual + usual / 2);
}

TEST(a_damaged_request_stays_within_its_room) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 slot = w.put({1, 2, 3}, 5, kIgnoreEos);
  Slot& s = w.segment.slot(0, slot);
  s.n_tokens.store(1000);
  s.sampling.max_tokens = 1 << 30;
  s.sampling.stop_ids.count = s.sampling.suppress_ids.count = 1000;
  for (u32 i = 0; i < 16; i++) w.segment.ids(s)[i] = i;
  d.finish(*w.slab);
  CHECK_EQ(w.host.tokens[slot].size(), 12u);
}

TEST(an_id_beyond_the_vocabulary_never_reaches_the_device) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const u32 bad = w.put({1, 1000, 3}, 5, kIgnoreEos), good = w.put({1, 999, 3}, 5, kIgnoreEos);
  d.finish(*w.slab);
  CHECK_EQ(w.host.status[bad], 13u);
  CHECK(w.host.tokens[good] == expected_tokens({1, 999, 3}, 5, true));
}

TEST(a_suspect_generates_alone) {
  World w;
  auto d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 1);
  const u32 a = w.put({1}, 8, kIgnoreEos), b = w.put({2}, 8, kIgnoreEos);
  CHECK(d->launch());  // dies with both on the device: suspects
  publish_death(w.segment, w.fds, 0, 1);
  w.slab->drain();
  d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 2);
  const u32 other = w.put({3}, 2, kIgnoreEos);
  CHECK(d->launch());
  CHECK_EQ(d->stepper.step(0).runs.size(), 1u);
  while (d->turn()) {
    w.slab->drain();
    for (u32 s : {0u, 1u}) CHECK(d->stepper.step(s).runs.size() <= 1 || w.slab->used() == 1);
  }
  w.slab->drain();
  CHECK(w.host.tokens[a] == expected_tokens({1}, 8, true));
  CHECK(w.host.tokens[b] == expected_tokens({2}, 8, true));
  CHECK(w.host.tokens[other] == expected_tokens({3}, 2, true));
}

// What was claimed for the step keeps its room, also if others' structures are compiled meanwhile.
TEST(a_request_whose_structure_is_known_joins_the_step_that_it_is_claimed_for) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  w.structure_bytes = 64;
  std::vector<u32> slots;
  for (u32 i = 0; i < 6; i++) slots.push_back(w.put({i}, 3, kIgnoreEos));
  CHECK(!d.launch() && !d.launch());
  std::vector<u64> tickets;
  for (const auto& each : d.stepper.take_structured()) tickets.push_back(each.ticket);
  CHECK_EQ(tickets.size(), 6u);
  u32 looks = 0;
  d.stepper.on_structured([&] {
    looks++;
    for (const auto& each : d.stepper.take_structured()) tickets.push_back(each.ticket);
    for (const u64 ticket : tickets) d.stepper.compiled(ticket, StatusCode::kOk, "");
  });
  slots.push_back(w.put({6}, 3, kIgnoreEos));
  w.structure_bytes = 0;
  for (u32 i = 7; i < 10; i++) slots.push_back(w.put({i}, 3, kIgnoreEos));
  CHECK(d.launch());
  CHECK_EQ(looks, 1u);
  const u32 s = d.flying[0].empty() ? 2 : 0;
  CHECK(d.stepper.masked(s) == (std::vector<std::pair<u32, u64>>{{0, tickets[6]}}));
  CHECK_EQ(d.stepper.step(s).runs.size(), 4u);
  d.finish(*w.slab);
  CHECK_EQ(looks, 1u);
  for (u32 i = 0; i < 10; i++) CHECK(w.host.tokens[slots[i]] == expected_tokens({i}, 3, true));
}

// Also where structures are known when their requests are claimed.
TEST(a_suspect_with_a_structure_runs_alone) {
  for (const bool known : {false, true}) {
    World w;
    auto d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 1);
    const auto compile = [&d] {
      for (const auto& each : d->stepper.take_structured()) d->stepper.compiled(each.ticket, StatusCode::kOk, "");
    };
    w.structure_bytes = 64;
    const u32 suspect = w.put({1}, 8, kIgnoreEos);
    CHECK(!d->launch());
    compile();
    CHECK(d->launch());
    publish_death(w.segment, w.fds, 0, 1);
    w.slab->drain();
    d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 2);
    if (known) d->stepper.on_structured(compile);
    const u32 structured = w.put({2}, 8, kIgnoreEos);
    w.structure_bytes = 0;
    const u32 plain = w.put({3}, 8, kIgnoreEos);
    for (u32 turn = 0; w.slab->used(); turn++) {
      CHECK(turn < 200);
      if (turn % 4 == 3) compile();
      d->turn();
      w.slab->drain();
      for (const u32 other : {structured, plain})
        CHECK(w.state(suspect) != State::kLaunched || w.state(other) != State::kLaunched);
    }
    CHECK(w.host.tokens[suspect] == expected_tokens({1}, 8, true));
    CHECK(w.host.tokens[structured] == expected_tokens({2}, 8, true));
    CHECK(w.host.tokens[plain] == expected_tokens({3}, 8, true));
  }
}

// Other requests run while more structures compile than sequences can run.
TEST(structures_that_compile_take_no_places) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  w.structure_bytes = 64;
  std::vector<u32> slots;
  for (u32 i = 0; i < 10; i++) slots.push_back(w.put({i}, 3, kIgnoreEos));
  CHECK(!d.launch());
  CHECK(!d.launch());
  CHECK(!d.launch());
  const auto asked = d.stepper.take_structured();
  CHECK_EQ(asked.size(), size_t(10));
  w.structure_bytes = 0;
  for (u32 i = 20; i < 25; i++) {
    const u32 plain = w.put({i}, 4, kIgnoreEos);
    d.finish(*w.slab);
    CHECK(w.host.tokens[plain] == expected_tokens({i}, 4, true));
  }
  for (const auto& each : asked) d.stepper.compiled(each.ticket, StatusCode::kOk, "");
  d.finish(*w.slab);
  for (u32 i = 0; i < 10; i++) CHECK(w.host.tokens[slots[i]] == expected_tokens({i}, 3, true));
}

// Beyond a limit they stay in the rings. Those that wait there end no sleep.
TEST(requests_stay_in_the_rings_while_many_structures_compile) {
  World w(128);
  Dispatcher d(w.segment, &w.fds, 0, 1);
  w.structure_bytes = 64;
  for (u32 i = 0; i < 70; i++) w.put({i}, 1, kIgnoreEos);
  for (u32 turn = 0; turn < 40; turn++) CHECK(!d.launch());
  const auto asked = d.stepper.take_structured();
  CHECK_EQ(asked.size(), size_t(64));
  CHECK(w.state(69) == State::kQueued);
  const u64 began = now_ns();
  CHECK_EQ(d.stepper.gather(20'000'000), kNothing);
  CHECK(now_ns() - began > 15'000'000);
  CHECK(w.slab->put_canary(0, now_ns()));
  CHECK(d.launch());
  d.retire();
  w.slab->drain();
  CHECK_EQ(w.slab->canaries(), 0u);
  d.stepper.compiled(asked[0].ticket, StatusCode::kInvalidArgument, "no");
  for (u32 turn = 0; turn < 3; turn++) CHECK(!d.launch());
  w.slab->drain();
  CHECK_EQ(w.host.status[0], u16(StatusCode::kInvalidArgument));
  CHECK_EQ(d.stepper.take_structured().size(), size_t(1));
}

// It is the process that has to prove alive, whatever it compiles, a suspect's structure too. What is compiled
// meanwhile shares no step with the canary, and a suspect does not even run beside it.
TEST(a_canary_is_answered_while_structures_compile) {
  for (const bool is_suspect : {false, true}) {
    World w;
    auto d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 1);
    w.structure_bytes = 64;
    const u32 slot = w.put({5}, 3, kIgnoreEos);
    if (is_suspect) {
      CHECK(!d->launch());
      for (const auto& each : d->stepper.take_structured()) d->stepper.compiled(each.ticket, StatusCode::kOk, "");
      CHECK(d->launch());
      publish_death(w.segment, w.fds, 0, 1);
      w.slab->drain();
      d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 2);
    }
    CHECK(!d->launch());
    const auto asked = d->stepper.take_structured();
    CHECK_EQ(asked.size(), size_t(1));
    const u64 steps = w.segment.dispatcher(0).steps_done.load();
    CHECK(w.slab->put_canary(0, now_ns()));
    CHECK(d->launch());
    d->stepper.compiled(asked[0].ticket, StatusCode::kOk, "");
    CHECK_EQ(d->launch(), !is_suspect);
    if (!is_suspect) CHECK_EQ(d->stepper.step(d->flying[0].back()).runs.size(), 1u);
    d->retire();
    w.slab->drain();
    CHECK_EQ(w.slab->canaries(), 0u);
    CHECK_EQ(w.segment.dispatcher(0).steps_done.load(), steps + 1);
    d->finish(*w.slab);
    CHECK(w.host.tokens[slot] == expected_tokens({5}, 3, true));
  }
}

TEST(a_compiled_structure_does_not_join_a_suspect) {
  for (const u32 suspect_has : {0u, 64u}) {
    World w;
    auto d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 1);
    const u32 suspect = w.put({1}, 8, kIgnoreEos);
    CHECK(d->launch());
    publish_death(w.segment, w.fds, 0, 1);
    w.segment.slot(0, suspect).attached[u32(AttachmentKind::kStructure)] = {0, suspect_has};
    d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 2);
    w.structure_bytes = 64;
    const u32 first = w.put({2}, 3, kIgnoreEos);
    CHECK(!d->launch());  // claimed before the suspect comes
    const auto asked = d->stepper.take_structured();
    w.slab->drain();
    w.structure_bytes = 0;
    const u32 plain = w.put({3}, 3, kIgnoreEos);
    CHECK_EQ(d->launch(), !suspect_has);
    for (const auto& each : asked) d->stepper.compiled(each.ticket, StatusCode::kOk, "");
    const auto of_suspect = d->stepper.take_structured();
    CHECK_EQ(of_suspect.size(), size_t(suspect_has ? 1 : 0));
    CHECK_EQ(asked.size(), size_t(1));
    for (u32 turn = 0; w.slab->used(); turn++) {
      CHECK(turn < 100);
      if (turn == 3)
        for (const auto& each : of_suspect) d->stepper.compiled(each.ticket, StatusCode::kOk, "");
      d->turn();
      w.slab->drain();
      for (const u32 other : {first, plain})
        CHECK(w.state(suspect) == State::kFree || w.state(other) == State::kQueued ||
              w.state(other) == State::kClaimed);
    }
    CHECK(w.host.tokens[suspect] == expected_tokens({1}, 8, true));
    CHECK(w.host.tokens[first] == expected_tokens({2}, 3, true));
    CHECK(w.host.tokens[plain] == expected_tokens({3}, 3, true));
  }
}

// With a step of it on its way, whose token is dropped.
TEST(a_text_whose_structure_fails_ends_alone_with_an_error) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  w.structure_bytes = 64;
  const u32 bad = w.put({1}, 12, kProgress | kIgnoreEos), good = w.put({2}, 12, kIgnoreEos);
  CHECK(!d.launch());
  const auto asked = d.stepper.take_structured();
  for (const auto& each : asked) d.stepper.compiled(each.ticket, StatusCode::kOk, "");
  for (u32 turn = 0; turn < 6; turn++) CHECK(d.turn());
  CHECK_EQ(d.flying[0].size(), size_t(1));
  CHECK(d.launch());
  CHECK(d.stepper.fail(asked[0].ticket, StatusCode::kResourceExhausted, "too many states"));
  CHECK(d.stepper.fail(asked[0].ticket, StatusCode::kInternal, "again"));
  CHECK(d.stepper.fail(asked[1].ticket + 1, StatusCode::kInternal, "nobody"));
  CHECK_EQ(w.segment.dispatcher(0).running.load(), 1u);
  w.slab->drain();
  CHECK_EQ(w.host.status[bad], u16(StatusCode::kResourceExhausted));
  CHECK(!w.host.tokens.contains(bad));
  d.finish(*w.slab);
  CHECK(w.host.tokens[good] == expected_tokens({2}, 12, true));
  CHECK_EQ(w.slab->used(), 0u);
}

// A prompt that waited for its structure has its rows in front of what is claimed beside it.
TEST(who_is_claimed_beside_a_compiled_structure_has_room_too) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  const auto prompt = [](u32 first) { return List{first, 1, 2, 3, 4, 5, 6, 7, 8, 9}; };
  w.structure_bytes = 64;
  std::vector<u32> slots{w.put(prompt(50), 3, kIgnoreEos)};
  w.structure_bytes = 0;
  CHECK(!d.launch());
  for (const auto& each : d.stepper.take_structured()) d.stepper.compiled(each.ticket, StatusCode::kOk, "");
  for (u32 i = 51; i < 53; i++) slots.push_back(w.put(prompt(i), 3, kIgnoreEos));
  d.finish(*w.slab);
  for (u32 i = 0; i < slots.size(); i++) CHECK(w.host.tokens[slots[i]] == expected_tokens(prompt(50 + i), 3, true));
}

TEST(ids_beyond_the_vocabulary_end_alone_with_a_structure_too) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  for (const u32 structure_bytes : {0u, 64u}) {
    w.structure_bytes = structure_bytes;
    const u32 wrong = w.put({1, 1000}, 3);
    CHECK(!d.launch());
    CHECK(d.stepper.take_structured().empty());
    w.slab->drain();
    CHECK_EQ(w.host.status[wrong], u16(StatusCode::kInternal));
  }
}

// A compiled structure joins the next step of a lane in time. Until then the dispatcher rests.
TEST(a_compiled_structure_lets_the_dispatcher_rest_until_a_step_is_due) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1, 2);
  const auto gather = [&d] {
    const i32 s = d.stepper.gather(1'000'000);
    if (s < 0) return false;
    CHECK(d.stepper.launch(u32(s)));
    d.flying[s / 2].push_back(u32(s));
    return true;
  };
  for (u32 i = 0; i < 2; i++) {
    w.put({i}, 12, kIgnoreEos);
    CHECK(d.launch());  // each on its lane
  }
  for (u32 round = 0; round < 3; round++) {  // steps take their time
    for (u32 lane = 0; lane < 2; lane++) d.retire(20'000, lane);
    for (u32 lane = 0; lane < 2; lane++) CHECK(d.launch());
  }
  w.structure_bytes = 64;
  const u32 structured = w.put({9}, 3, kIgnoreEos);
  u64 ticket = 0;
  while (!ticket) {
    gather();
    for (const auto& each : d.stepper.take_structured()) ticket = each.ticket;
  }
  for (u32 lane = 0; lane < 2; lane++)
    while (d.flying[lane].size() < 2) gather();
  for (const u32 lane : {1u, 0u}) d.retire(lane * 20'000, lane);  // the next ones have just begun
  d.stepper.compiled(ticket, StatusCode::kOk, "");
  u32 polls = 0;
  while (w.state(structured) != State::kLaunched) {
    const u64 began = now_ns();
    if (!gather() && now_ns() - began < 500'000) polls++;
    for (u32 lane = 0; lane < 2; lane++)
      if (d.flying[lane].size() == 2) d.retire(0, lane);
  }
  CHECK(polls < 10);
}

// One death makes suspects of all that ran: whoever comes behind them does not wait until the last one has run alone.
TEST(others_are_served_between_suspects) {
  World w;
  auto d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 1);
  for (u32 i = 0; i < 4; i++) w.put({i}, 8, kIgnoreEos);
  CHECK(d->launch());
  publish_death(w.segment, w.fds, 0, 1);
  w.slab->drain();
  d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 2);
  const u32 other = w.put({9}, 3, kIgnoreEos), another = w.put({8}, 8, kIgnoreEos);
  while (!w.host.ended.contains(other) || !w.host.ended.contains(another)) {
    CHECK(d->turn());
    w.slab->drain();
  }
  CHECK_EQ(w.host.ended.size(), 3u);  // behind one suspect
  d->finish(*w.slab);
  CHECK_EQ(w.host.ended.size(), 6u);
}

// A dispatcher that is busy leaves what comes to one that sleeps, and joins it to its own batch when there is none.
TEST(work_goes_to_who_is_free) {
  World w;
  w.segment.route(0).dispatchers = 3;
  Dispatcher first(w.segment, &w.fds, 0, 1), second(w.segment, &w.fds, 1, 1);
  w.put({1}, 9, kIgnoreEos);
  CHECK(first.launch());
  CHECK(!second.launch());  // sleeps
  const u32 later = w.put({2}, 9, kIgnoreEos);
  CHECK(first.launch());
  CHECK_EQ(first.stepper.step(1).runs.size(), 1u);  // not joined
  u64 woken = 0;
  CHECK(read(w.fds.dispatcher[1], &woken, sizeof woken) == sizeof woken);
  CHECK(second.launch());
  CHECK(w.state(later) == State::kLaunched);
  const u32 third = w.put({3}, 9, kIgnoreEos);
  first.retire();
  CHECK(first.launch());  // both are busy: it joins
  CHECK_EQ(first.stepper.step(0).runs.size(), 2u);
  CHECK(w.state(third) == State::kLaunched);
}

// Each lane has its own sequences and cache slots; they go on, and end, in any order.
TEST(lanes_run_side_by_side) {
  for (u32 seed = 0; seed < 30; seed++) {
    std::mt19937 random(seed);
    World w;
    const u32 lanes = 2 + seed % 2;
    Dispatcher d(w.segment, &w.fds, 0, 1, lanes);
    std::map<u32, List> want;
    std::vector<u32> used(lanes);
    for (u32 left = 60, round = 0; left || !want.empty(); round++) {
      CHECK(round < 5000);
      if (left && w.slab->used() < 16 && random() % 2) {
        const List prompt{round, u32(random() % 50)};
        const u32 n = 1 + u32(random() % 12), slot = w.put(prompt, n, random() % 2 ? kProgress : 0);
        want[slot] = expected_tokens(prompt, n), left--;
      }
      if (!want.empty() && random() % 16 == 0) {
        const u32 slot = std::next(want.begin(), long(random() % want.size()))->first;
        if (w.state(slot) != State::kDone) w.slab->cancel(slot), want.erase(slot);
      }
      if (random() % 3) d.launch();
      const u32 lane = u32(random() % lanes);
      used[lane] += !d.flying[lane].empty();
      if (!d.flying[lane].empty()) d.retire(0, lane);
      w.slab->drain();
      for (auto& [slot, verdict] : w.host.ended)
        if (want.contains(slot)) {
          CHECK(verdict == Verdict::kDone && w.host.tokens[slot] == want[slot]);
          want.erase(slot);
        }
      w.host.ended.clear();
    }
    while (d.launch()) {}
    for (u32 lane = 0; lane < lanes; lane++)
      for (; !d.flying[lane].empty(); d.launch()) d.retire(0, lane);
    w.slab->drain();
    CHECK_EQ(w.slab->used(), 0u);
    CHECK_EQ(w.segment.dispatcher(0).running.load(), 0u);
    CHECK(std::ranges::all_of(used, [](u32 steps) { return steps > 10; }));
  }
}

TEST(a_free_lane_takes_what_waits) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1, 2);
  for (u32 i = 0; i < 3; i++) {
    w.put({i}, 9, kIgnoreEos);
    CHECK(d.launch());
  }
  CHECK_EQ(d.flying[0].size() + d.flying[1].size(), size_t(3));
  CHECK_EQ(d.stepper.step(d.flying[0].front()).runs.size(), 1u);  // not joined while the second lane was free
  CHECK_EQ(d.stepper.step(d.flying[1].front()).runs.size(), 1u);
  CHECK_EQ(w.segment.dispatcher(0).running.load(), 3u);  // the third had to join one of them
}

// A lane rings once. Who looks for requests without waiting, and waits after that, must not miss it in between.
TEST(a_lane_that_has_rung_is_not_slept_over) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1, 2);
  w.put({1}, 1, kIgnoreEos);
  CHECK(d.launch());  // of its only token: nothing is left to prepare on that lane
  signal_fd(w.fds.dispatcher[0]);
  const u64 begun = now_ns();
  CHECK_EQ(d.stepper.gather(2 * test::kPatienceNs), kNothing);
  CHECK(now_ns() - begun < test::kPatienceNs);
}

TEST(a_suspect_runs_alone_among_lanes) {
  World w;
  auto d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 1, 2);
  const u32 suspect = w.put({1}, 4, kIgnoreEos);
  CHECK(d->launch());
  publish_death(w.segment, w.fds, 0, 1);
  w.slab->drain();
  d = std::make_unique<Dispatcher>(w.segment, &w.fds, 0, 2, 2);
  const u32 other = w.put({2}, 4, kIgnoreEos);
  for (u32 round = 0; round < 100 && w.slab->used(); round++) {
    while (d->launch()) {}
    CHECK(d->flying[0].empty() || d->flying[1].empty());
    CHECK(w.state(suspect) != State::kLaunched || w.state(other) != State::kLaunched);
    for (u32 lane : {0u, 1u})
      if (!d->flying[lane].empty()) d->retire(0, lane);
    w.slab->drain();
  }
  CHECK(w.host.tokens[suspect] == expected_tokens({1}, 4, true));
  CHECK(w.host.tokens[other] == expected_tokens({2}, 4, true));
}

TEST(a_fenced_dispatcher_notices) {
  World w;
  Dispatcher d(w.segment, &w.fds, 0, 1);
  w.put({1}, 3);
  CHECK(d.stepper.gather(0) == 0);
  publish_death(w.segment, w.fds, 0, 1);
  w.slab->drain();
  CHECK(!d.stepper.launch(0));
}
