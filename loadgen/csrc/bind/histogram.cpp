#include <pybind11/numpy.h>

#include "bind/bind.h"

namespace py = pybind11;

namespace loadgen {
namespace {

using Values = py::array_t<i64, py::array::c_style | py::array::forcecast>;

u32 index_of(i64 value_ns) {
  if (value_ns < 0) throw py::value_error("a time is negative");
  return histogram_index(value_ns);
}

i64 value_of(u64 index, const std::string& which) {
  if (index >= kHistogramLength) throw py::value_error("no such index");
  const i64 lowest = histogram_lowest(u32(index)), width = histogram_width(u32(index));
  if (which == "lowest") return lowest;
  if (which == "median") return lowest + width / 2;
  if (which == "highest") return lowest + width - 1;
  throw py::value_error("which must be lowest, median or highest, not \"" + which + "\"");
}

py::dict record(const Values& values) {
  Histogram histogram;
  for (py::ssize_t i = 0; i < values.size(); i++) {
    if (values.data()[i] < 0) throw py::value_error("a time is negative");
    histogram.record(values.data()[i]);
  }
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

void bind_histogram(py::module_& module) {
  module.attr("HISTOGRAM_LENGTH") = kHistogramLength;
  module.attr("HISTOGRAM_DIGITS") = kHistogramDigits;
  module.attr("HISTOGRAM_HIGHEST_NS") = kHistogramHighest;
  module.def("histogram_index", &index_of, py::arg("value_ns"));
  module.def("histogram_value_ns", &value_of, py::arg("index"), py::arg("which") = "highest");
  module.def("record", &record, py::arg("values_ns"));
}

}  // namespace loadgen
