// The CPU kernels for Python. Arrays are given by address, so nothing here knows torch.
#include "step/cpu_ops.h"

#include "bind/arrays.h"
#include "bind/bind.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

step::Norm norm(u64 weight, u64 bias, u32 width, float eps) {
  return {address<const float>(weight), address<const float>(bias), width, eps};
}

}  // namespace

void register_cpu_ops(py::module_& m) {
  using Release = py::call_guard<py::gil_scoped_release>;
  m.def("cpu_ops_level", &step::cpu_ops_level,
        "The instruction set of the CPU kernels: avx512_bf16, avx512, avx2 or baseline.");
  m.def(
      "attend",
      [](u64 out, u64 qkv, bool bfloat16, u32 heads, u32 head_dim, u64 starts, u32 n_items, u64 positions, u64 rotary,
         u32 window) {
        step::attend({address(qkv), address(out), address<const i32>(starts), address<const i32>(positions),
                      address<const float>(rotary), n_items, heads, head_dim, window, number(bfloat16)});
      },
      "out"_a, "qkv"_a, "bfloat16"_a, "heads"_a, "head_dim"_a, "starts"_a, "n_items"_a, "positions"_a = 0,
      "rotary"_a = 0, "window"_a = 0, Release(), "Attention inside each item; step::Attention in csrc/step/cpu_ops.h.");
  m.def(
      "normalize",
      [](u64 out, u64 in, bool bfloat16, u32 n_rows, u64 weight, u64 bias, u32 width, float eps) {
        step::normalize({norm(weight, bias, width, eps), address(in), address(out), n_rows, number(bfloat16)});
      },
      "out"_a, "rows"_a, "bfloat16"_a, "n_rows"_a, "weight"_a, "bias"_a, "width"_a, "eps"_a, Release(),
      "Layer normalisation of rows; step::Normalization in csrc/step/cpu_ops.h.");
  m.def(
      "embed",
      [](u64 out, bool bfloat16, u32 n_tokens, u64 ids, u64 positions, u64 types, u64 words, u64 places, u64 kinds,
         u64 weight, u64 bias, u32 width, float eps) {
        step::embed({norm(weight, bias, width, eps), address<const i32>(ids), address<const i32>(positions),
                     address<const i32>(types), address(words), address(places), address(kinds), address(out), n_tokens,
                     number(bfloat16)});
      },
      "out"_a, "bfloat16"_a, "n_tokens"_a, "ids"_a, "positions"_a, "types"_a, "words"_a, "places"_a, "kinds"_a,
      "weight"_a, "bias"_a, "width"_a, "eps"_a, Release(),
      "The normalised sum of rows of tables; step::Embedding in csrc/step/cpu_ops.h.");
  m.def(
      "means",
      [](u64 out, u64 rows, bool bfloat16, u32 width, u64 starts, u32 n_items) {
        step::means({address(rows), address<float>(out), address<const i32>(starts), n_items, width, number(bfloat16)});
      },
      "out"_a, "rows"_a, "bfloat16"_a, "width"_a, "starts"_a, "n_items"_a, Release(),
      "The mean of each item's rows; step::Means in csrc/step/cpu_ops.h.");
}

}  // namespace fastqps::bind
