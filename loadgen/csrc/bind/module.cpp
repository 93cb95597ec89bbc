#include <nghttp2/nghttp2.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <system_error>

#include "bind/bind.h"
#include "server/server.h"

namespace py = pybind11;
using namespace py::literals;

namespace loadgen {
namespace {

Histogram record(const std::vector<i64>& values_ns) {
  Histogram histogram;
  for (const i64 value : values_ns) histogram.record(value);
  return histogram;
}

std::unique_ptr<Server> make_server(u16 port, i64 service_ns, i64 answer_bytes, u32 messages, i64 message_gap_ns,
                                    i64 stall_at_ns, i64 stall_for_ns, const std::string& path, u64 fail_every,
                                    int fail_status, u32 streams_max) {
  ServerOptions options{port,         service_ns, answer_bytes, messages,    message_gap_ns, stall_at_ns,
                        stall_for_ns, path,       fail_every,   fail_status, streams_max};
  try {
    return std::make_unique<Server>(std::move(options));
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
  }
}

}  // namespace

extern const char* const kBuiltSources;  // setup.py writes its definition

PYBIND11_MODULE(_native, module) {
  py::module_::import("loadgen.built").attr("check")(kBuiltSources);
  py::list outcomes;
  for (u32 i = 0; i < kNamedOutcomes; i++) outcomes.append(outcome_name(i));
  module.attr_with_type_hint<py::typing::Tuple<py::str, py::ellipsis>>("OUTCOMES") = py::tuple(outcomes);
  module.attr("NGHTTP2") = nghttp2_version(0)->version_str;
  bind_histogram(module);
  module.def("record", &record, "values_ns"_a,
             "A histogram of these values, recorded as the engine does it: for tests.");
  EngineClass engine = bind_engine(module);
  bind_result(module, engine);
  py::class_<Server>(
      module, "Server",
      "A gRPC server whose behaviour is known, on one thread of its own; loadgen/csrc/server/server.h. It "
      "takes any method of any service.")
      .def(py::init(&make_server), py::kw_only(), "port"_a = 0, "service_ns"_a = 0, "answer_bytes"_a = -1,
           "messages"_a = 1, "message_gap_ns"_a = 0, "stall_at_ns"_a = 0, "stall_for_ns"_a = 0, "path"_a = "",
           "fail_every"_a = 0, "fail_status"_a = 14, "streams_max"_a = 0,
           "Raises OSError when it cannot listen, ValueError for what contradicts ServerOptions.")
      .def_property_readonly("port", &Server::port, "The port it listens on.")
      .def("stop", &Server::stop, py::call_guard<py::gil_scoped_release>(),
           "Ends it: connections are closed, the thread is joined. Again: nothing.");
}

}  // namespace loadgen
