#include <nghttp2/nghttp2.h>
#include <pybind11/stl.h>

#include <system_error>

#include "bind/bind.h"
#include "server/server.h"

namespace py = pybind11;

namespace loadgen {
namespace {

py::dict record(const std::vector<i64>& values_ns) {
  Histogram histogram;
  for (const i64 value : values_ns) histogram.record(value);
  return to_dict(histogram);
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
  module.attr("OUTCOMES") = py::tuple(outcomes);
  module.attr("NGHTTP2") = nghttp2_version(0)->version_str;
  module.def("record", &record, py::arg("values_ns"));
  bind_engine(module);
  py::class_<Server>(module, "Server")
      .def(py::init(&make_server), py::kw_only(), py::arg("port") = 0, py::arg("service_ns") = 0,
           py::arg("answer_bytes") = -1, py::arg("messages") = 1, py::arg("message_gap_ns") = 0,
           py::arg("stall_at_ns") = 0, py::arg("stall_for_ns") = 0, py::arg("path") = "", py::arg("fail_every") = 0,
           py::arg("fail_status") = 14, py::arg("streams_max") = 0)
      .def_property_readonly("port", &Server::port)
      .def("stop", &Server::stop, py::call_guard<py::gil_scoped_release>());
}

}  // namespace loadgen
