// What launching and retiring a step on a GPU costs in our own code: the whole on the fake CUDA runtime, whose calls do
// their work at once, less the same calls made bare.
//   build/native/bench/bench_cuda_step [repetitions]      prints the medians in ns
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/clock.h"
#include "tests/cuda/fake_cuda_fixture.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

constexpr int kBlock = 64;  // steps that are timed at once

double median(std::vector<double>& all) {
  std::nth_element(all.begin(), all.begin() + i64(all.size() / 2), all.end());
  return all[all.size() / 2];
}

template <class Body>
double timed(Body body) {
  const u64 begun = now_ns();
  for (int i = 0; i < kBlock; i++) body();
  return double(now_ns() - begun) / kBlock;
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 2000;
  CHECK(cuda().set("inline", 1));
  CudaApi& api = *cuda().api;
  DeviceTime time;
  const EncodeLayout layout(8192, 1024, 384);
  std::vector<i32> staging(layout.device_words), output(kStampWords + layout.out_words);
  const CudaHandle stream = cuda().stream();
  CudaLane lane(api, time, EncodeBlocks{layout, false}, stream, staging.data(), output.data());
  void* graph = cuda().make_graph([](void*) {}, nullptr, reinterpret_cast<i64*>(output.data()));
  for (u32 tokens = 64; tokens <= 8192; tokens += 64) CHECK(lane.add(graph, tokens, 1024));
  CudaStatus status;
  auto step = CudaStep::open(lane, &status);
  CudaHandle event = nullptr;
  CHECK(!api.cudaEventCreateWithFlags(&event, kCudaEventNoTiming));
  i32* host = nullptr;
  CHECK(!api.cudaHostAlloc(reinterpret_cast<void**>(&host), layout.device_words * sizeof(i32), 0u));
  auto ours = [&] {
    CHECK(step->launch({1, 8000, 1}) == CudaStep::Launch::kDone);
    step->due_ns();
    CHECK(step->wait(1'000'000'000, 0) == CudaStep::Progress::kDone);
  };
  const size_t up = (EncodeLayout(8000, 1024, 384, false).cu_seqlens + 2) * 4, down = (kStampWords + layout.width) * 4;
  auto bare = [&] {
    CHECK(!api.cudaMemcpyAsync(staging.data(), host, up, kCudaToDevice, stream));
    CHECK(!api.cudaGraphLaunch(graph, stream));
    CHECK(!api.cudaMemcpyAsync(step->output() - kStampWords, output.data(), down, kCudaToHost, stream));
    CHECK(!api.cudaEventRecord(event, stream));
    CHECK(!api.cudaEventQuery(event));
  };
  std::vector<double> whole, calls, own;
  for (int i = 0; i < repetitions; i++) {
    whole.push_back(timed(ours));
    calls.push_back(timed(bare));
    own.push_back(whole.back() - calls.back());
  }
  std::printf("launch, due and wait  %.0f ns\nthe same calls bare   %.0f ns\nour own share         %.0f ns\n",
              median(whole), median(calls), median(own));
}
