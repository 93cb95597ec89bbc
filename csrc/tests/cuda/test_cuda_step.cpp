// Steps on the fake CUDA runtime: order, the safety of their host blocks, lanes side by side, what is copied, and when.
#include <atomic>
#include <thread>

#include "core/clock.h"
#include "tests/cuda/fake_cuda_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

// Runs `n` steps through two sets of host blocks, as a dispatcher does. With `early`, the staging block is written
// again as soon as its step is launched. Returns how many answers were wrong.
u32 run_twins(SumLane& on, u32 n, u32 seed, bool early = false) {
  std::mt19937 random(seed);
  SumStep twins[2] = {{on.step(), {}}, {on.step(), {}}};
  u32 wrong = 0;
  for (u32 i = 0; i < n; i++) {
    SumStep& own = twins[i % 2];
    if (i >= 2) {
      CHECK(own.wait());
      wrong += !own.right();
    }
    own.pack(on.layout, random, i32(i));
    CHECK(own.launch() == CudaStep::Launch::kDone);
    if (early) own.step->staging()[on.layout.input_ids]++;
  }
  for (SumStep& own : twins) CHECK(own.wait());
  return wrong;
}

struct Knob {
  const char* name;
  Knob(const char* name, i64 value) : name(name) { CHECK(cuda().set(name, value)); }
  ~Knob() { cuda().set(name, 0); }
};

void sleep_ns(i64 ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }

}  // namespace

TEST(twins_answer_rightly_and_in_order) {
  DeviceTime time;
  Knob slow("copy_delay_ns", 200'000);
  SumLane lane(time);
  CHECK_EQ(run_twins(lane, 400, 1), 0u);
  size_t ran = 0;
  for (const auto& graph : lane.graphs) {
    CHECK(std::is_sorted(graph->firsts.begin(), graph->firsts.end()));
    CHECK(graph->firsts.size() > 10);
    ran += graph->firsts.size();
  }
  CHECK_EQ(ran, 400u);
}

// launch() has packed the step by then.
TEST(a_step_keeps_what_it_was_launched_with) {
  DeviceTime time;
  Knob slow("copy_delay_ns", 200'000);
  SumLane lane(time);
  CHECK_EQ(run_twins(lane, 50, 1, true), 0u);
}

// The fake's copies read when the stream reaches them, so that a pinned block which is written too early shows in the
// tests above. (ThreadSanitizer sees it without this.)
#ifndef __SANITIZE_THREAD__
TEST(an_early_write_to_a_pinned_block_is_seen) {
  Knob slow("copy_delay_ns", 200'000);
  CudaApi& api = *cuda().api;
  const CudaHandle stream = cuda().stream();
  i32 *from = nullptr, to = 0;
  CHECK(!api.cudaHostAlloc(reinterpret_cast<void**>(&from), sizeof *from, 0u));
  int seen = 0;
  for (int i = 0; i < 50; i++) {
    *from = 1;
    CHECK(!api.cudaMemcpyAsync(static_cast<void*>(&to), static_cast<const void*>(from), sizeof to, kCudaToDevice,
                               stream));
    *from = 2;
    CHECK(!api.cudaStreamSynchronize(stream));
    seen += to == 2;
  }
  CHECK(seen > 10);
  CHECK(!api.cudaFreeHost(static_cast<void*>(from)));
  CHECK(!api.cudaStreamDestroy(stream));
}
#endif

TEST(lanes_run_side_by_side) {
  DeviceTime time;
  Knob slow("graph_ns", 20'000'000);
  SumLane one(time), other(time);
  std::mt19937 random(5);
  SumStep a{one.step(), {}}, b{one.step(), {}}, c{other.step(), {}};
  for (SumStep* step : {&a, &b}) step->pack(one.layout, random, 0);
  c.pack(other.layout, random, 0);
  for (SumStep* step : {&a, &b, &c}) CHECK(step->launch() == CudaStep::Launch::kDone);
  for (SumStep* step : {&a, &b, &c}) CHECK(step->wait() && step->right());
  auto overlap = [](SumStep& x, SumStep& y) {
    return std::min(x.step->stamps()->end_ns, y.step->stamps()->end_ns) -
           std::max(x.step->stamps()->start_ns, y.step->stamps()->start_ns);
  };
  CHECK(overlap(a, c) > 0 || overlap(b, c) > 0);
  CHECK(overlap(a, b) <= 0);
}

TEST(threads_drive_lanes_of_their_own) {
  DeviceTime time;
  Knob slow("copy_delay_ns", 50'000);
  u32 wrong[2] = {1, 1};
  {
    SumLane lanes[2] = {SumLane(time), SumLane(time)};
    std::thread other([&] { wrong[1] = run_twins(lanes[1], 200, 8); });
    wrong[0] = run_twins(lanes[0], 200, 9);
    other.join();
  }
  CHECK_EQ(wrong[0] + wrong[1], 0u);
}

TEST(only_what_a_step_fills_is_copied) {
  for (const bool token_types : {false, true}) {
    DeviceTime time;
    SumLane lane(time, {64}, token_types);
    const EncodeLayout at(64, SumLane::kItems, SumLane::kWidth, token_types);
    auto step = lane.step();
    std::fill_n(step->staging(), lane.layout.words, 1);
    std::fill_n(step->output(), lane.layout.out_words, 99);
    i32* starts = step->staging() + lane.layout.cu_seqlens;
    starts[0] = 0, starts[1] = 2, starts[2] = 5;
    cuda().mark();
    CHECK(step->launch({2, 5, 2}) == CudaStep::Launch::kDone);
    CHECK(step->wait(test::kPatienceNs, 0) == CudaStep::Progress::kDone);
    CHECK_EQ(lane.staging[kHeaderTokens], 5);
    CHECK_EQ(lane.staging[kHeaderItems], 2);
    CHECK_EQ(lane.staging[kHeaderNewItems], 2);
    const u32 used = at.cu_seqlens + 3;
    for (u32 word = used; word < lane.layout.device_words; word++) CHECK_EQ(lane.staging[word], -7);
    CHECK_EQ(lane.staging[used - 1], 5);
    CHECK_EQ(lane.staging[at.input_ids + 4], 1);
    if (token_types) CHECK_EQ(lane.staging[at.token_type_ids + 4], 1);
    CHECK_EQ(cuda().count("bytes to the device"), i64(used * 4));
    CHECK_EQ(cuda().count("bytes to the host"), i64((kStampWords + 2 * SumLane::kWidth) * 4));
    for (u32 at = 2 * SumLane::kWidth; at < lane.layout.out_words; at++) CHECK_EQ(step->output()[at], 99);
    CHECK(step->output()[2 * SumLane::kWidth - 1] != 99);
  }
}

// A graph of its own shape finds every section where that shape has it, and the host every answer where the lane's has.
TEST(a_decoders_step_brings_all_of_its_words) {
  const DecodeLayout host(400, 100);
  std::vector<i32> staging(host.words), output(kStampWords + host.out_words);
  struct Device {
    DecodeLayout at;
    std::vector<i32>&staging, &output;
  };
  std::vector<std::unique_ptr<Device>> graphs;
  auto run = [](void* user) {
    auto& d = *static_cast<Device*>(user);
    const i32* in = d.staging.data();
    i32* out = d.output.data() + kStampWords;
    CHECK_EQ(u32(in[kHeaderT]), d.at.max_tokens);
    CHECK_EQ(u32(in[kHeaderS]), d.at.max_runs);
    for (u32 i = 0; i < u32(in[kHeaderRuns]); i++) {
      i32 sum = 0;
      for (i32 row = in [d.at.starts + i]; row < in[d.at.starts + i + 1]; row++)
        for (u32 section : {d.at.token_ids, d.at.positions, d.at.kv_slots})
          sum = i32(u32(sum) * 31 + u32(in[section + u32(row)]));
      out[d.at.out_tokens + i] = sum;
      out[d.at.out_logprobs + i] = in[d.at.made + i];
      out[d.at.out_finish + i] = in[d.at.admitted + i * kAdmittedWords + kAdmittedWords - 1];
      for (u32 k = 0; k < kTopWords; k++) out[d.at.out_top + i * kTopWords + k] = sum + i32(k);
    }
  };
  DeviceTime time;
  const CudaHandle stream = cuda().stream();
  CudaLane lane(*cuda().api, time, DecodeBlocks{host}, stream, staging.data(), output.data());
  for (const auto& [tokens, runs] : {std::pair(400u, 100u), {64u, 40u}, {17u, 3u}}) {
    graphs.emplace_back(new Device{DecodeLayout(tokens, runs), staging, output});
    CHECK(lane.add(cuda().make_graph(run, graphs.back().get(), reinterpret_cast<i64*>(output.data())), tokens, runs));
  }
  CudaStatus status;
  auto step = CudaStep::open(lane, &status);
  CHECK(step);
  struct Row {
    u32 runs, tokens, admitted;
    DecodeLayout graph;
  };
  for (const Row& row : {Row{3, 9, 2, {17, 3}}, Row{3, 17, 3, {17, 3}}, Row{40, 64, 40, {64, 40}},
                         Row{4, 9, 0, {64, 40}}, Row{100, 400, 100, {400, 100}}, Row{41, 50, 1, {400, 100}}}) {
    std::mt19937 random(row.tokens);
    std::fill_n(staging.begin(), staging.size(), -7);
    i32* in = step->staging();
    for (u32 i = 0; i < host.words; i++) in[i] = i32(random() % 1000);
    in[kHeaderTokens] = i32(row.tokens), in[kHeaderRuns] = i32(row.runs), in[kHeaderAdmitted] = i32(row.admitted);
    for (u32 i = 0; i <= row.runs; i++) in[host.starts + i] = i32(i * row.tokens / row.runs);
    in[kHeaderTop] = row.tokens % 2, in[kHeaderTargets] = row.runs % 2, in[kHeaderCopies] = 0;
    std::vector<i32> expected(row.runs);
    for (u32 i = 0; i < row.runs; i++)
      for (i32 at = in [host.starts + i]; at < in[host.starts + i + 1]; at++)
        for (u32 section : {host.token_ids, host.positions, host.kv_slots})
          expected[i] = i32(u32(expected[i]) * 31 + u32(in[section + u32(at)]));
    for (int again = 0; again < 2; again++) {  // a launch leaves the staging block as it was
      cuda().mark();
      CHECK(step->launch({row.runs, row.tokens, row.admitted}) == CudaStep::Launch::kDone);
      CHECK(step->wait(test::kPatienceNs, 0) == CudaStep::Progress::kDone);
      for (u32 i = 0; i < row.runs; i++) {
        CHECK_EQ(step->output()[host.out_tokens + i], expected[i]);
        CHECK_EQ(step->output()[host.out_logprobs + i], in[host.made + i]);
        for (u32 k = 0; in[kHeaderTop] && k < kTopWords; k++)
          CHECK_EQ(step->output()[host.out_top + i * kTopWords + k], expected[i] + i32(k));
        if (i < row.admitted)
          CHECK_EQ(step->output()[host.out_finish + i], in[host.admitted + i * kAdmittedWords + kAdmittedWords - 1]);
      }
      const u32 up = in[kHeaderTargets] ? row.graph.targets + row.runs * kTargetWords
                                        : row.graph.admitted + row.admitted * kAdmittedWords;
      for (u32 i = 0; in[kHeaderTargets] && i < row.runs * kTargetWords; i++)
        CHECK_EQ(staging[row.graph.targets + i], in[host.targets + i]);
      CHECK_EQ(cuda().count("bytes to the device"), i64(up * 4));
      const u32 down = in[kHeaderTop] ? row.graph.out_top + row.runs * kTopWords : row.graph.out_finish + row.runs;
      CHECK_EQ(cuda().count("bytes to the host"), i64((kStampWords + down) * 4));
      for (u32 i = up; i < host.words; i++) CHECK_EQ(staging[i], -7);
    }
  }
  CHECK(step->launch({3, 9, 4}) == CudaStep::Launch::kTooLarge);
  CHECK(step->launch({101, 101, 0}) == CudaStep::Launch::kTooLarge);
}

// One after the other, in front of the graph: the second copy reads what the first one has written.
TEST(cache_slots_are_copied_in_front_of_a_step) {
  const DecodeLayout host(16, 4);
  constexpr u32 kPlanes = 3, kSlots = 5, kHeads = 2, kLength = 7, kRowBytes = 12, kHistory = 11, kPrefix = 4;
  std::mt19937 random(1);
  struct Memory {
    std::vector<char> cache = std::vector<char>(kPlanes * kSlots * kHeads * kLength * kRowBytes);
    std::vector<i32> history = std::vector<i32>(kSlots * kHistory);
    bool operator==(const Memory&) const = default;
  };
  Memory memory, seen;
  for (char& byte : memory.cache) byte = char(random());
  for (i32& word : memory.history) word = i32(random());
  Memory want = memory;
  const u32 copies[][kCopyWords] = {{1, 3, 5}, {3, 0, 6}, {2, 4, 1}};
  for (const auto& [from, to, n] : copies) {
    for (u32 plane = 0; plane < kPlanes; plane++)
      for (u32 head = 0; head < kHeads; head++) {
        const auto at = [&](u32 slot) {
          return want.cache.begin() + ((plane * kSlots + slot) * kHeads + head) * kLength * kRowBytes;
        };
        std::copy_n(at(from), n * kRowBytes, at(to));
      }
    const auto tokens = [&](u32 slot) { return want.history.begin() + slot * kHistory + kPrefix; };
    std::copy_n(tokens(from), n, tokens(to));
  }

  std::vector<i32> staging(host.words), output(kStampWords + host.out_words);
  const SlotMemory slots{
      memory.cache.data(), memory.history.data(), kPlanes, kSlots, kHeads, kLength, kRowBytes, kHistory, kPrefix};
  DeviceTime time;
  CudaLane lane(*cuda().api, time, DecodeBlocks{host, slots}, cuda().stream(), staging.data(), output.data());
  struct Graph {
    const Memory& memory;
    Memory& seen;
  } graph{memory, seen};
  const auto look = [](void* user) { static_cast<Graph*>(user)->seen = static_cast<Graph*>(user)->memory; };
  CHECK(lane.add(cuda().make_graph(look, &graph, reinterpret_cast<i64*>(output.data())), 16, 4));
  CudaStatus status;
  auto step = CudaStep::open(lane, &status);
  CHECK(step);
  const auto run = [&](i32 n) {
    step->staging()[kHeaderCopies] = n;
    cuda().mark();
    CHECK(step->launch({1, 1, 0}) == CudaStep::Launch::kDone);
    CHECK(step->wait(test::kPatienceNs, 0) == CudaStep::Progress::kDone);
    CHECK(seen == (n ? want : memory));
    CHECK_EQ(cuda().count("cudaMemcpy3DAsync") + cuda().count("hipMemcpy3DAsync"), i64(n));
    CHECK_EQ(cuda().count("cudaMemcpyAsync") + cuda().count("hipMemcpyAsync"), i64(n + 2));
  };
  run(0);
  std::memcpy(step->staging() + host.copies, copies, sizeof copies);
  run(3);
}

TEST(the_smallest_graph_that_holds_a_step_runs_it) {
  DeviceTime time;
  SumLane lane(time, {});
  std::vector<std::unique_ptr<SumLane::Graph>> graphs;
  const std::pair<u32, u32> sizes[] = {{128, 4}, {32, 4}, {64, 16}, {64, 8}, {32, 2}};
  for (const auto& [tokens, items] : sizes) {
    graphs.emplace_back(new SumLane::Graph{&lane, tokens, {}});
    CHECK(lane.lane.add(cuda().make_graph(&SumLane::run, graphs.back().get(), nullptr), tokens, items));
  }
  struct Row {
    u32 items, tokens;
    int graph;  // number above; -1: none
  };
  auto step = lane.step();
  for (const Row& row : {Row{1, 1, 4}, Row{2, 32, 4}, Row{3, 32, 1}, Row{2, 33, 3}, Row{5, 20, 3}, Row{9, 20, 2},
                         Row{16, 64, 2}, Row{4, 65, 0}, Row{5, 65, -1}, Row{1, 129, -1}}) {
    for (auto& graph : graphs) graph->firsts.clear();
    step->staging()[lane.layout.cu_seqlens + row.items] = 0;
    const auto launched = step->launch({row.items, row.tokens, row.items});
    CHECK(launched == (row.graph < 0 ? CudaStep::Launch::kNoGraph : CudaStep::Launch::kDone));
    CHECK(step->wait(test::kPatienceNs, 0) == CudaStep::Progress::kDone);
    for (int i = 0; i < 5; i++) CHECK_EQ(graphs[size_t(i)]->firsts.size(), size_t(i == row.graph));
  }
  CHECK(step->launch({1, SumLane::kTokens + 1, 1}) == CudaStep::Launch::kTooLarge);
}

// Between begin() and end() the device has what begin() gave it, and waits for nothing.
TEST(a_step_runs_in_two_parts) {
  DeviceTime time;
  SumLane lane(time);
  std::mt19937 random(3);
  SumStep own{lane.step(), {}}, other{lane.step(), {}};
  own.pack(lane.layout, random, 5);
  other.pack(lane.layout, random, 6);
  const StepSize n{own.items, own.tokens, own.items};
  CHECK(own.step->begin(n) == CudaStep::Launch::kNoGraph);
  CHECK(own.step->end() == CudaStep::Launch::kNoGraph);
  std::atomic<u32> ends = 0;
  const auto count = [](void* user) { ++*static_cast<std::atomic<u32>*>(user); };
  void* tail = cuda().make_graph(count, &ends, reinterpret_cast<i64*>(lane.output.data()));
  for (const CudaGraph& graph : std::vector(lane.lane.graphs()))
    CHECK(lane.lane.add_parts(graph.exec, tail, graph.shape.max_tokens, graph.shape.max_items));
  CHECK(!lane.lane.add_parts(tail, tail, 1, 1));
  CHECK(other.launch() == CudaStep::Launch::kDone);
  CHECK(own.step->begin(n) == CudaStep::Launch::kDone);
  CHECK(own.step->begin(n) == CudaStep::Launch::kRunning);
  CHECK(own.launch() == CudaStep::Launch::kRunning);
  CHECK(!lane.lane.add(tail, 1, 1));
  CHECK(other.wait() && other.right());
  cuda().api->cudaStreamSynchronize(lane.stream);
  CHECK(!ends && !own.right());
  CHECK(own.step->end() == CudaStep::Launch::kDone);
  CHECK(own.wait() && own.right());
  CHECK_EQ(ends.load(), 1u);
  CHECK(own.launch() == CudaStep::Launch::kDone);
  CHECK(own.wait() && own.right());
  CHECK_EQ(ends.load(), 1u);
  own.pack(lane.layout, random, 7);
  CHECK(own.step->begin({own.items, own.tokens, own.items}) == CudaStep::Launch::kDone);  // and is left there
}

TEST(due_times_are_learnt) {
  DeviceTime time;
  Knob slow("graph_ns", 30'000'000);
  SumLane lane(time, {SumLane::kTokens});
  std::mt19937 random(5);
  SumStep a{lane.step(), {}}, b{lane.step(), {}};
  CHECK_EQ(a.step->due_ns(), 0u);  // it was never launched
  a.pack(lane.layout, random, 0), b.pack(lane.layout, random, 0);
  CHECK(a.launch() == CudaStep::Launch::kDone);
  CHECK(a.step->due_ns() <= 1'000'000);  // nobody knows: looked at now and then
  CHECK(a.wait());
  CHECK_EQ(a.step->due_ns(), 0u);
  const u64 usual = lane.lane.graphs()[0].usual_ns;
  CHECK(usual >= 30'000'000);
  const u64 before = now_ns();
  CHECK(a.launch() == CudaStep::Launch::kDone && b.launch() == CudaStep::Launch::kDone);
  const u64 due_b = b.step->due_ns(), due_a = a.step->due_ns();
  if (now_ns() - before < 20'000'000) {  // else we were kept from it
    CHECK(due_b >= due_a + 20'000'000);  // it runs behind the other
    CHECK(due_b <= 2 * usual);
  }
  while (const u64 due = b.step->due_ns()) sleep_ns(i64(due));
  CHECK(b.wait() && a.wait());
}

TEST(who_looks_late_learns_no_longer_time) {
  DeviceTime time;
  SumLane lane(time, {SumLane::kTokens});
  std::mt19937 random(5);
  SumStep step{lane.step(), {}};
  const auto usual = [&] { return lane.lane.graphs()[0].usual_ns; };
  const auto run = [&](i64 late_ns) {
    step.pack(lane.layout, random, 0);
    CHECK(step.launch() == CudaStep::Launch::kDone);
    sleep_ns(late_ns);
    CHECK(step.wait());
  };
  // A machine that stands still makes a step longer, too: what is learnt of that passes.
  run(0);
  for (int i = 1; i < 15 || (i < 300 && usual() >= 15'000'000); i++) run(40'000'000);
  CHECK(usual() < 15'000'000);
  for (int tries = 0; tries < 10; tries++) {
    {
      Knob slow("graph_ns", 80'000'000);  // once
      run(0);
    }
    if (usual() < 30'000'000) return;
    while (usual() >= 15'000'000) run(0);
  }
  CHECK(usual() < 30'000'000);
}

// Turns follow each other without a gap: on average each takes its part of the whole time, and no more.
TEST(a_step_that_waits_for_its_turn_learns_no_longer_time) {
  DeviceTime time;
  Knob slow("graph_ns", 10'000'000);
  bool learnt = false;
  for (int tries = 0; tries < 10 && !learnt; tries++) {  // a stall in one of the last weighs more than its share
    SumLane lane(time, {SumLane::kTokens});
    const u64 begun = now_ns();
    CHECK_EQ(run_twins(lane, 12, 4), 0u);
    learnt = lane.lane.graphs()[0].usual_ns < (now_ns() - begun) / 12 * 3 / 2;
  }
  CHECK(learnt);
}

TEST(what_was_asked_too_early_is_no_error_of_the_next_who_asks) {
  DeviceTime time;
  SumLane lane(time);
  std::mt19937 random(5);
  SumStep step{lane.step(), {}};
  step.pack(lane.layout, random, 0);
  {
    Knob held("hold_graph", 1);
    CHECK(step.launch() == CudaStep::Launch::kDone);
    CHECK(step.step->due_ns() > 0);
    CHECK_EQ(cuda().api->cudaGetLastError().code, kCudaNotReady);  // as with CUDA
    CHECK(step.step->due_ns() > 0);
  }
  CHECK(step.wait());
  CHECK_EQ(cuda().api->cudaGetLastError().code, 0);
}
