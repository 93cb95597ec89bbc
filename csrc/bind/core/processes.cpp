// Front doors and dispatchers, as they and their supervisor report them.
#include <pybind11/stl.h>

#include "bind/segment.h"
#include "core/clock.h"
#include "core/heartbeat.h"
#include "core/supervise.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

struct DoorState {
  std::vector<u32> tokenizers;
  u32 pid;
  bool live, ready;
  u64 heartbeat_ns, turn_started_ns, flips_seen;
  u32 connections, slots_used, running;
};

DoorState door(const SegmentHandle& self, u32 i) {
  const DoorLine& d = checked(self.segment, i, self.segment.sizes().doors).door(i);
  std::vector<u32> tokenizers;
  for (const auto& pid : d.tokenizers)
    if (pid.load(kRelaxed)) tokenizers.push_back(pid.load(kRelaxed));
  return {.tokenizers = std::move(tokenizers),
          .pid = d.pid.load(),
          .live = d.live.load() != 0,
          .ready = d.ready.load() != 0,
          .heartbeat_ns = d.heartbeat_ns.load(),
          .turn_started_ns = d.turn_started_ns.load(),
          .flips_seen = d.flips_seen.load(kAcquire),
          .connections = d.connections.load(),
          .slots_used = d.slots_used.load(),
          .running = d.running.load()};
}

// How many canaries dispatcher i has answered.
u64 canaries(const Segment& g, u32 i) {
  u64 answered = 0;
  for (u32 f = 0; f < g.sizes().doors; f++) answered += g.door_stats(f).canaries[i].load(kRelaxed);
  return answered;
}

struct DispatcherState {
  u32 pid, epoch, route, device;
  bool ready;
  u64 heartbeat_ns, step_started_ns, steps_done;
  u32 running;
  u64 canary_since_ns, canaries;
};

DispatcherState dispatcher(const SegmentHandle& self, u32 i) {
  const DispatcherLine& d = checked(self.segment, i, self.segment.sizes().dispatchers).dispatcher(i);
  return {.pid = d.pid.load(),
          .epoch = d.epoch.load(),
          .route = d.route.load(),
          .device = d.device.load(),
          .ready = d.ready.load() != 0,
          .heartbeat_ns = d.heartbeat_ns.load(),
          .step_started_ns = d.step_started_ns.load(),
          .steps_done = d.steps_done.load(),
          .running = d.running.load(),
          .canary_since_ns = canary_since_ns(self.segment, i),
          .canaries = canaries(self.segment, i)};
}

}  // namespace

void register_processes(py::module_& m) {
  py::class_<DoorState>(m, "DoorState", "What a front door and its supervisor reported at one moment.")
      .def_readonly("tokenizers", &DoorState::tokenizers)
      .def_readonly("pid", &DoorState::pid)
      .def_readonly("live", &DoorState::live)
      .def_readonly("ready", &DoorState::ready)
      .def_readonly("heartbeat_ns", &DoorState::heartbeat_ns)
      .def_readonly("turn_started_ns", &DoorState::turn_started_ns)
      .def_readonly("flips_seen", &DoorState::flips_seen)
      .def_readonly("connections", &DoorState::connections)
      .def_readonly("slots_used", &DoorState::slots_used)
      .def_readonly("running", &DoorState::running);
  py::class_<DispatcherState>(m, "DispatcherState", "What a dispatcher and its supervisor reported at one moment.")
      .def_readonly("pid", &DispatcherState::pid)
      .def_readonly("epoch", &DispatcherState::epoch)
      .def_readonly("route", &DispatcherState::route)
      .def_readonly("device", &DispatcherState::device)
      .def_readonly("ready", &DispatcherState::ready)
      .def_readonly("heartbeat_ns", &DispatcherState::heartbeat_ns)
      .def_readonly("step_started_ns", &DispatcherState::step_started_ns)
      .def_readonly("steps_done", &DispatcherState::steps_done)
      .def_readonly("running", &DispatcherState::running)
      .def_readonly("canary_since_ns", &DispatcherState::canary_since_ns)
      .def_readonly("canaries", &DispatcherState::canaries);

  py::class_<Heartbeat>(m, "Heartbeat")
      .def(py::init([](const SegmentHandle& s, const std::string& role, u32 i, int parent_fd) {
             const Segment& g = s.segment;
             if (role == "door") return new Heartbeat(&checked(g, i, g.sizes().doors).door(i).heartbeat_ns, parent_fd);
             if (role != "dispatcher") throw py::value_error("role: door or dispatcher");
             return new Heartbeat(&checked(g, i, g.sizes().dispatchers).dispatcher(i).heartbeat_ns, parent_fd);
           }),
           "segment"_a, "role"_a, "i"_a, "parent_fd"_a = -1);
}

void define_processes(SegmentClass& segment) {
  segment
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
             std::vector<DoorState> out;
             for (u32 i = 0; i < s.segment.sizes().doors; i++) out.push_back(door(s, i));
             return out;
           })
      .def("dispatchers", [](const SegmentHandle& s) {
        std::vector<DispatcherState> out;
        for (u32 i = 0; i < s.segment.sizes().dispatchers; i++) out.push_back(dispatcher(s, i));
        return out;
      });
}

}  // namespace fastqps::bind
