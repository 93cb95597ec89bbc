#include <nghttp2/nghttp2.h>
#include <sched.h>
#include <sys/prctl.h>

#include "bind/bind.h"
#include "record/outcome.h"

namespace py = pybind11;

namespace loadgen {
namespace {

py::dict environment() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  py::list usable;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(size_t(i), &cpus)) usable.append(i);
  py::dict found;
  found["nghttp2"] = nghttp2_version(0)->version_str;
  found["compiler"] = "gcc " __VERSION__;
  found["timer_slack_ns"] = prctl(PR_GET_TIMERSLACK);
  found["cpus"] = usable;
  return found;
}

}  // namespace

extern const char* const kBuiltSources;  // setup.py writes its definition

PYBIND11_MODULE(_native, module) {
  py::module_::import("loadgen.built").attr("check")(kBuiltSources);
  py::list outcomes;
  for (u32 i = 0; i < kNamedOutcomes; i++) outcomes.append(outcome_name(i));
  module.attr("OUTCOMES") = py::tuple(outcomes);
  module.def("environment", &environment);
  bind_histogram(module);
  bind_engine(module);
  bind_server(module);
}

}  // namespace loadgen
