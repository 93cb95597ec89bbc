#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "bind/bind.h"

namespace py = pybind11;

namespace loadgen {
namespace {

using Times = py::array_t<i64, py::array::c_style | py::array::forcecast>;
using Indexes = py::array_t<u32, py::array::c_style | py::array::forcecast>;

// An engine, and the arrays that its run reads, which outlive it.
struct PyEngine {
  explicit PyEngine(Options options) : engine(std::move(options)) {}
  ~PyEngine() {
    py::gil_scoped_release free;
    engine.stop(0);
  }
  Times times, deadlines;
  Indexes payload_index;
  Engine engine;
};

template <class T>
std::span<const T> view(const py::array_t<T, py::array::c_style | py::array::forcecast>& array) {
  if (array.ndim() != 1) throw py::value_error("arrays must have one dimension");
  return {array.data(), size_t(array.size())};
}

CallKind kind_of(const std::string& name) {
  if (name == "unary") return CallKind::kUnary;
  if (name == "server-stream") return CallKind::kServerStream;
  if (name == "bidi") return CallKind::kBidi;
  throw py::value_error("call must be unary, server-stream or bidi, not \"" + name + "\"");
}

std::unique_ptr<PyEngine> make_engine(
    std::string host, u16 port, std::string path, std::vector<std::pair<std::string, std::string>> headers,
    const std::vector<py::bytes>& payloads, u32 connections, u32 streams, u32 threads,
    std::optional<std::vector<int>> cpus, const std::string& call, u32 stream_in_flight, u32 request_id_field,
    u32 response_id_field, u32 timeout_field, std::vector<u32> status_field, i64 grace_ns,
    const std::optional<std::vector<py::bytes>>& expected, u32 samples_max, u32 sample_every, bool record_calls,
    i64 interval_ns, bool tls, const std::string& tls_ca, const std::string& tls_cert, const std::string& tls_key) {
  Options o;
  o.host = std::move(host);
  o.port = port;
  o.path = std::move(path);
  o.headers = std::move(headers);
  for (const py::bytes& payload : payloads) o.payloads.emplace_back(payload);
  o.connections = connections, o.streams = streams, o.threads = threads;
  if (cpus) o.cpus = *std::move(cpus);
  o.call = kind_of(call);
  o.stream_in_flight = stream_in_flight;
  o.request_id_field = request_id_field, o.response_id_field = response_id_field, o.timeout_field = timeout_field;
  o.status_field = std::move(status_field);
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
  } catch (const ConnectError& error) { failure = error.what(); } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
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

void start(PyEngine& self, Times times, Indexes payload_index, const py::object& deadline_ns, i64 measure_from_ns,
           i64 measure_until_ns) {
  Load load;
  load.times = view(times);
  load.payload_index = view(payload_index);
  Times deadlines;
  if (py::isinstance<py::int_>(deadline_ns)) {
    load.deadline = deadline_ns.cast<i64>();
  } else {
    deadlines = deadline_ns.cast<Times>();
    load.deadlines = view(deadlines);
    if (load.deadlines.size() != load.times.size()) throw py::value_error("deadline_ns must be as long as times_ns");
  }
  load.measure_from = measure_from_ns;
  load.measure_until = measure_until_ns;
  begin(self, load);
  self.times = std::move(times), self.payload_index = std::move(payload_index), self.deadlines = std::move(deadlines);
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

py::list poll(PyEngine& self) {
  py::list found;
  for (const Interval& interval : self.engine.poll()) found.append(to_dict(interval));
  return found;
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

void bind_engine(py::module_& module) {
  py::class_<PyEngine>(module, "Engine")
      .def(py::init(&make_engine), py::arg("host"), py::arg("port"), py::arg("path"), py::arg("headers"),
           py::arg("payloads"), py::kw_only(), py::arg("connections") = 1, py::arg("streams") = 100,
           py::arg("threads") = 1, py::arg("cpus") = py::none(), py::arg("call") = "unary",
           py::arg("stream_in_flight") = 256, py::arg("request_id_field") = 0, py::arg("response_id_field") = 0,
           py::arg("timeout_field") = 0, py::arg("status_field") = py::tuple(), py::arg("grace_ns") = 5 * kSecond,
           py::arg("expected") = py::none(), py::arg("samples_max") = 0, py::arg("sample_every") = 97,
           py::arg("record_calls") = false, py::arg("interval_ns") = kSecond, py::arg("tls") = false,
           py::arg("tls_ca") = "", py::arg("tls_cert") = "", py::arg("tls_key") = "")
      .def("connect", &connect, py::arg("timeout_s"))
      .def("start", &start, py::arg("times_ns"), py::arg("payload_index"), py::arg("deadline_ns") = 0, py::kw_only(),
           py::arg("measure_from_ns") = 0, py::arg("measure_until_ns") = i64(1) << 62)
      .def("start_closed", &start_closed, py::arg("in_flight"), py::arg("duration_ns"), py::arg("payload_index"),
           py::arg("deadline_ns") = 0, py::kw_only(), py::arg("measure_from_ns") = 0)
      .def("poll", &poll)
      .def("wait", &wait, py::arg("timeout_s"), py::call_guard<py::gil_scoped_release>())
      .def("stop", &stop, py::arg("grace_s") = py::none())
      .def("result", [](PyEngine& self) { return result_of(self.engine); });
}

}  // namespace loadgen
