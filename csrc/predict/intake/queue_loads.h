// How many items wait in the queue of each route, and when a request that is queued now is likely to be answered.
#pragma once
#include <algorithm>
#include <vector>

#include "core/segment.h"

namespace fastqps::front {

class QueueLoads {
 public:
  explicit QueueLoads(Segment segment) : segment_(segment), routes_(segment.sizes().routes()) {}

  // Called once a turn and after a sleep: counts the waiting items of all doors.
  void look(u64 now_ns) {
    const Sizes& sizes = segment_.sizes();
    for (u32 r = 0; r < sizes.routes(); r++) {
      Load& load = routes_[r];
      const Route& route = segment_.route(r);
      if (route.state.load(kAcquire) == RouteState::kEmpty) continue;
      if (load.generation != route.generation) load = {.generation = route.generation};
      u64 waiting = 0;
      for (u32 f = 0; f < sizes.doors; f++)
        for (u32 c = 0; c < kClasses; c++) {
          const RingLine& ring = segment_.request_ring(f, r, c);
          u64 head = ring.head.load(kRelaxed), tail = ring.tail.load(kRelaxed);  // relaxed: a guess is enough
          waiting += tail > head ? tail - head : 0;
        }
      load.waiting = waiting;
      load.added = 0;
      if (now_ns - load.looked_ns >= kWindowNs) measure(r, now_ns);
    }
  }
  void added(u32 route) { routes_[route].added++; }

  bool full(u32 route) const {
    const Load& load = routes_[route];
    return load.waiting + load.added >= segment_.route(route).max_queue_items;
  }

  // The number of free places in the queue.
  u64 free(u32 route) const {
    const Load& load = routes_[route];
    const u64 all = segment_.route(route).max_queue_items, waiting = load.waiting + load.added;
    return all - std::min(all, waiting);
  }

  // The expected time until a request that is queued now is answered, in ns: waiting items ÷ completion rate + the
  // usual step. 0: not known. The rate is learned and used only while the queue holds more than the dispatchers can
  // take at once. Below that, completions measure the demand, not the capacity, so full steps are used instead. share:
  // the least share of the usual step that this request needs.
  u64 predicted_ns(u32 route, double share = 1) const {
    const Load& load = routes_[route];
    u64 waiting = load.waiting + load.added;
    // No item waits, so the next step may hold this request alone and be much shorter than usual.
    if (!load.fresh || !waiting || !load.batch_items) return 0;
    const u64 own_ns = u64(double(load.step_ns) * share);
    if (waiting >= load.batch_items && load.items_per_s > 0)
      return u64(double(waiting) / load.items_per_s * 1e9) + own_ns;
    // The rate is not known: at least until the running steps have ended.
    return u64(std::min(1.0, double(waiting) / double(load.batch_items)) * double(load.step_ns)) + own_ns;
  }

 private:
  static constexpr u64 kWindowNs = 50'000'000, kStaleNs = 250'000'000;

  struct Load {
    u32 generation = 0;
    u64 waiting = 0, added = 0;
    u64 looked_ns = 0, done = 0, batch_items = 0, step_ns = 0;
    double items_per_s = 0;
    bool saturated = false;  // at the start of the window
    bool fresh = false;      // items were completed lately: a stalled estimate must not reject for ever
  };

  void measure(u32 r, u64 now_ns) {
    Load& load = routes_[r];
    u64 done = 0, step_ns = 0, n = 0;
    for (u64 rest = segment_.route(r).dispatchers.load(kRelaxed); rest; rest &= rest - 1) {
      const DispatcherLine& d = segment_.dispatcher(u32(__builtin_ctzll(rest)));
      done += d.items_done.load(kRelaxed);
      step_ns = std::max(step_ns, d.step_usual_ns.load(kRelaxed));
      n++;
    }
    load.batch_items = n * segment_.route(r).max_batch_items;
    bool saturated = load.waiting >= load.batch_items;
    u64 completed = done - std::min(done, load.done);
    // A window ends with a completion, because one step can last longer than many shortest windows and its items belong
    // to all of them.
    if (!completed && now_ns - load.looked_ns < std::max(kStaleNs, 2 * step_ns)) return;
    if (load.looked_ns && completed && load.saturated && saturated) {
      double rate = double(completed) / double(now_ns - load.looked_ns) * 1e9;
      load.items_per_s = load.items_per_s > 0 ? load.items_per_s * 0.75 + rate * 0.25 : rate;
    } else if (!saturated) {
      load.items_per_s = 0;  // the rate of a past overload says nothing about the next burst
    }
    load.fresh = completed > 0;
    load.step_ns = step_ns;
    load.saturated = saturated;
    load.done = done;
    load.looked_ns = now_ns;
  }

  Segment segment_;
  std::vector<Load> routes_;
};

}  // namespace fastqps::front
