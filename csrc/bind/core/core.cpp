// The module _core: the segment, the processes around it, and everything else that Python has of it.
#include <pybind11/stl.h>

#include "bind/bind.h"
#include "bind/identity.h"
#include "bind/segment.h"
#include "core/busy.h"
#include "core/clock.h"
#include "core/heartbeat.h"
#include "core/supervise.h"

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

py::dict door(const SegmentHandle& self, u32 i) {
  const DoorLine& d = checked(self.segment, i, self.segment.sizes().doors).door(i);
  std::vector<u32> tokenizers;
  for (const auto& pid : d.tokenizers)
    if (pid.load(kRelaxed)) tokenizers.push_back(pid.load(kRelaxed));
  return py::dict("tokenizers"_a = tokenizers, "pid"_a = d.pid.load(), "live"_a = d.live.load() != 0,
                  "ready"_a = d.ready.load() != 0, "heartbeat_ns"_a = d.heartbeat_ns.load(),
                  "turn_started_ns"_a = d.turn_started_ns.load(), "flips_seen"_a = d.flips_seen.load(kAcquire),
                  "connections"_a = d.connections.load(), "slots_used"_a = d.slots_used.load(),
                  "running"_a = d.running.load());
}

// How many canaries dispatcher i has answered.
u64 canaries(const Segment& g, u32 i) {
  u64 answered = 0;
  for (u32 f = 0; f < g.sizes().doors; f++) answered += g.door_stats(f).canaries[i].load(kRelaxed);
  return answered;
}

py::dict dispatcher(const SegmentHandle& self, u32 i) {
  const DispatcherLine& d = checked(self.segment, i, self.segment.sizes().dispatchers).dispatcher(i);
  return py::dict("pid"_a = d.pid.load(), "epoch"_a = d.epoch.load(), "dead_epoch"_a = d.dead_epoch.load(),
                  "route"_a = d.route.load(), "device"_a = d.device.load(), "ready"_a = d.ready.load() != 0,
                  "heartbeat_ns"_a = d.heartbeat_ns.load(), "step_started_ns"_a = d.step_started_ns.load(),
                  "items_done"_a = d.items_done.load(), "step_usual_ns"_a = d.step_usual_ns.load(),
                  "running"_a = d.running.load(), "steps_done"_a = d.steps_done.load(),
                  "canary_since_ns"_a = canary_since_ns(self.segment, i), "canaries"_a = canaries(self.segment, i));
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

  SegmentClass segment(m, "Segment", "The mapped segment. Times are nanoseconds of now_ns().");
  segment
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
      .def("dispatchers", [](const SegmentHandle& s) {
        py::list out;
        for (u32 i = 0; i < s.segment.sizes().dispatchers; i++) out.append(dispatcher(s, i));
        return out;
      });
  define_models(segment);
  define_load(segment);

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
  py::list counters;
  for (const CounterRow& row : kCounters) counters.append(py::make_tuple(row.name, row.metric, row.help, row.scale));
  m.attr("COUNTERS") = py::tuple(counters);
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
