// What preparing one step of generation costs: 1,024 running sequences and 32 new prompts of 50 tokens.
//   build/native/bench/bench_decode [repetitions]      prints medians in µs: preparing the step, retiring it
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/clock.h"
#include "step/decode/decode_batch.h"

using namespace fastqps;

namespace {
double median(std::vector<u64>& ns) {
  std::nth_element(ns.begin(), ns.begin() + i64(ns.size() / 2), ns.end());
  return double(ns[ns.size() / 2]) / 1000;
}
}  // namespace

int main(int argc, char** argv) {
  constexpr u32 kRunning = 1024, kNew = 32, kLen = 50, kRuns = kRunning + kNew, kRows = kRunning + kNew * kLen;
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 2000;
  const DecodeLayout layout(kRows, kRuns);
  std::vector<i32> staging(layout.words), output(layout.out_words);
  std::vector<u32> ids(kLen, 1000);
  DecodeBatch batch(kRuns, 0);
  DecodeStep step(staging.data(), output.data(), kRows, kRuns);
  Sampling sampling{};
  sampling.top_p = 1, sampling.max_tokens = 1u << 30;
  u32 tokens = 0;
  const auto count = [&tokens](u32, u32, const Token&) { tokens++; };
  batch.begin(step);
  for (u32 i = 0; i < kRunning; i++) batch.admit(step, ids.data(), 1, sampling, 0);
  batch.seal(step);
  batch.retire(step, count);
  std::vector<u64> prepare_ns, retire_ns;
  for (int r = 0; r < repetitions; r++) {
    const u64 t0 = now_ns();
    batch.begin(step);
    for (u32 i = 0; i < kNew; i++) ids[0] = i, batch.admit(step, ids.data(), kLen, sampling, 0);
    batch.seal(step);
    const u64 t1 = now_ns();
    if (u32(staging[kHeaderTokens]) != kRows || u32(staging[kHeaderRuns]) != kRuns)
      return std::fprintf(stderr, "the step is not whole\n"), 1;
    for (u32 i = kRunning; i < kRuns; i++) output[layout.out_finish + i] = i32(Finish::kStop);  // the new ones leave
    tokens = 0;
    const u64 t2 = now_ns();
    batch.retire(step, count);
    const u64 t3 = now_ns();
    if (tokens != kRuns || batch.running() != kRunning) return std::fprintf(stderr, "tokens are missing\n"), 1;
    prepare_ns.push_back(t1 - t0), retire_ns.push_back(t3 - t2);
  }
  std::printf("prepare_us %.2f retire_us %.2f runs %u rows %u\n", median(prepare_ns), median(retire_ns), kRuns, kRows);
}
