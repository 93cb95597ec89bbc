// A front door, dispatchers over ModelDevice, and their segment, for tests that drive a DecodeStepper in one thread.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/slab.h"
#include "step/decode/decode_stepper.h"
#include "tests/made_segment.h"
#include "tests/step/model_device.h"

namespace fastqps::test {

using List = std::vector<u32>;
inline constexpr u32 kPrefix = 2;  // positions in front of every prompt

struct Door : SlabHost {
  Segment segment;
  std::map<u32, Verdict> ended;
  std::map<u32, List> tokens;  // of ended ones
  std::map<u32, u16> status;
  std::map<u32, u32> progressed;  // by slot: n_made at the newest hint
  void answer(u32 slot, u64, Verdict verdict) {
    const Slot& s = segment.slot(0, slot);
    ended[slot] = verdict;
    status[slot] = s.status;
    const u32* ids = reinterpret_cast<const u32*>(segment.answer(segment.slot(0, slot)));
    if (s.kind == Answer::kTokens) tokens[slot] = List(ids, ids + s.n_values);
  }
  void progress(u32 slot, u64) { progressed[slot] = segment.slot(0, slot).n_made.load(kAcquire); }
  void restarted(u32 slot, u64) { progressed.erase(slot); }
};

// The most that a lane runs, and the most rows of its steps.
struct Shape {
  u32 running = 4, tokens = 24;
};

// Steps 2 × lane and 2 × lane + 1 are a lane's.
struct Dispatcher {
  static constexpr u32 kLanes = 3;
  std::vector<i32> in[2 * kLanes], out[2 * kLanes];
  DeviceStamps stamps[2 * kLanes];
  DecodeStepper stepper;
  std::vector<ModelDevice> devices;
  std::deque<u32> flying[kLanes];

  Dispatcher(Segment segment, const WakeFds* fds, u32 me, u32 epoch, u32 lanes = 1, Shape shape = {})
      : stepper(segment, fds, me, epoch, 0, {.items = shape.running, .tokens = shape.tokens, .delay_ns = 0}),
        devices(lanes, ModelDevice(shape.running, kPrefix)) {
    const DecodeLayout layout(shape.tokens, shape.running);
    for (u32 i = 0; i < 2 * lanes; i++) {
      in[i].resize(layout.words);
      out[i].resize(layout.out_words);
      stepper.add(in[i].data(), out[i].data(), &stamps[i], i / 2);
    }
  }
  bool launch() {
    const i32 s = stepper.gather(0);
    CHECK(s != kFenced);
    if (s == kNothing) return false;
    for (const auto& lane : flying) CHECK(!std::count(lane.begin(), lane.end(), u32(s)));
    CHECK(stepper.launch(u32(s)));
    flying[s / 2].push_back(u32(s));
    return true;
  }
  // A lane's oldest step.
  void retire(u32 takes_us = 0, u32 lane = 0) {
    const u32 s = flying[lane].front();
    stamps[s].start_ns = i64(now_ns());
    if (takes_us) usleep(takes_us);
    devices[lane].run(stepper.step(s).layout, in[s].data(), out[s].data());
    stamps[s].end_ns = i64(now_ns());
    CHECK(stepper.scatter(s));
    flying[lane].pop_front();
  }
  // One turn of the loop: a step ahead where there is one to prepare.
  bool turn() {
    const bool launched = flying[0].size() < 2 && launch(), retires = flying[0].size() == 2 || (!launched && busy());
    if (retires) retire();
    return launched || retires;
  }
  bool busy() const { return !flying[0].empty(); }
  // Until nothing is left to do. The front door reads as it goes on.
  template <class Slab>
  void finish(Slab& slab) {
    while (turn()) slab.drain();
    slab.drain();
  }
};

struct World : OwnSegment {
  Door host;
  std::unique_ptr<Slab<Door>> slab;
  u32 structure_bytes = 0;  // of the structure that the next requests have; 0: none

  explicit World(u32 slots = 16, u32 max_input = 10, u32 max_output = 12)
      : OwnSegment({.dispatchers = 2,
                    .slots = slots,
                    .max_tokens = max_input + 6,
                    .answer_bytes = TokenAnswer::bytes(max_output, 0),
                    .attachment_bytes = 1024}) {
    host.segment = segment;
    Route& route = segment.route(0);
    route.task = Task::kGenerate;
    route.max_input_tokens = max_input;
    route.vocab_size = 1000;
    route.max_output_tokens = max_output;
    route.prefix_tokens = kPrefix;
    route.dispatchers = 1;
    slab = std::make_unique<Slab<Door>>(segment, &fds, 0, host);
    slab->adopt();
  }
  u32 put(const List& prompt, u32 max_tokens, u8 flags = kProgress, u64 deadline_ns = 0, u32 kind = kNormal) {
    const i64 i = slab->take();
    CHECK(i >= 0);
    Slot& s = slab->slot(u32(i));
    std::copy(prompt.begin(), prompt.end(), segment.ids(s));
    s.n_tokens.store(u32(prompt.size()), kRelaxed);
    s.deadline_ns = deadline_ns;
    s.flags = flags;
    s.attached[u32(AttachmentKind::kStructure)] = {0, structure_bytes};
    s.sampling = {1, 0, 1, 0, max_tokens, 0, {}};
    CHECK(slab->put(u32(i), 0, kind, 0, now_ns()));
    slab->publish();
    return u32(i);
  }
  State state(u32 slot) { return Word{segment.slot(0, slot).state.load()}.state(); }
};

}  // namespace fastqps::test
