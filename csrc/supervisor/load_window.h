// The server's load in the last seconds. The supervisor samples the counters of all processes every 100 ms. Rates are
// differences of counters, so they are exact however late a sample is.
#pragma once
#include <algorithm>
#include <deque>
#include <vector>

#include "contract/types.h"
#include "core/busy.h"
#include "core/clock.h"
#include "core/waiting.h"

namespace fastqps::supervisor {

// Sums over steps, and two estimates from them: how long a step takes, and how well the steps use the device.
struct StepSums {
  u64 steps = 0, items = 0, item_room = 0, tokens = 0, token_room = 0;
  u64 ns = 0;                                   // on the device, each from its start to its end
  u64 tokens_squared = 0, tokens_times_ns = 0;  // sums over steps; they wrap, but their differences are right

  StepSums& operator+=(const StepSums& o) {
    return each(o, [](u64 a, u64 b) { return a + b; });
  }
  StepSums& operator-=(const StepSums& o) {
    return each(o, [](u64 a, u64 b) { return a - b; });
  }
  friend StepSums operator-(StepSums a, const StepSums& b) { return a -= b; }

  double mean_s() const { return steps ? double(ns) / double(steps) * 1e-9 : 0; }

  // The fill ratio of the steps, by tokens or by items, whichever is higher.
  double fill() const {
    auto share = [](u64 of, u64 room) { return room ? double(of) / double(room) : 0.0; };
    return std::min(1.0, std::max(share(tokens, token_room), share(items, item_room)));
  }

  // The share of a usual step's time that does not depend on its tokens, from a linear fit of step times over tokens.
  // It is 1 if all steps had the same number of tokens, because then no line is known.
  double fixed_share() const {
    if (!steps || !ns || !tokens) return 1;
    const double n = double(steps), mean_tokens = double(tokens) / n, mean_ns = double(ns) / n;
    const double varies = std::max(0.0, double(tokens_squared) / n - mean_tokens * mean_tokens);
    const double with_ns = double(tokens_times_ns) / n - mean_tokens * mean_ns;
    const double noise = kNoise * mean_tokens;
    return std::clamp(1 - with_ns / (varies + noise * noise) * mean_tokens / mean_ns, 0.0, 1.0);
  }

  // The share of the steps' time that the same work would take in full steps. The fixed part is paid once per step, the
  // rest for each token.
  double used() const { return 1 - fixed_share() * (1 - fill()); }

 private:
  static constexpr double kNoise = 0.05;  // of the mean tokens: smaller differences say nothing about their cost

  template <class F>
  StepSums& each(const StepSums& o, F f) {
    steps = f(steps, o.steps), items = f(items, o.items), item_room = f(item_room, o.item_room);
    tokens = f(tokens, o.tokens), token_room = f(token_room, o.token_room), ns = f(ns, o.ns);
    tokens_squared = f(tokens_squared, o.tokens_squared), tokens_times_ns = f(tokens_times_ns, o.tokens_times_ns);
    return *this;
  }
};

// Means over a window.
struct Load {
  double seconds = 0;  // how long it is
  // Items per second that arrived, however they end. Invalid items do not count, nor do items rejected because no
  // dispatcher is left: a broken server rejects quickly and would attract any number of them.
  double asked = 0;
  double errors = 0;  // items per second that failed by no fault of the client
  double items = 0;   // items per second that ended, of all codes
  double in_flight = 0;
  double slots = 0;                      // share of them in use
  double dispatcher = 0, frontdoor = 0;  // share of the time in which the busiest one did not sleep
  double device = 0;  // share of the time that the busiest device would need for the same work in full steps
};

class LoadWindow {
 public:
  static constexpr u64 kLongNs = 10'000'000'000, kShortNs = 1'000'000'000;
  static constexpr size_t kLooksMax = 256;  // more samples than this shorten the long window

  LoadWindow(Segment segment, const BusyUnion& busy, u64 now)
      : segment_(segment),
        busy_(&busy),
        doors_(segment.sizes().doors),
        dispatchers_(segment.sizes().dispatchers),
        devices_(segment.sizes().devices),
        models_(segment.sizes().models),
        steps_(dispatchers_),
        work_(u64(devices_) * models_),
        step_s_(models_),
        seen_(u64(dispatchers_) * Histogram::kBuckets),
        count_(dispatchers_),
        long_(kLongNs, buckets()),
        short_(kShortNs, buckets()) {
    look(now);
    looks_.back().waits.assign(buckets(), 0);  // earlier waits belong to no window
    long_.reset(), short_.reset();
  }

  // Takes a sample of all counters. Call BusyUnion::update first.
  void look(u64 now) {
    Look& at = looks_.emplace_back();
    at.ns = now;
    at.waits.assign(buckets(), 0);
    count(at);
    for (Part* part : {&long_, &short_}) part->add(looks_);
    while (long_.first > 0 || looks_.size() > kLooksMax) forget_first();
    for (u32 m = 0; m < models_; m++) step_s_[m] = step_s(long_, m);
  }

  Load over_long() const { return over(looks_[long_.first]); }
  Load over_short() const { return over(looks_[short_.first]); }

  // p95 of the time that a model's items waited. If none was claimed in the window, the age of the oldest waiting item.
  double queue_wait_long_s(u32 model) const { return queue_wait_s(long_, model); }
  double queue_wait_short_s(u32 model) const { return queue_wait_s(short_, model); }

  // The expected duration of the step that is running when a request of the model arrives. If no step of the model
  // ended in the window, the last known value. 0: not known.
  double step_long_s(u32 model) const { return step_s_[model]; }
  double step_short_s(u32 model) const { return step_s(short_, model); }

  u32 models() const { return models_; }
  u64 items_waiting() const { return waiting_; }
  u64 items_running() const { return running_; }

 private:
  struct Look {
    u64 ns = 0, wanted = 0, errors = 0, items = 0, inflight_ns = 0;
    u64 held = 0;                // items that the front doors have not answered yet
    double slots_ns = 0;         // integral of the share in use
    std::vector<u64> awake_ns;   // by process, front doors first
    std::vector<u64> active_ns;  // by device
    std::vector<StepSums> work;  // by device and model
    std::vector<u32> waits;      // since the look before: by model and bucket
  };

  // The samples of a window, from `first` on. Counts up to `first` are outside of it.
  struct Part {
    Part(u64 ns, size_t buckets) : span_ns(ns), sums(buckets) {}
    void reset() { std::fill(sums.begin(), sums.end(), 0); }
    void add(const std::deque<Look>& looks) {
      const Look& last = looks.back();
      for (size_t b = 0; b < sums.size(); b++) sums[b] += last.waits[b];
      while (first + 1 < looks.size() && looks[first + 1].ns + span_ns <= last.ns) drop(looks[++first]);
    }
    void drop(const Look& look) {
      for (size_t b = 0; b < sums.size(); b++) sums[b] -= look.waits[b];
    }
    u64 span_ns;
    size_t first = 0;
    std::vector<u64> sums;  // by model and bucket
  };

  size_t buckets() const { return size_t(models_) * Histogram::kBuckets; }

  // Reads other processes' statistics. relaxed: the numbers are independent and order nothing.
  void count(Look& at) {
    u64 used = 0;
    running_ = waiting_ = 0;
    oldest_ns_.assign(models_, 0);
    for (u32 f = 0; f < doors_; f++) {
      const Stats& stats = segment_.door_stats(f);
      for (u32 m = 0; m < models_; m++)
        for (u32 code = 0; code < kStatusCodes; code++)
          count_items(at, StatusCode(code), stats.items[m][code].load(kRelaxed));
      at.inflight_ns += stats.inflight_ns.load(kRelaxed);
      at.awake_ns.push_back(stats.awake_ns.load(kRelaxed));
      const DoorLine& line = segment_.door(f);
      used += line.slots_used.load(kRelaxed), running_ += line.running.load(kRelaxed);
      at.wanted += line.lost_items.load(kRelaxed);
    }
    for (u32 d = 0; d < dispatchers_; d++) count_dispatcher(at, d);
    at.work = work_;
    for (u32 i = 0; i < devices_; i++) at.active_ns.push_back(busy_->busy_ns(i));
    for (u32 r = 0; r < segment_.sizes().routes(); r++) {
      const Waiting found = waiting_of(segment_, r);
      u64& oldest = oldest_ns_[r / kGenerations];
      waiting_ += found.items();
      oldest = Waiting::older(oldest, found.oldest_ns());
    }
    at.held = used;
    const double share = double(used) / double(u64(doors_) * segment_.sizes().slots);
    if (looks_.size() > 1) at.slots_ns = before().slots_ns + share * double(at.ns - before().ns);
  }

  static void count_items(Look& at, StatusCode code, u64 n) {
    using enum StatusCode;
    const bool shed = code == kDeadlineExceeded || code == kResourceExhausted;
    const bool failed = code == kUnknown || code == kInternal || code == kDataLoss;
    at.items += n;
    if (shed || failed || code == kUnavailable) at.errors += n;
    if (code == kOk || code == kCancelled || shed || failed) at.wanted += n;
  }

  // relaxed: the sums of a step that is being counted may be split between two samples.
  static StepSums sums_of(const Stats& stats) {
    StepSums sums;
    sums.steps = stats.steps.load(kRelaxed), sums.items = stats.step_items.load(kRelaxed);
    sums.tokens = stats.step_tokens.load(kRelaxed), sums.token_room = stats.step_capacity_tokens.load(kRelaxed);
    sums.ns = stats.step_ns.load(kRelaxed), sums.tokens_squared = stats.step_tokens_squared.load(kRelaxed);
    sums.tokens_times_ns = stats.step_tokens_times_ns.load(kRelaxed);
    return sums;
  }

  // A dispatcher's work since the last sample counts for the model and the device that it serves now.
  // relaxed: statistics, as above.
  void count_dispatcher(Look& at, u32 d) {
    const DispatcherLine& line = segment_.dispatcher(d);
    const Stats& stats = segment_.dispatcher_stats(d);
    at.awake_ns.push_back(stats.awake_ns.load(kRelaxed));
    const u32 route = line.route.load(kRelaxed), device = line.device.load(kRelaxed);
    if (route >= segment_.sizes().routes() || device >= devices_) return;
    const StepSums now = sums_of(stats);
    StepSums since = now - steps_[d];
    since.item_room = since.steps * segment_.route(route).max_batch_items.load(kRelaxed);
    work_[device * models_ + route / kGenerations] += since;
    steps_[d] = now;
    const Histogram& queue = stats.stage[kQueue];
    const u64 count = queue.count.load(kRelaxed);
    if (count == count_[d]) return;
    count_[d] = count;
    u32* waits = at.waits.data() + size_t(route / kGenerations) * Histogram::kBuckets;
    u64* seen = seen_.data() + size_t(d) * Histogram::kBuckets;
    for (u32 b = 0; b < Histogram::kBuckets; b++) {
      const u64 n = queue.bucket[b].load(kRelaxed);
      waits[b] += u32(n - seen[b]);
      seen[b] = n;
    }
  }

  Load over(const Look& first) const {
    const Look& last = looks_.back();
    if (last.ns <= first.ns) return {};
    const double ns = double(last.ns - first.ns), s = ns * 1e-9;
    auto rate = [s](u64 now, u64 then) { return double(now - then) / s; };
    Load load;
    load.seconds = s;
    // Each accepted request has ended, was lost, or is still held.
    const double grown = (double(last.held) - double(first.held)) / s;
    load.asked = std::max(0.0, rate(last.wanted, first.wanted) + grown);
    load.errors = rate(last.errors, first.errors), load.items = rate(last.items, first.items);
    load.in_flight = double(last.inflight_ns - first.inflight_ns) / ns;
    load.slots = (last.slots_ns - first.slots_ns) / ns;
    for (u32 i = 0; i < doors_ + dispatchers_; i++) {
      double& most = i < doors_ ? load.frontdoor : load.dispatcher;
      most = std::max(most, std::min(1.0, double(last.awake_ns[i] - first.awake_ns[i]) / ns));
    }
    for (u32 i = 0; i < devices_; i++) {
      const double duty = std::min(1.0, double(last.active_ns[i] - first.active_ns[i]) / ns);
      load.device = std::max(load.device, duty * used(i, first, last));
    }
    return load;
  }

  // A device's work for a model between two samples.
  StepSums work(u32 device, u32 model, const Look& first, const Look& last) const {
    return last.work[device * models_ + model] - first.work[device * models_ + model];
  }

  // The share of a device's step time that the same work would take in full steps.
  double used(u32 device, const Look& first, const Look& last) const {
    double needed_ns = 0, all_ns = 0;
    for (u32 m = 0; m < models_; m++) {
      const StepSums steps = work(device, m, first, last);
      needed_ns += double(steps.ns) * steps.used(), all_ns += double(steps.ns);
    }
    return all_ns > 0 ? needed_ns / all_ns : 0;
  }

  // The expected duration of the step that a new request finds running, on the device where it is longest. Steps of all
  // models on the device count, weighted by their time.
  double step_s(const Part& part, u32 model) const {
    const Look &first = looks_[part.first], &last = looks_.back();
    double longest_s = 0;
    for (u32 i = 0; i < devices_; i++) {
      if (!work(i, model, first, last).steps) continue;
      double ns = 0, weighted = 0;
      for (u32 m = 0; m < models_; m++) {
        const StepSums steps = work(i, m, first, last);
        ns += double(steps.ns), weighted += double(steps.ns) * steps.mean_s();
      }
      if (ns > 0) longest_s = std::max(longest_s, weighted / ns);
    }
    return longest_s > 0 ? longest_s : step_s_[model];
  }

  double queue_wait_s(const Part& part, u32 model) const {
    const u64* sums = part.sums.data() + size_t(model) * Histogram::kBuckets;
    u64 all = 0, below = 0;
    for (u32 b = 0; b < Histogram::kBuckets; b++) all += sums[b];
    if (!all) {
      const u64 now = looks_.back().ns, oldest = oldest_ns_[model];
      return oldest ? double(now - std::min(now, oldest)) * 1e-9 : 0;
    }
    const double rank = 0.95 * double(all);
    for (u32 b = 0; b < Histogram::kBuckets; below += sums[b++]) {
      if (double(below + sums[b]) < rank) continue;
      const double low = b ? double(Histogram::upper(b - 1)) : 0, high = double(Histogram::upper(b));
      return (low + (high - low) * (rank - double(below)) / double(sums[b])) * 1e-9;
    }
    return double(Histogram::upper(Histogram::kBuckets - 1)) * 1e-9;
  }

  void forget_first() {
    for (Part* part : {&long_, &short_}) {
      if (part->first)
        part->first--;
      else
        part->drop(looks_[1]);  // it is now the last sample before the window
    }
    looks_.pop_front();
  }
  const Look& before() const { return looks_[looks_.size() - 2]; }

  Segment segment_;
  const BusyUnion* busy_;
  u32 doors_, dispatchers_, devices_, models_;
  std::vector<StepSums> steps_;    // of each dispatcher, at the last look
  std::vector<StepSums> work_;     // by device and model, from the beginning
  std::vector<double> step_s_;     // by model: of the last 10 s in which it had any
  std::vector<u64> seen_, count_;  // of each dispatcher, at the last look
  std::deque<Look> looks_;
  Part long_, short_;
  std::vector<u64> oldest_ns_;  // by model
  u64 waiting_ = 0, running_ = 0;
};

}  // namespace fastqps::supervisor
