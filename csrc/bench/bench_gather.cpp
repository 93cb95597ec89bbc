// What one gather costs: 256 requests of 32 tokens from the slots of two front doors into packed buffers.
//   build/native/bench/bench_gather [repetitions]      prints the median in µs; the same for claim, gather, launch and
//   scatter
#include <sys/eventfd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "core/slab.h"
#include "step/encode/encode_stepper.h"

using namespace fastqps;

namespace {
struct Nobody {
  void answer(u32, u64, Verdict) {}
  void progress(u32, u64) {}
  void restarted(u32, u64) {}
  void released(u32, u64) {}
  void expect(u32) {}
  void expect_item(u32) {}
};
double median(std::vector<u64>& ns) {
  std::nth_element(ns.begin(), ns.begin() + i64(ns.size() / 2), ns.end());
  return double(ns[ns.size() / 2]) / 1000;
}
}  // namespace

int main(int argc, char** argv) {
  constexpr u32 kItems = 256, kLen = 32, kWidth = 384, kDoors = 2;
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 2000;
  auto made = Segment::create(
      {.doors = kDoors, .dispatchers = 1, .models = 1, .slots = 8192, .max_tokens = 256, .answer_bytes = 4 * kWidth});
  std::string error = made.error;
  Segment segment = error.empty() ? Segment::attach(made.fd, &error) : Segment();
  if (!segment.valid()) return std::fprintf(stderr, "%s\n", error.c_str()), 1;
  WakeFds fds;
  fds.dispatcher[0] = eventfd(0, 0);
  fds.door[0] = fds.door[1] = eventfd(0, 0);
  Route& route = segment.route(0);
  route.dimensions = kWidth;
  route.vocab_size = 1000 + kItems;
  route.normalize = 1;
  route.dispatchers = 1;
  Nobody nobody;
  std::vector<Slab<Nobody>> slabs;
  for (u32 f = 0; f < kDoors; f++) slabs.emplace_back(segment, &fds, f, nobody).adopt();
  std::vector<i32> ids(kItems * kLen), positions(kItems * kLen), types(kItems * kLen), starts(kItems + 1);
  std::vector<float> output(kItems * kWidth, 0.05f);
  const DeviceStamps stamps;
  EncodeStepper stepper(segment, &fds, 0, 1, 0, {kItems, kItems * kLen, 0});
  u32 step = stepper.add({ids.data(), positions.data(), types.data(), starts.data(), output.data(), &stamps, kItems,
                          kItems * kLen, kWidth});
  std::vector<u64> gather_ns, launch_ns, scatter_ns;
  for (int r = 0; r < repetitions; r++) {
    for (auto& slab : slabs) {
      for (u32 i = 0; i < kItems / kDoors; i++) {
        u32 slot = u32(slab.take());
        Slot& s = slab.slot(slot);
        std::fill_n(segment.ids(s), kLen, 1000 + i);
        s.n_tokens.store(kLen, kRelaxed);
        s.first_len = kLen;
        slab.put(slot, 0, kNormal, 0, now_ns());
      }
      slab.publish();
    }
    u64 t0 = now_ns();
    bool ok = stepper.gather(0) == i32(step);
    u64 t1 = now_ns();
    ok = ok && stepper.launch(step);
    u64 t2 = now_ns();
    ok = ok && stepper.scatter(step);
    u64 t3 = now_ns();
    if (!ok || stepper.step(step).n_items != kItems) return std::fprintf(stderr, "the step is not whole\n"), 1;
    for (auto& slab : slabs) slab.drain();
    gather_ns.push_back(t1 - t0), launch_ns.push_back(t2 - t1), scatter_ns.push_back(t3 - t2);
  }
  std::printf("gather_us %.2f launch_us %.2f scatter_us %.2f items %u tokens %u\n", median(gather_ns),
              median(launch_ns), median(scatter_ns), kItems, kItems * kLen);
}
