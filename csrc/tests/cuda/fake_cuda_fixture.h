// The fake CUDA runtime as native tests use it, and a model on it whose answers can be told beforehand.
#pragma once
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "step/cuda/cuda_step.h"
#include "tests/check.h"

namespace fastqps::test {

// The library that make built beside this program, or the one that FASTQPS_TEST_FAKE_CUDA names.
struct FakeCuda {
  std::unique_ptr<CudaApi> api;
  void* (*make_graph)(void (*)(void*), void*, i64*);
  i64 (*clock)();
  int (*set)(const char*, i64);
  i64 (*count)(const char*);
  void (*mark)();

  FakeCuda() {
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self);
    std::string path(self, size_t(std::max<ssize_t>(n, 0)));
    path = path.substr(0, path.rfind('/'));
    if (path.ends_with("/bench")) path = path.substr(0, path.rfind('/'));
    path += "/libfakecudart.so";
    if (const char* given = std::getenv("FASTQPS_TEST_FAKE_CUDA")) path = given;
    std::string error;
    api = CudaApi::open(path, &error);
    if (!api) fail(__FILE__, __LINE__, error);
    void* library = dlopen(path.c_str(), RTLD_LAZY);
    find(library, make_graph, "fakeGraphCreate");
    find(library, clock, "fakeClock");
    find(library, set, "fakeSet");
    find(library, count, "fakeCount");
    find(library, mark, "fakeMark");
    CHECK(set("devices", 8));
    use(0);
  }
  void use(int device) { CHECK(!api->cudaSetDevice(device)); }
  CudaHandle stream() {
    CudaHandle made = nullptr;
    CHECK(!api->cudaStreamCreateWithFlags(&made, kCudaStreamNonBlocking));
    return made;
  }

 private:
  template <class F>
  static void find(void* library, F& f, const char* name) {
    f = reinterpret_cast<F>(dlsym(library, name));
    CHECK(f);
  }
};

inline FakeCuda& cuda() {
  static FakeCuda& one = *new FakeCuda;
  return one;
}

// A lane whose graphs answer item i with `width` times the sum of its token ids plus its token types. `graphs`: tokens
// that they hold. Never freed where its device broke down: the fake's threads may still look at it.
struct SumLane {
  static constexpr u32 kTokens = 256, kItems = 16, kWidth = 3;
  struct Graph {
    SumLane* lane;
    u32 max_tokens;
    std::vector<i32> firsts;  // first token id of each step that it ran
  };

  EncodeLayout layout{kTokens, kItems, kWidth};
  bool token_types;
  std::vector<i32> staging, output;
  DeviceTime& time;
  CudaHandle stream = cuda().stream();
  CudaLane lane;
  std::vector<std::unique_ptr<Graph>> graphs;

  explicit SumLane(DeviceTime& time, std::vector<u32> sizes = {64, kTokens}, bool token_types = true)
      : token_types(token_types),
        staging(layout.device_words, -7),
        output(kStampWords + layout.out_words),
        time(time),
        lane(*cuda().api, time, EncodeBlocks{layout, token_types}, stream, staging.data(), output.data()) {
    for (u32 tokens : sizes) {
      graphs.emplace_back(new Graph{this, tokens, {}});
      void* exec = cuda().make_graph(&run, graphs.back().get(), reinterpret_cast<i64*>(output.data()));
      CHECK(lane.add(exec, tokens, kItems));
    }
  }
  ~SumLane() {
    cuda().api->cudaStreamSynchronize(stream);
    cuda().api->cudaStreamDestroy(stream);
  }
  std::unique_ptr<CudaStep> step() {
    CudaStatus status;
    auto made = CudaStep::open(lane, &status);
    CHECK(!status);
    return made;
  }

  static void run(void* user) {
    auto& graph = *static_cast<Graph*>(user);
    SumLane& own = *graph.lane;
    const i32* s = own.staging.data();
    CHECK(u32(s[kHeaderTokens]) <= graph.max_tokens);
    const EncodeLayout layout(graph.max_tokens, kItems, kWidth, own.token_types);
    auto* rows = reinterpret_cast<float*>(own.output.data() + kStampWords);
    for (i32 i = 0; i < s[kHeaderItems]; i++) {
      const i32 *begin = s + layout.cu_seqlens + i, *ids = s + layout.input_ids, *types = s + layout.token_type_ids;
      float sum = 0;
      for (i32 at = begin[0]; at < begin[1]; at++) sum += float(ids[at] + (own.token_types ? types[at] : 0));
      std::fill_n(rows + i * i32(kWidth), kWidth, sum * kWidth);
    }
    graph.firsts.push_back(s[layout.input_ids]);
  }
};

// A packed step and what is to be answered.
struct SumStep {
  std::unique_ptr<CudaStep> step;
  std::vector<float> expected;
  u32 items = 0, tokens = 0;

  void pack(const EncodeLayout& layout, std::mt19937& random, i32 first) {
    items = 1 + random() % SumLane::kItems;
    tokens = 0;
    expected.clear();
    i32* s = step->staging();
    for (u32 i = 0; i < items; i++) {
      const u32 len = 1 + random() % (SumLane::kTokens / SumLane::kItems);
      s[layout.cu_seqlens + i] = i32(tokens);
      float sum = 0;
      for (u32 at = tokens; at < tokens + len; at++) {
        s[layout.input_ids + at] = at ? i32(random() % 1000) : first;
        s[layout.token_type_ids + at] = i32(random() % 2);
        sum += float(s[layout.input_ids + at] + s[layout.token_type_ids + at]);
      }
      expected.push_back(sum * SumLane::kWidth);
      tokens += len;
    }
    s[layout.cu_seqlens + items] = i32(tokens);
  }
  CudaStep::Launch launch() { return step->launch({items, tokens, items}); }
  bool wait() { return step->wait(kPatienceNs, 0) == CudaStep::Progress::kDone; }
  bool right() const {
    for (u32 i = 0; i < items * SumLane::kWidth; i++)
      if (reinterpret_cast<const float*>(step->output())[i] != expected[i / SumLane::kWidth]) return false;
    return true;
  }
};

}  // namespace fastqps::test
