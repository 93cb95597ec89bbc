// What the queues of the routes are likely to do: when a request is answered, and whether a whole call is in its time.
#pragma once
#include <algorithm>
#include <vector>

#include "core/segment.h"
#include "service/formats/protocol.h"
#include "service/tables/groups.h"
#include "service/tables/items.h"
#include "service/tables/refusal.h"

namespace fastqps::service {

// How many items of each class wait for a route, how many more its rings have room for, and when a request that is
// queued now is likely to be answered.
class QueueLoads {
 public:
  QueueLoads(Segment segment, u32 door) : segment_(segment), door_(door), routes_(segment.sizes().routes()) {}

  // Called once a turn and after a sleep: counts the waiting items of all doors.
  void look(u64 now_ns) {
    const Sizes& sizes = segment_.sizes();
    for (u32 r = 0; r < sizes.routes(); r++) {
      Load& load = routes_[r];
      const Route& route = segment_.route(r);
      if (route.state.load(kAcquire) == RouteState::kEmpty) continue;
      if (load.generation != route.generation) load = {.generation = route.generation};
      load.batch_items = batch_items(route);
      count(r, load);
      if (now_ns - load.looked_ns >= kWindowNs) measure(r, now_ns);
    }
  }
  // What this door does with an item since: it waits now; it is held back, and no longer; it is in a ring; it has left.
  void added(u32 route, u32 kind, u32 n_tokens) {
    Load& load = routes_[route];
    load.of[kind].waiting++;
    load.mean_tokens += (double(n_tokens) - load.mean_tokens) / kMeanOver;
  }
  void held(u32 route, u32 kind) { routes_[route].of[kind].held_back++; }
  void fed(u32 route, u32 kind) {
    OfClass& of = routes_[route].of[kind];
    of.held_back -= of.held_back > 0;
    put(route, kind);
  }
  void put(u32 route, u32 kind) {
    OfClass& of = routes_[route].of[kind];
    of.room -= of.room > 0;
  }
  void evicted(u32 route, u32 kind) {
    OfClass& of = routes_[route].of[kind];
    of.held_back -= of.held_back > 0, of.waiting -= of.waiting > 0;
  }

  // How many more entries a ring of this door should have: all doors' together have about what the dispatchers take
  // next, and each door has a part of that.
  u64 room(u32 route, u32 kind) const { return routes_[route].of[kind].room; }

  // What is served before a class is no obstacle to it: the waiting items of this class and the higher ones count.
  bool full(u32 route, u32 kind) const { return !free(route, kind); }
  u64 free(u32 route, u32 kind) const {
    const u64 all = segment_.route(route).max_queue_items;
    return all - std::min(all, before(route, kind));
  }
  // Whether lower classes have to give way to one that is not full; whether this class and the higher ones have more
  // items than there are places.
  bool crowded(u32 route) const { return full(route, kLow); }
  bool exceeds(u32 route, u32 kind) const { return before(route, kind) > segment_.route(route).max_queue_items; }

  // Of a class, those in rings, and those that doors hold back; how many doors do.
  u64 in_rings(u32 route, u32 kind) const {
    return routes_[route].of[kind].waiting - std::min(routes_[route].of[kind].waiting, held_back(route, kind));
  }
  u64 held_back(u32 route, u32 kind) const { return routes_[route].of[kind].held_back; }
  u64 holding_doors(u32 route, u32 kind) const { return routes_[route].of[kind].holding_doors; }

  // How many items of this many tokens the route answers in this time, at the rate that it has while more wait than a
  // step takes. 0: the rate is not known. Items that are shorter than those of the rate take as much less time, longer
  // ones no more: a refusal for ever should err on the side of the client.
  u64 answered_in(u32 route, u64 ns, double tokens) const {
    const Load& load = routes_[route];
    const bool encodes = !generates(segment_.route(route).task);  // otherwise most of the work is the answer
    const double shorter = encodes && tokens > 0 ? std::max(1.0, load.item_tokens / tokens) : 1;
    return load.items_per_s > 0 ? std::max<u64>(1, u64(load.items_per_s * shorter * (double(ns) / 1e9))) : 0;
  }

  // The expected time until a request that is queued now is answered, in ns: items that are served before it ÷
  // completion rate + the usual step. 0: not known. The rate is learned and used only while the queue holds more than
  // the dispatchers can take at once. Below that, and until the rate is known, full steps are used instead:
  // completions measure the demand there, not the capacity. share: the least share of the usual step that this request
  // needs. ahead: items of its class that are served before it.
  u64 predicted_ns(u32 route, u32 kind, double share = 1, u64 ahead = ~u64(0)) const {
    const Load& load = routes_[route];
    const u64 waiting = all(load);
    // No item waits, so the next step may hold this request alone and be much shorter than usual.
    if (!load.fresh || !waiting || !load.batch_items) return 0;
    const u64 own_ns = u64(double(load.step_ns) * share);
    const u64 before = served_before(route, kind, ahead);
    if (waiting >= load.batch_items && load.items_per_s > 0)
      return u64(double(before) / load.items_per_s * 1e9) + own_ns;
    return u64(double(before) / double(load.batch_items) * double(load.step_ns)) + own_ns;
  }

 private:
  static constexpr u64 kWindowNs = 50'000'000, kStaleNs = 250'000'000;
  static constexpr u64 kStepsOfSample = 2;
  static constexpr double kMeanOver = 64;  // items

  struct OfClass {
    u64 waiting = 0, held_back = 0, holding_doors = 0, room = 0;
  };
  struct Load {
    u32 generation = 0;
    OfClass of[kPriorities] = {};
    u64 looked_ns = 0, done = 0, batch_items = 0, step_ns = 0;
    double items_per_s = 0, mean_tokens = 0;
    double done_per_s = 0;                                      // whether saturated or not
    u64 counted_items = 0, counted_tokens = 0, counted_ns = 0;  // of the next sample of items_per_s
    u64 done_tokens = 0;
    double item_tokens = 0;  // mean of the newest sample
    bool counts = false;     // the window began at a completion, and saturated
    bool fresh = false;      // items were completed lately: a stalled estimate must not reject for ever
  };

  u64 before(u32 route, u32 kind) const {
    u64 n = 0;
    for (u32 c = 0; c <= kind; c++) n += routes_[route].of[c].waiting;
    return n;
  }
  static u64 all(const Load& load) {
    u64 waiting = 0;
    for (const OfClass& of : load.of) waiting += of.waiting;
    return waiting;
  }

  // While the request's own class is served to its place, each other one is by its weight, or until it is empty.
  u64 served_before(u32 route, u32 kind, u64 ahead) const {
    const Load& load = routes_[route];
    const u32* weights = segment_.sizes().class_weights;
    ahead = std::min(ahead, load.of[kind].waiting);
    u64 before = ahead;
    for (u32 c = 0; c < kPriorities; c++)
      if (c != kind) before += std::min(load.of[c].waiting, ahead * weights[c] / weights[kind]);
    return before;
  }

  u64 dispatchers(const Route& route) const {
    return std::max(1, __builtin_popcountll(route.dispatchers.load(kRelaxed)));
  }
  u64 batch_items(const Route& route) const { return dispatchers(route) * route.max_batch_items.load(kRelaxed); }

  // About what the dispatchers of a route take next: of an encoder a step each, and no less than two items, since a
  // door is woken when the first has gone. A generator's take as many as end meanwhile. Where steps are so short that
  // many of them end before a door is awake, what they take in kAheadS. An edge's messages are no steps: they could
  // take far more than its servers answer soon, and what is in a ring is not ordered by tenants any more. Nor can it
  // make way in a full queue for a tenant with few: beyond one step, rings hold at most half of the places.
  u64 next_items(const Route& route, const Load& load) const {
    constexpr u64 kLeastStep = 2, kUnknown = 64, kOfEdge = 16, kLeastJoin = 8, kPartOfCache = 8, kPartOfQueue = 2;
    constexpr double kAheadS = 0.004;
    const u64 cache = route.cache_slots.load(kRelaxed);
    const u64 batch = segment_.sizes().upstreams ? kOfEdge : route.max_batch_items.load(kRelaxed);
    const u64 by_tokens = u64(route.max_batch_tokens / std::max(1.0, load.mean_tokens));
    const u64 each = generates(route.task) ? std::max(kLeastJoin, cache / kPartOfCache)
                                           : std::max(kLeastStep, std::min(batch ? batch : kUnknown, by_tokens));
    const u64 soon = u64(load.done_per_s * kAheadS), most = std::max<u64>(each, route.max_queue_items / kPartOfQueue);
    return std::min<u64>({std::max(dispatchers(route) * each, soon), most, segment_.sizes().slots});
  }

  void count(u32 r, Load& load) {
    const Sizes& sizes = segment_.sizes();
    const u64 next = next_items(segment_.route(r), load), part = std::max<u64>(1, next / sizes.doors);
    for (u32 c = 0; c < kPriorities; c++) {
      OfClass& of = load.of[c];
      u64 own = 0;
      of = {};
      for (u32 f = 0; f < sizes.doors; f++) {
        const u64 ring = in_ring(f, r, c);
        const u64 held_back = segment_.door_route(f, r).held_back[c].load(kRelaxed);  // relaxed: a guess is enough
        of.waiting += ring + held_back;
        of.held_back += held_back, of.holding_doors += held_back > 0;
        if (f == door_) own = ring;
      }
      const u64 entries = of.waiting - of.held_back;
      of.room = std::max(next - std::min(next, entries), part - std::min(part, own));
      for (u32 f = 0; c == kHigh && f < sizes.doors; f++) of.waiting += in_ring(f, r, kSuspect);  // they come first
    }
  }
  u64 in_ring(u32 door, u32 route, u32 kind) const {
    const RingLine& ring = segment_.request_ring(door, route, kind);
    // seq_cst: sync point R of claimer.h, before a sleep.
    const u64 head = ring.head.load(kSeqCst), tail = ring.tail.load(kRelaxed);
    return tail > head ? tail - head : 0;
  }

  void measure(u32 r, u64 now_ns) {
    Load& load = routes_[r];
    u64 done = 0, done_tokens = 0, step_ns = 0;
    for (u64 rest = segment_.route(r).dispatchers.load(kRelaxed); rest; rest &= rest - 1) {
      const u32 i = u32(__builtin_ctzll(rest));
      const DispatcherLine& d = segment_.dispatcher(i);
      done += d.items_done.load(kRelaxed);
      done_tokens += segment_.dispatcher_stats(i).step_tokens.load(kRelaxed);  // relaxed: a guess is enough
      step_ns = std::max(step_ns, d.step_usual_ns.load(kRelaxed));
    }
    const bool saturated = all(load) >= load.batch_items;
    const u64 completed = done - std::min(done, load.done), took_ns = now_ns - load.looked_ns;
    const u64 tokens = done_tokens - std::min(done_tokens, load.done_tokens);
    const bool stalled = took_ns >= std::max(kStaleNs, 2 * step_ns);
    // A window ends with a completion, because one step can last longer than many shortest windows and its items belong
    // to all of them.
    if (!completed && !stalled) return;
    if (load.looked_ns) load.done_per_s = double(completed) / double(took_ns) * 1e9;
    load.fresh = completed > 0;
    load.step_ns = step_ns;
    learn_rate(load, saturated, stalled ? 0 : completed, tokens, took_ns);
    load.counts = saturated && completed;
    load.done = done, load.done_tokens = done_tokens;
    load.looked_ns = now_ns;
  }

  // A sample lasts some usual steps: a generator's answers come in waves, at least one in that time, and a window that
  // is no more than the pause between two waves would show a small part of the rate. A stall shows nothing of it.
  static void learn_rate(Load& load, bool saturated, u64 completed, u64 tokens, u64 took_ns) {
    // The rate of a past overload says nothing about the next burst.
    if (!saturated) load.items_per_s = 0, load.counted_items = load.counted_tokens = load.counted_ns = 0;
    if (!saturated || !load.counts || !completed) return;
    load.counted_items += completed, load.counted_tokens += tokens, load.counted_ns += took_ns;
    if (load.counted_ns < kStepsOfSample * load.step_ns) return;
    const double rate = double(load.counted_items) / double(load.counted_ns) * 1e9;
    load.items_per_s = load.items_per_s > 0 ? load.items_per_s * 0.75 + rate * 0.25 : rate;
    load.item_tokens = double(load.counted_tokens) / double(load.counted_items);
    load.counted_items = load.counted_tokens = load.counted_ns = 0;
  }

  Segment segment_;
  const u32 door_;
  std::vector<Load> routes_;
};

// Refuses a call whose own inputs take longer than it may, even if nothing else waits: to try again would not help.
class CallFit {
 public:
  CallFit(const Groups& groups, const QueueLoads& loads, RefusalWriter& refusals, const TimeLimits& times)
      : groups_(groups), loads_(loads), refusals_(refusals), times_(times) {}

  // No refusal if the call fits, is a stream, or the server's rate is not known. margin: by so much the call's time
  // must be too short.
  Refusal check(u32 g, u32 route, u64 received_ns, u64 last_ns, TimeBound bound, double margin = 1) const {
    if (!together(g) || !last_ns) return {};
    const Group& group = groups_[g];
    const u64 time_ns = bound == TimeBound::kDefault ? times_.most_ns() : last_ns - received_ns;
    const u64 fit = loads_.answered_in(route, time_ns, group.mean_tokens());
    if (!fit || double(fit) * margin >= group.items) return {};
    return refusals_.refuse_inputs(group.items, fit, time_ns, bound);
  }
  Refusal check(const Item& item, u64 last_ns, double margin = 1) const {
    return check(item.group, item.route, item.received_ns, last_ns, item.bound, margin);
  }
  // If the call has more items than may wait at once, and fails with the first that is refused.
  Refusal check_room(u32 group, u32 most, const char* setting) const {
    if (!together(group) || groups_[group].items <= most || groups_[group].writer->has_item_statuses()) return {};
    return refusals_.refuse(StatusCode::kInvalidArgument,
                            "%u inputs, and at most %u can wait (%s): send fewer in a call", groups_[group].items, most,
                            setting);
  }
  // If a call has all places for large answers itself, and needs one more.
  Refusal check_large(u32 group, u64 held, u64 most) const {
    if (!together(group) || held < most || groups_[group].writer->has_item_statuses()) return {};
    return refusals_.refuse(StatusCode::kInvalidArgument,
                            "this call's answers need more than the %llu places that this front door has for large "
                            "ones: send fewer inputs in a call, or ask for fewer choices or log-probabilities",
                            (unsigned long long)most);
  }

 private:
  bool together(u32 group) const { return group != Groups::kNone && groups_[group].kind == GroupKind::kTogether; }

  const Groups& groups_;
  const QueueLoads& loads_;
  RefusalWriter& refusals_;
  const TimeLimits times_;
};

}  // namespace fastqps::service
