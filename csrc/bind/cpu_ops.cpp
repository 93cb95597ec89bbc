// The CPU kernels for Python: addresses are integers, so nothing here knows torch. The interpreter is released
// meanwhile.

#include "step/cpu_ops.h"

#include "bind/bind.h"

namespace py = pybind11;

namespace fastqps::bind {
namespace {

void attend(u64 out, u64 qkv, bool bfloat16, u32 heads, u32 head_dim, u64 starts, u32 n_items, u64 positions,
            u64 rotary, u32 window) {
  step::Attention job{};
  job.qkv = reinterpret_cast<const void*>(qkv);
  job.out = reinterpret_cast<void*>(out);
  job.starts = reinterpret_cast<const i32*>(starts);
  job.positions = reinterpret_cast<const i32*>(positions);
  job.rotary = reinterpret_cast<const float*>(rotary);
  job.n_items = n_items;
  job.heads = heads;
  job.head_dim = head_dim;
  job.window = window;
  job.number = bfloat16 ? step::Number::kBfloat16 : step::Number::kFloat32;
  py::gil_scoped_release released;
  step::attend(job);
}

}  // namespace

void register_cpu_ops(py::module_& m) {
  m.def("cpu_ops_level", &step::cpu_ops_level, "The instruction set of the CPU kernels: avx512, avx2 or baseline.");
  m.def("attend", &attend, py::arg("out"), py::arg("qkv"), py::arg("bfloat16"), py::arg("heads"), py::arg("head_dim"),
        py::arg("starts"), py::arg("n_items"), py::arg("positions") = 0, py::arg("rotary") = 0, py::arg("window") = 0,
        "Attention inside each item of a packed batch; see csrc/step/cpu_ops.h. Arrays are given by address.");
}

}  // namespace fastqps::bind
