#include <pybind11/numpy.h>

#include "bind/bind.h"

namespace py = pybind11;

namespace loadgen {
namespace {

using Values = py::array_t<i64, py::array::c_style | py::array::forcecast>;

py::dict record(const Values& values) {
  Histogram histogram;
  for (py::ssize_t i = 0; i < values.size(); i++) histogram.record(values.data()[i]);
  return to_dict(histogram);
}

}  // namespace

py::dict to_dict(const Histogram& histogram) {
  py::dict found;
  found["counts"] = py::array_t<u64>(py::ssize_t(histogram.counts.size()), histogram.counts.data());
  found["count"] = histogram.count;
  found["sum_ns"] = histogram.sum;
  found["max_ns"] = histogram.largest;
  found["min_ns"] = histogram.smallest;
  return found;
}

void bind_histogram(py::module_& module) { module.def("record", &record, py::arg("values_ns")); }

}  // namespace loadgen
