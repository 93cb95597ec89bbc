#include <pybind11/stl.h>

#include "bind/bind.h"

namespace py = pybind11;
using namespace py::literals;

namespace loadgen {
namespace {

template <class T>
std::span<const T> view(const py::array_t<T, py::array::c_style | py::array::forcecast>& array) {
  if (array.ndim() != 1) throw py::value_error("arrays must have one dimension");
  return {array.data(), size_t(array.size())};
}

CallKind kind_of(const std::string& name) {
  if (name == "unary") return CallKind::kUnary;
  if (name == "server-stream") return CallKind::kServerStream;
  throw py::value_error("call must be unary or server-stream, not \"" + name + "\"");
}

std::unique_ptr<PyEngine> make_engine(std::string host, u16 port, std::string path,
                                      std::vector<std::pair<std::string, std::string>> headers,
                                      const std::vector<py::bytes>& payloads, u32 connections, u32 streams, u32 threads,
                                      const std::string& call, i64 grace_ns,
                                      const std::optional<std::vector<py::bytes>>& expected, u32 samples_max,
                                      u32 sample_every, bool record_calls, i64 interval_ns, bool tls,
                                      const py::bytes& tls_ca, const py::bytes& tls_cert, const py::bytes& tls_key) {
  Options o;
  o.host = std::move(host);
  o.port = port;
  o.path = std::move(path);
  o.headers = std::move(headers);
  for (const py::bytes& payload : payloads) o.payloads.emplace_back(payload);
  o.connections = connections, o.streams = streams, o.threads = threads;
  o.call = kind_of(call);
  o.grace_ns = grace_ns;
  if (expected)
    for (const py::bytes& answer : *expected) o.expected.emplace_back(answer);
  o.samples_max = samples_max, o.sample_every = sample_every;
  o.record_calls = record_calls;
  o.interval_ns = interval_ns;
  o.tls = tls;
  o.tls_ca = tls_ca, o.tls_cert = tls_cert, o.tls_key = tls_key;
  return std::make_unique<PyEngine>(std::move(o));
}

void connect(PyEngine& self, double timeout_s) {
  if (!(timeout_s > 0)) throw py::value_error("timeout_s must be above 0");
  bool stood = false;
  std::string failure;
  try {
    py::gil_scoped_release free;
    stood = self.engine.connect(i64(std::min(timeout_s, 1e6) * 1e9), [] {
      py::gil_scoped_acquire hold;
      return PyErr_CheckSignals() != 0;
    });
  } catch (const ConnectError& error) { failure = error.what(); }
  if (!failure.empty()) {
    PyErr_SetString(PyExc_ConnectionError, failure.c_str());
    throw py::error_already_set();
  }
  if (!stood) throw py::error_already_set();  // the signal's
}

void begin(PyEngine& self, const Load& load) {
  py::gil_scoped_release free;
  self.engine.start(load);
}

void start(PyEngine& self, Times times, Indexes payload_index, i64 deadline_ns, i64 measure_from_ns,
           i64 measure_until_ns) {
  Load load;
  load.times = view(times);
  load.payload_index = view(payload_index);
  load.deadline = deadline_ns;
  load.measure_from = measure_from_ns;
  load.measure_until = measure_until_ns;
  begin(self, load);
  self.times = std::move(times), self.payload_index = std::move(payload_index);
}

void start_closed(PyEngine& self, u32 in_flight, i64 duration_ns, Indexes payload_index, i64 deadline_ns,
                  i64 measure_from_ns) {
  Load load;
  load.closed = true;
  load.in_flight = in_flight;
  load.duration = duration_ns;
  load.payload_index = view(payload_index);
  load.deadline = deadline_ns;
  load.measure_from = measure_from_ns;
  begin(self, load);
  self.payload_index = std::move(payload_index);
}

bool wait(PyEngine& self, double timeout_s) { return self.engine.wait(i64(std::clamp(timeout_s, 0.0, 1e6) * 1e9)); }

void stop(PyEngine& self, std::optional<double> grace_s) {
  if (grace_s && !(*grace_s >= 0)) throw py::value_error("grace_s must not be negative");
  std::optional<i64> grace_ns;
  if (grace_s) grace_ns = i64(std::min(*grace_s, 1e6) * 1e9);
  py::gil_scoped_release free;
  self.engine.stop(grace_ns);
}

}  // namespace

EngineClass bind_engine(py::module_& module) {
  return EngineClass(
             module, "Engine",
             "Sends calls of one gRPC method on threads of its own. One engine is one run: connect, start, (poll "
             "...), wait, result. Python's lock is released in every call that can take time; the threads never "
             "take it.")
      .def(py::init(&make_engine), "host"_a, "port"_a, "path"_a, "headers"_a, "payloads"_a, py::kw_only(),
           "connections"_a = 1, "streams"_a = 100, "threads"_a = 1, "call"_a = "unary", "grace_ns"_a = 5 * kSecond,
           "expected"_a = py::none(), "samples_max"_a = 0, "sample_every"_a = 97, "record_calls"_a = false,
           "interval_ns"_a = kSecond, "tls"_a = false, "tls_ca"_a = py::bytes(), "tls_cert"_a = py::bytes(),
           "tls_key"_a = py::bytes(),
           "What each is stands in loadgen/csrc/options.h. Raises ValueError for what would break it: the command line "
           "checks the rest.")
      .def("connect", &connect, "timeout_s"_a,
           "Makes all connections, and waits for the server's SETTINGS on each, so that nothing is measured of it. "
           "Raises ConnectionError with the reason; then it may be tried again.")
      .def("start", &start, "times_ns"_a, "payload_index"_a, "deadline_ns"_a = 0, py::kw_only(),
           "measure_from_ns"_a = 0, "measure_until_ns"_a = i64(1) << 62,
           "Open loop: call i is due at times_ns[i] (int64[n], sorted), carries payloads[payload_index[i]] (uint32[n]) "
           "and has deadline_ns from its intended time (0: none). Contiguous arrays are not copied: "
           "leave them alone until the run has ended. Raises ValueError for arrays that do not fit together, "
           "RuntimeError if not connected or started before.")
      .def("start_closed", &start_closed, "in_flight"_a, "duration_ns"_a, "payload_index"_a, "deadline_ns"_a = 0,
           py::kw_only(), "measure_from_ns"_a = 0,
           "Closed loop: so many calls are always open, spread evenly over all connections, for duration_ns. Measured: "
           "what ends in [measure_from_ns, duration_ns). Payloads are sent in the order of payload_index, again and "
           "again. `streams` does not count. Raises as start().")
      .def("wait", &wait, "timeout_s"_a, py::call_guard<py::gil_scoped_release>(),
           "Waits until the run has ended, at most so long. True: it has.")
      .def("stop", &stop, "grace_s"_a = py::none(),
           "No more sends; open calls get grace_s (None: grace_ns of the constructor) to end. Returns at once: then "
           "wait(). A second call with a shorter grace shortens it. Does nothing before start() or after the end.");
}

}  // namespace loadgen
