#include <nghttp2/nghttp2.h>
#include <pybind11/stl.h>

#include "bind/bind.h"
#include "record/outcome.h"

namespace py = pybind11;

namespace loadgen {
namespace {

py::dict record(const std::vector<i64>& values_ns) {
  Histogram histogram;
  for (const i64 value : values_ns) histogram.record(value);
  return to_dict(histogram);
}

}  // namespace

extern const char* const kBuiltSources;  // setup.py writes its definition

PYBIND11_MODULE(_native, module) {
  py::module_::import("loadgen.built").attr("check")(kBuiltSources);
  py::list outcomes;
  for (u32 i = 0; i < kNamedOutcomes; i++) outcomes.append(outcome_name(i));
  module.attr("OUTCOMES") = py::tuple(outcomes);
  module.attr("NGHTTP2") = nghttp2_version(0)->version_str;
  module.attr("COMPILER") = "gcc " __VERSION__;
  module.def("record", &record, py::arg("values_ns"));
  bind_engine(module);
  bind_server(module);
}

}  // namespace loadgen
