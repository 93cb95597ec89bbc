// The module _core: the segment, the processes around it, and everything else that Python has of it.
#include <pybind11/stl.h>

#include "bind/bind.h"
#include "bind/segment.h"
#include "core/busy.h"
#include "core/clock.h"
#include "core/segment.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps {
namespace bind {
namespace {

void register_sizes(py::module_& m) {
  py::class_<Sizes>(m, "Sizes")
      .def(py::init([](u32 doors, u32 dispatchers, u32 models, u32 slots, u32 max_tokens, u64 answer_bytes, u32 devices,
                       u64 large_answers, u64 large_answer_bytes, std::array<u32, kPriorities> class_weights,
                       u32 caller_bytes, u32 upstreams, u64 attachment_bytes) {
             Sizes sizes{doors,      dispatchers,  models,        devices,           slots,
                         max_tokens, answer_bytes, large_answers, large_answer_bytes};
             std::copy(class_weights.begin(), class_weights.end(), sizes.class_weights);
             sizes.caller_bytes = caller_bytes, sizes.upstreams = upstreams;
             sizes.attachment_bytes = attachment_bytes;
             return sizes;
           }),
           py::kw_only(), "doors"_a, "dispatchers"_a, "models"_a, "slots"_a, "max_tokens"_a, "answer_bytes"_a,
           "devices"_a = 1, "large_answers"_a = 0, "large_answer_bytes"_a = 0,
           "class_weights"_a = std::array<u32, kPriorities>{16, 4, 1}, "caller_bytes"_a = 0, "upstreams"_a = 0,
           "attachment_bytes"_a = 0)
      .def_readonly("doors", &Sizes::doors)
      .def_readonly("dispatchers", &Sizes::dispatchers)
      .def_readonly("models", &Sizes::models)
      .def_readonly("devices", &Sizes::devices)
      .def_readonly("slots", &Sizes::slots)
      .def_readonly("max_tokens", &Sizes::max_tokens)
      .def_readonly("answer_bytes", &Sizes::answer_bytes)
      .def_readonly("large_answers", &Sizes::large_answers)
      .def_readonly("large_answer_bytes", &Sizes::large_answer_bytes)
      .def_readonly("caller_bytes", &Sizes::caller_bytes, "Of an edge: CALLER_BYTES.")
      .def_readonly("upstreams", &Sizes::upstreams, "Of an edge: 1.")
      .def_readonly("attachment_bytes", &Sizes::attachment_bytes)
      .def_property_readonly("class_weights", [](const Sizes& sizes) {
        return std::tuple(sizes.class_weights[kHigh], sizes.class_weights[kNormal], sizes.class_weights[kLow]);
      });
  py::class_<Header>(m, "SegmentPlan", "What create_segment allocates, in bytes.")
      .def_readonly("total_bytes", &Header::total_bytes)
      .def_readonly("slot_stride", &Header::slot_stride);
  m.def("plan", &Segment::plan, "sizes"_a);
}

const std::initializer_list<std::pair<const char*, Phase>> kPhases = {{"starting", Phase::kStarting},
                                                                      {"serving", Phase::kServing},
                                                                      {"lame duck", Phase::kLameDuck},
                                                                      {"draining", Phase::kDraining},
                                                                      {"stopping", Phase::kStopping}};

}  // namespace

void register_segment(py::module_& m) {
  SegmentClass segment(m, "Segment", "The mapped segment. Times are nanoseconds of now_ns().");
  register_sizes(m);
  register_processes(m);
  register_models(m);
  register_load(m);
  register_upstreams(m);
  m.def(
      "create_segment",
      [](const Sizes& sizes) {
        auto made = Segment::create(sizes);
        if (made.fd < 0) throw std::runtime_error(made.error);
        return made.fd;
      },
      "sizes"_a, "Makes the shared segment and returns its descriptor. RuntimeError with the reason.");
  m.def("why_no_huge_pages", &why_no_huge_pages,
        "Makes and drops a huge page as create_segment makes them. Empty: it could; else why not.");
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
      .def(
          "lock", [](const SegmentHandle& s) { return s.segment.lock(); },
          "Keeps its pages in memory as long as this process lives. False: the limit for locked memory is too low.")
      .def(
          "set_phase",
          [](const SegmentHandle& s, const std::string& phase, u64 drain_deadline_ns) {
            s.segment.supervisor().drain_deadline_ns.store(drain_deadline_ns, kRelease);
            s.segment.supervisor().phase.store(choice<Phase>(phase, kPhases, "phase"), kRelease);
          },
          "phase"_a, "drain_deadline_ns"_a = 0)
      .def_property_readonly("phase", [](const SegmentHandle& s) {
        return std::data(kPhases)[u32(s.segment.supervisor().phase.load(kAcquire))].first;
      });
  define_processes(segment);
  define_models(segment);
  define_load(segment);
  define_upstreams(segment);

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

  add_tuple<py::str>(m, "STAGES", kStageNames);
  add_tuple<py::str>(m, "METHODS", kMethodNames);
  add_tuple<py::str>(m, "REJECTS", kRejectNames);
  add_tuple<py::str>(m, "CLASSES", kClassNames);
  add_tuple<py::str>(m, "IDLES", kIdleNames);
  add_tuple<py::str>(m, "START_STAGES", kStartStageNames);
  add_tuple<py::str>(m, "TRANSPORT_COUNTERS", kTransportNames);
  py::class_<CounterRow>(m, "CounterRow", "A counter without labels.")
      .def_readonly("name", &CounterRow::name, "A key of ProcessStats.counters.")
      .def_readonly("metric", &CounterRow::metric,
                    "Without fastqps_ and _total; empty: the metrics page has no such row.")
      .def_readonly("help", &CounterRow::help)
      .def_readonly("scale", &CounterRow::scale, "From the counter's unit to the metric's.");
  add_tuple<CounterRow>(m, "COUNTERS", kCounters);
  m.attr("DISPATCHERS_MAX") = kDispatchersMax;
  m.attr("MODELS_MAX") = kModelsMax;
  m.attr("GENERATIONS") = kGenerations;
  m.attr("CALLER_BYTES") = sizeof(CallerContext);
}

}  // namespace bind
}  // namespace fastqps

PYBIND11_MODULE(_core, m) {
  fastqps::bind::check_identity("_core");
  m.doc() = "The shared-memory core, the steps and the tokenizers of fastqps.";
  fastqps::bind::register_segment(m);
  fastqps::bind::register_load_window(m);
  fastqps::bind::register_step(m);
  fastqps::bind::register_options(m);
  fastqps::bind::register_decode(m);
  fastqps::bind::register_sim(m);
  fastqps::bind::register_cuda(m);
  fastqps::bind::register_cpu(m);
  fastqps::bind::register_program(m);
  fastqps::bind::register_text(m);
  fastqps::bind::register_trace(m);
}
