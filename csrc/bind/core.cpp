#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bind/bind.h"
#include "bind/identity.h"
#include "core/busy.h"
#include "core/clock.h"
#include "core/heartbeat.h"
#include "core/ring.h"
#include "core/supervise.h"
#include "core/waiting.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps {
namespace bind {
namespace {

std::string hex(const u64 (&id)[2]) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)id[0], (unsigned long long)id[1]);
  return text;
}

template <class Enum>
Enum choice(const std::string& name, std::initializer_list<std::pair<const char*, Enum>> all, const char* what) {
  for (auto& [text, value] : all)
    if (name == text) return value;
  throw py::value_error(std::string(what) + ": unknown value '" + name + "'");
}

void copy_name(char* to, size_t room, const std::string& from, const char* what) {
  if (from.size() >= room)
    throw py::value_error(std::string(what) + " is longer than " + std::to_string(room - 1) + " bytes");
  std::memset(to, 0, room);
  std::memcpy(to, from.data(), from.size());
}

template <class T>
T& checked(T& thing, u32 i, u32 n) {
  if (i >= n) throw py::index_error();
  return thing;
}

py::dict histogram(const Histogram& h) {
  py::array_t<u64> buckets(Histogram::kBuckets);
  u64* out = buckets.mutable_data();
  for (u32 i = 0; i < Histogram::kBuckets; i++) out[i] = h.bucket[i].load(kRelaxed);
  return py::dict("count"_a = h.count.load(kRelaxed), "sum"_a = h.sum.load(kRelaxed), "buckets"_a = buckets);
}

template <size_t N>
py::dict named(const std::atomic<u64> (&values)[N], const char* const (&names)[N]) {
  py::dict out;
  for (size_t i = 0; i < N; i++) out[names[i]] = values[i].load(kRelaxed);
  return out;
}

py::dict stats(const SegmentHandle& self, u32 i) {
  const Segment& g = self.segment;
  if (i >= g.sizes().doors + g.sizes().dispatchers) throw py::index_error();
  const Stats& s = i < g.sizes().doors ? g.door_stats(i) : g.dispatcher_stats(i - g.sizes().doors);
  py::dict out, stage;
  for (u32 k = 0; k < kStages; k++) stage[kStageNames[k]] = histogram(s.stage[k]);
  out["stage"] = stage;
  out["request"] = histogram(s.request);
  out["batch_items"] = histogram(s.batch_items);
  out["batch_tokens"] = histogram(s.batch_tokens);
  using Shape = std::vector<py::ssize_t>;
  py::array_t<u64> requests(Shape{kModelsMax, kMethods, kCodes}), items(Shape{kModelsMax, kCodes});
  auto r = requests.mutable_unchecked<3>();
  auto t = items.mutable_unchecked<2>();
  for (u32 m = 0; m < kModelsMax; m++)
    for (u32 c = 0; c < kCodes; c++) {
      t(m, c) = s.items[m][c].load(kRelaxed);
      for (u32 k = 0; k < kMethods; k++) r(m, k, c) = s.requests[m][k][c].load(kRelaxed);
    }
  out["requests"] = requests;
  out["items"] = items;
  out["rejected"] = named(s.rejected, kRejectNames);
  out["expired"] = named(s.expired, kStageNames);
  out["idle_ns"] = named(s.idle_ns, kIdleNames);
  auto add = [&](const char* name, const std::atomic<u64>& value) { out[name] = value.load(kRelaxed); };
  add("queue_wait_ns", s.queue_wait_ns), add("inflight_ns", s.inflight_ns), add("busy_ns", s.busy_ns);
  add("awake_ns", s.awake_ns);
  add("steps", s.steps), add("step_items", s.step_items), add("step_tokens", s.step_tokens);
  add("step_capacity_tokens", s.step_capacity_tokens), add("step_ns", s.step_ns), add("stale_entries", s.stale_entries);
  add("lost_hints", s.lost_hints), add("generated_tokens", s.generated_tokens), add("requeued", s.requeued),
      add("suspects", s.suspects), add("poisoned", s.poisoned);
  out["transport"] = named(s.transport, kTransportNames);
  return out;
}

py::dict load(const LoadLine& l) {
  const u64 updated = l.updated_ns.load(kAcquire);  // pairs with the release in set_load
  return py::dict("updated_ns"_a = updated, "utilization"_a = l.utilization.load(kRelaxed),
                  "cpu_utilization"_a = l.cpu_utilization.load(kRelaxed),
                  "memory_utilization"_a = l.memory_utilization.load(kRelaxed),
                  "requests_per_second"_a = l.requests_per_second.load(kRelaxed),
                  "errors_per_second"_a = l.errors_per_second.load(kRelaxed),
                  "queue_wait_s"_a = l.queue_wait_s.load(kRelaxed), "items_waiting"_a = l.items_waiting.load(kRelaxed),
                  "items_running"_a = l.items_running.load(kRelaxed));
}

void set_load(LoadLine& l, double utilization, double cpu_utilization, double memory_utilization,
              double requests_per_second, double errors_per_second, double queue_wait_s, double items_waiting,
              double items_running) {
  l.utilization.store(utilization, kRelaxed);
  l.cpu_utilization.store(cpu_utilization, kRelaxed);
  l.memory_utilization.store(memory_utilization, kRelaxed);
  l.requests_per_second.store(requests_per_second, kRelaxed);
  l.errors_per_second.store(errors_per_second, kRelaxed);
  l.queue_wait_s.store(queue_wait_s, kRelaxed);
  l.items_waiting.store(items_waiting, kRelaxed);
  l.items_running.store(items_running, kRelaxed);
  l.updated_ns.store(now_ns(), kRelease);  // pairs with the acquire of whoever reads them
}

py::dict door(const SegmentHandle& self, u32 i) {
  const DoorLine& d = checked(self.segment, i, self.segment.sizes().doors).door(i);
  return py::dict("pid"_a = d.pid.load(), "live"_a = d.live.load() != 0, "ready"_a = d.ready.load() != 0,
                  "heartbeat_ns"_a = d.heartbeat_ns.load(), "turn_started_ns"_a = d.turn_started_ns.load(),
                  "flips_seen"_a = d.flips_seen.load(kAcquire), "connections"_a = d.connections.load(),
                  "slots_used"_a = d.slots_used.load(), "running"_a = d.running.load());
}

// When the oldest canary that dispatcher i has not answered was put (0: there is none), and how many it has answered.
std::pair<u64, u64> canaries(const Segment& g, u32 i) {
  u64 since = 0, answered = 0;
  for (u32 f = 0; f < g.sizes().doors; f++) {
    answered += g.door_stats(f).canaries[i].load(kRelaxed);
    const Slot& s = g.canary_slot(f, i);
    const State state = Word{s.state.load(kAcquire)}.state();
    if (state == State::kFree || state == State::kDone) continue;
    const u64 put = s.queued_ns.load(kRelaxed);
    since = since ? std::min(since, put) : put;
  }
  return {since, answered};
}

py::dict dispatcher(const SegmentHandle& self, u32 i) {
  const DispatcherLine& d = checked(self.segment, i, self.segment.sizes().dispatchers).dispatcher(i);
  const auto [canary_since_ns, answered] = canaries(self.segment, i);
  return py::dict("pid"_a = d.pid.load(), "epoch"_a = d.epoch.load(), "dead_epoch"_a = d.dead_epoch.load(),
                  "route"_a = d.route.load(), "device"_a = d.device.load(), "ready"_a = d.ready.load() != 0,
                  "heartbeat_ns"_a = d.heartbeat_ns.load(), "step_started_ns"_a = d.step_started_ns.load(),
                  "items_done"_a = d.items_done.load(), "step_usual_ns"_a = d.step_usual_ns.load(),
                  "running"_a = d.running.load(), "steps_done"_a = d.steps_done.load(),
                  "canary_since_ns"_a = canary_since_ns, "canaries"_a = answered);
}

// Requests that wait in the suspects' rings of a route.
u64 suspects_waiting(const Segment& g, u32 route) {
  u64 n = 0;
  for (u32 f = 0; f < g.sizes().doors; f++) n += ring_waiting(g.request_ring(f, route, kSuspect), g.ring_entries());
  return n;
}

void set_route(const SegmentHandle& self, u32 i, u32 generation, const std::string& task, const std::string& activation,
               bool normalize, u32 dimensions, u32 vocab_size, u32 max_input_tokens, u32 max_queue_items,
               u32 max_batch_items, u32 max_batch_tokens, u64 max_batch_delay_ns, u32 pair_type_id, u32 position_offset,
               const std::string& version, const std::string& card_json, u32 max_output_tokens, u32 prefix_tokens,
               u32 cache_slots) {
  const Segment& g = self.segment;
  Route& r = checked(g, i, g.sizes().routes()).route(i);
  if (max_input_tokens > g.sizes().max_tokens) throw py::value_error("max_input_tokens is more than a slot holds");
  u64 answer = task == "generate"   ? u64(max_output_tokens) * kTokenBytes
               : task == "classify" ? u64(dimensions) * sizeof(LabelScore)
                                    : u64(dimensions) * sizeof(float);
  if (answer > g.sizes().answer_bytes) throw py::value_error("answers of this width do not fit into a slot");
  if (card_json.size() > kCardBytes) throw py::value_error("the model's card is larger than 256 KiB");
  r.generation = generation;
  r.task = choice<Task>(task, {{"embed", Task::kEmbed}, {"classify", Task::kClassify}, {"generate", Task::kGenerate}},
                        "task");
  r.activation = choice<Activation>(
      activation,
      {{"identity", Activation::kIdentity}, {"softmax", Activation::kSoftmax}, {"sigmoid", Activation::kSigmoid}},
      "activation");
  r.normalize = normalize;
  r.dimensions = dimensions;
  r.vocab_size = vocab_size;
  r.max_input_tokens = max_input_tokens;
  r.max_queue_items = max_queue_items;
  r.max_batch_items = max_batch_items;
  r.max_batch_tokens = max_batch_tokens;
  r.max_batch_delay_ns = max_batch_delay_ns;
  r.pair_type_id = pair_type_id;
  r.position_offset = position_offset;
  r.max_output_tokens = max_output_tokens;
  r.prefix_tokens = prefix_tokens;
  r.cache_slots = cache_slots;
  copy_name(r.version, sizeof r.version, version, "version");
  std::memcpy(g.card(i), card_json.data(), card_json.size());
  r.card_bytes = u32(card_json.size());
}

py::dict route(const SegmentHandle& self, u32 i) {
  const Segment& g = self.segment;
  const Route& r = checked(g, i, g.sizes().routes()).route(i);
  static constexpr const char* kStates[] = {"empty", "warming", "serving", "draining"};
  return py::dict(
      "state"_a = kStates[u32(r.state.load())], "dispatchers"_a = r.dispatchers.load(), "generation"_a = r.generation,
      "dimensions"_a = r.dimensions, "max_input_tokens"_a = r.max_input_tokens, "max_queue_items"_a = r.max_queue_items,
      "max_batch_items"_a = r.max_batch_items, "max_batch_tokens"_a = r.max_batch_tokens,
      "max_batch_delay_ns"_a = r.max_batch_delay_ns, "max_output_tokens"_a = r.max_output_tokens,
      "prefix_tokens"_a = r.prefix_tokens, "cache_slots"_a = r.cache_slots, "version"_a = std::string(r.version));
}

const std::initializer_list<std::pair<const char*, Phase>> kPhases = {{"starting", Phase::kStarting},
                                                                      {"serving", Phase::kServing},
                                                                      {"lame duck", Phase::kLameDuck},
                                                                      {"draining", Phase::kDraining},
                                                                      {"stopping", Phase::kStopping}};

}  // namespace

void register_segment(py::module_& m) {
  py::class_<Sizes>(m, "Sizes")
      .def(py::init(
               [](u32 doors, u32 dispatchers, u32 models, u32 slots, u32 max_tokens, u32 answer_bytes, u32 devices) {
                 return Sizes{doors, dispatchers, models, devices, slots, max_tokens, answer_bytes};
               }),
           py::kw_only(), "doors"_a, "dispatchers"_a, "models"_a, "slots"_a, "max_tokens"_a, "answer_bytes"_a,
           "devices"_a = 1)
      .def_readonly("doors", &Sizes::doors)
      .def_readonly("dispatchers", &Sizes::dispatchers)
      .def_readonly("models", &Sizes::models)
      .def_readonly("devices", &Sizes::devices)
      .def_readonly("slots", &Sizes::slots)
      .def_readonly("max_tokens", &Sizes::max_tokens)
      .def_readonly("answer_bytes", &Sizes::answer_bytes);
  m.def(
      "plan",
      [](const Sizes& sizes) {
        Header h = Segment::plan(sizes);
        return py::dict("total_bytes"_a = h.total_bytes, "slot_stride"_a = h.slot_stride,
                        "slots_bytes"_a = u64(sizes.doors) * sizes.all_slots() * h.slot_stride,
                        "rings_bytes"_a = h.stats - h.request_rings, "layout_hash"_a = h.layout_hash);
      },
      "sizes"_a, "What create_segment would allocate, in bytes.");
  m.def(
      "create_segment",
      [](const Sizes& sizes) {
        auto made = Segment::create(sizes);
        if (made.fd < 0) throw std::runtime_error(made.error);
        return made.fd;
      },
      "sizes"_a, "Makes the shared segment and returns its descriptor. RuntimeError with the reason.");
  m.def("now_ns", &now_ns, "CLOCK_MONOTONIC in nanoseconds.");
  m.def("histogram_upper", &Histogram::upper, "i"_a, "Exclusive upper edge of a histogram's bucket i.");

  py::class_<WakeFds>(m, "WakeFds")
      .def(py::init([](const std::vector<int>& dispatchers, const std::vector<int>& doors) {
             WakeFds fds;
             if (dispatchers.size() > kDispatchersMax || doors.size() > kDoorsMax)
               throw py::value_error("too many eventfds");
             std::copy(dispatchers.begin(), dispatchers.end(), fds.dispatcher.begin());
             std::copy(doors.begin(), doors.end(), fds.door.begin());
             return fds;
           }),
           py::kw_only(), "dispatchers"_a, "doors"_a);

  py::class_<SegmentHandle>(m, "Segment", "The mapped segment. Times are nanoseconds of now_ns().")
      .def(py::init([](int fd) {
             std::string error;
             SegmentHandle handle{Segment::attach(fd, &error)};
             if (!handle.segment.valid()) throw std::runtime_error(error);
             return handle;
           }),
           "fd"_a)
      .def_property_readonly("sizes", [](const SegmentHandle& s) { return s.segment.sizes(); })
      .def_property_readonly("total_bytes", [](const SegmentHandle& s) { return s.segment.header().total_bytes; })
      .def_property_readonly("boot_id", [](const SegmentHandle& s) { return hex(s.segment.header().boot_id); })
      .def(
          "set_model",
          [](const SegmentHandle& s, u32 i, const std::string& name) {
            copy_name(checked(s.segment, i, s.segment.sizes().models).model(i).name, kNameBytes, name, "model name");
          },
          "i"_a, "name"_a)
      .def(
          "model",
          [](const SegmentHandle& s, u32 i) {
            Model& model = checked(s.segment, i, s.segment.sizes().models).model(i);
            return py::dict("name"_a = std::string(model.name), "serving"_a = model.serving.load(),
                            "ready"_a = model.ready.load() != 0);
          },
          "i"_a)
      .def("set_route", &set_route, "i"_a, py::kw_only(), "generation"_a, "task"_a, "activation"_a, "normalize"_a,
           "dimensions"_a, "vocab_size"_a, "max_input_tokens"_a, "max_queue_items"_a, "max_batch_items"_a,
           "max_batch_tokens"_a, "max_batch_delay_ns"_a, "pair_type_id"_a, "position_offset"_a, "version"_a,
           "card_json"_a, "max_output_tokens"_a = 0, "prefix_tokens"_a = 0, "cache_slots"_a = 0)
      .def("route", &route, "i"_a)
      .def(
          "card",
          [](const SegmentHandle& s, u32 i) {
            return std::string(checked(s.segment, i, s.segment.sizes().routes()).card(i),
                               s.segment.route(i).card_bytes);
          },
          "i"_a)
      .def(
          "set_route_state",
          [](const SegmentHandle& s, u32 i, const std::string& state) {
            checked(s.segment, i, s.segment.sizes().routes())
                .route(i)
                .state.store(choice<RouteState>(state,
                                                {{"empty", RouteState::kEmpty},
                                                 {"warming", RouteState::kWarming},
                                                 {"serving", RouteState::kServing},
                                                 {"draining", RouteState::kDraining}},
                                                "route state"),
                             kRelease);
          },
          "i"_a, "state"_a)
      .def(
          "set_route_dispatchers",
          [](const SegmentHandle& s, u32 i, u64 mask) {
            checked(s.segment, i, s.segment.sizes().routes()).route(i).dispatchers.store(mask, kSeqCst);
          },
          "i"_a, "mask"_a)
      .def(
          "serve",
          [](const SegmentHandle& s, u32 model, u32 generation) {
            Model& m = checked(s.segment, model, s.segment.sizes().models).model(model);
            m.serving.store(generation % kGenerations, kRelease);
            m.ready.store(1, kRelease);
          },
          "model"_a, "generation"_a)
      .def(
          "flip",
          [](const SegmentHandle& s, u32 model, u32 generation) {
            const Segment& g = s.segment;
            Model& m = checked(g, model, g.sizes().models).model(model);
            const u32 now = generation % kGenerations, before = (now + 1) % kGenerations;
            g.route(model * kGenerations + now).state.store(RouteState::kServing, kRelease);
            g.route(model * kGenerations + before).state.store(RouteState::kDraining, kRelease);
            m.serving.store(now, kRelease);
            return g.supervisor().flips.fetch_add(1, kAcqRel) + 1;
          },
          "model"_a, "generation"_a,
          "Has another generation of a model serve, that all front doors have loaded; what `flips_seen` will be.")
      .def(
          "door_route",
          [](const SegmentHandle& s, u32 i, u32 route) {
            const Segment& g = s.segment;
            checked(g, i, g.sizes().doors), checked(g, route, g.sizes().routes());
            const DoorRoute& d = g.door_route(i, route);
            return py::make_tuple(i64(d.loaded.load(kAcquire)) - 1, i64(d.refused.load(kAcquire)) - 1, d.held.load());
          },
          "door"_a, "route"_a, "(generation loaded, generation refused, items held); -1: none.")
      .def(
          "refuse_route",
          [](const SegmentHandle& s, u32 i, u32 route, u32 generation) {
            const Segment& g = s.segment;
            checked(g, i, g.sizes().doors), checked(g, route, g.sizes().routes());
            g.door_route(i, route).refused.store(generation + 1, kRelease);
          },
          "door"_a, "route"_a, "generation"_a)
      .def(
          "set_phase",
          [](const SegmentHandle& s, const std::string& phase, u64 drain_deadline_ns) {
            s.segment.supervisor().drain_deadline_ns.store(drain_deadline_ns, kRelease);
            s.segment.supervisor().phase.store(choice<Phase>(phase, kPhases, "phase"), kRelease);
          },
          "phase"_a, "drain_deadline_ns"_a = 0)
      .def_property_readonly("phase",
                             [](const SegmentHandle& s) {
                               return std::data(kPhases)[u32(s.segment.supervisor().phase.load(kAcquire))].first;
                             })
      .def(
          "load", [](const SegmentHandle& s) { return load(s.segment.load()); },
          "What the supervisor last said about the whole server; updated_ns is 0 before it did.")
      .def(
          "set_load",
          [](const SegmentHandle& s, double utilization, double cpu_utilization, double memory_utilization,
             double requests_per_second, double errors_per_second, double queue_wait_s, double items_waiting,
             double items_running) {
            set_load(s.segment.load(), utilization, cpu_utilization, memory_utilization, requests_per_second,
                     errors_per_second, queue_wait_s, items_waiting, items_running);
          },
          py::kw_only(), "utilization"_a, "cpu_utilization"_a, "memory_utilization"_a, "requests_per_second"_a,
          "errors_per_second"_a, "queue_wait_s"_a, "items_waiting"_a, "items_running"_a)
      .def(
          "start_door",
          [](const SegmentHandle& s, u32 i, u32 pid) {
            DoorLine& d = checked(s.segment, i, s.segment.sizes().doors).door(i);
            d.pid.store(pid);
            d.heartbeat_ns.store(now_ns());
            d.live.store(1);
          },
          "i"_a, "pid"_a)
      .def(
          "reap_door",
          [](const SegmentHandle& s, u32 i) { settle_door(checked(s.segment, i, s.segment.sizes().doors), i); }, "i"_a,
          "Only after waitid has reaped the process.")
      .def(
          "start_dispatcher",
          [](const SegmentHandle& s, u32 i, u32 epoch, u32 route, u32 pid, u32 device) {
            if (!epoch || epoch > kEpochMax) throw py::value_error("epoch out of range");
            checked(s.segment, device, s.segment.sizes().devices);
            DispatcherLine& d = checked(s.segment, i, s.segment.sizes().dispatchers).dispatcher(i);
            d.epoch.store(epoch), d.route.store(route), d.pid.store(pid), d.device.store(device);
            d.heartbeat_ns.store(now_ns());
          },
          "i"_a, "epoch"_a, "route"_a, "pid"_a, "device"_a = 0)
      .def(
          "vacate_dispatcher",
          [](const SegmentHandle& s, u32 i) {
            DispatcherLine& d = checked(s.segment, i, s.segment.sizes().dispatchers).dispatcher(i);
            d.pid.store(0), d.step_usual_ns.store(0), d.running.store(0);
          },
          "i"_a, "After its death has been published, when no other process will follow for now.")
      .def(
          "publish_death",
          [](const SegmentHandle& s, const WakeFds& fds, u32 dispatcher, u32 epoch) {
            checked(s.segment, dispatcher, s.segment.sizes().dispatchers);
            publish_death(s.segment, fds, dispatcher, epoch);
          },
          "wake_fds"_a, "dispatcher"_a, "epoch"_a, "Only after waitid has reaped the process.")
      .def("door", &door, "i"_a, "What front door i and its supervisor say about it now.")
      .def("dispatcher", &dispatcher, "i"_a, "What dispatcher i and its supervisor say about it now.")
      .def("doors",
           [](const SegmentHandle& s) {
             py::list out;
             for (u32 i = 0; i < s.segment.sizes().doors; i++) out.append(door(s, i));
             return out;
           })
      .def("dispatchers",
           [](const SegmentHandle& s) {
             py::list out;
             for (u32 i = 0; i < s.segment.sizes().dispatchers; i++) out.append(dispatcher(s, i));
             return out;
           })
      .def(
          "waiting", [](const SegmentHandle& s, u32 route) { return waiting_of(s.segment, route).items; }, "route"_a)
      .def(
          "oldest_ns", [](const SegmentHandle& s, u32 route) { return waiting_of(s.segment, route).oldest_ns; },
          "route"_a)
      .def(
          "suspects_waiting", [](const SegmentHandle& s, u32 route) { return suspects_waiting(s.segment, route); },
          "route"_a)
      .def("stats", &stats, "i"_a, "Counters and histograms of process i: front doors first, then dispatchers.");

  py::class_<Heartbeat>(m, "Heartbeat")
      .def(py::init([](const SegmentHandle& s, const std::string& role, u32 i, int parent_fd) {
             const Segment& g = s.segment;
             if (role == "door") return new Heartbeat(&checked(g, i, g.sizes().doors).door(i).heartbeat_ns, parent_fd);
             if (role != "dispatcher") throw py::value_error("role: door or dispatcher");
             return new Heartbeat(&checked(g, i, g.sizes().dispatchers).dispatcher(i).heartbeat_ns, parent_fd);
           }),
           "segment"_a, "role"_a, "i"_a, "parent_fd"_a = -1);

  py::class_<BusyUnion>(m, "BusyUnion", "How long each device was busy, whichever of its dispatchers had it run.")
      .def(py::init([](const SegmentHandle& s) { return new BusyUnion(s.segment); }), "segment"_a)
      .def("update", &BusyUnion::update, "Reads what dispatchers have written since; several times a second.")
      .def(
          "busy_ns",
          [](const BusyUnion& self, u32 device) {
            if (device >= self.devices()) throw py::index_error();
            return self.busy_ns(device);
          },
          "device"_a, "Since this was made, up to the last step that has ended.")
      .def_property_readonly("missed", &BusyUnion::missed, "Steps that were not counted: `update` came too late.");

  auto names = [&m](const char* name, auto& all) {
    py::tuple out(std::size(all));
    for (size_t i = 0; i < std::size(all); i++) out[i] = py::str(all[i]);
    m.attr(name) = out;
  };
  names("STAGES", kStageNames);
  names("METHODS", kMethodNames);
  names("REJECTS", kRejectNames);
  names("IDLES", kIdleNames);
  names("TRANSPORT_COUNTERS", kTransportNames);
  m.attr("DOORS_MAX") = kDoorsMax;
  m.attr("DISPATCHERS_MAX") = kDispatchersMax;
  m.attr("MODELS_MAX") = kModelsMax;
  m.attr("GENERATIONS") = kGenerations;
}

}  // namespace bind
}  // namespace fastqps

PYBIND11_MODULE(_core, m) {
  fastqps::bind::check_identity("_core");
  m.doc() = "The shared-memory core, the steps and the tokenizers of fastqps.";
  fastqps::bind::register_segment(m);
  fastqps::bind::register_load_window(m);
  fastqps::bind::register_step(m);
  fastqps::bind::register_decode(m);
  fastqps::bind::register_sim(m);
  fastqps::bind::register_cuda(m);
  fastqps::bind::register_cpu_ops(m);
  fastqps::bind::register_cpu_decode(m);
  fastqps::bind::register_text(m);
  fastqps::bind::register_trace(m);
}
