// Programs for Python: fastqps/ops/cpu/tape.py records them. Arrays are given by address, so nothing here knows torch.
#include "bind/core/program.h"

#include <pybind11/functional.h>

#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "step/buffers.h"
#include "step/cpu/cpu_decode.h"
#include "step/cpu/cpu_ops.h"
#include "step/cpu/head_ops.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {

using step::Count;
using step::Piece;
using step::Program;

void check_indexes(const char* what, const i32* indexes, u32 n, u32 rows, i32 least) {
  const u32 at = first_beyond(indexes, n, rows, least);
  if (at == n) return;
  throw std::out_of_range(std::string(what) + " " + std::to_string(indexes[at]) + " at row " + std::to_string(at) +
                          " of the step; its table has " + std::to_string(rows) + " rows");
}

namespace {

constexpr Names<step::Function> kFunctions[] = {
    {"identity", step::Function::kIdentity}, {"tanh", step::Function::kTanh}, {"relu", step::Function::kRelu},
    {"gelu", step::Function::kGelu},         {"silu", step::Function::kSilu}, {"sigmoid", step::Function::kSigmoid}};

}  // namespace

void add_row_operations(ProgramClass& program) {
  program
      .def(
          "rms_norm",
          [](Program& self, u64 out, u64 rows, bool bfloat16, i64 n_rows, u64 weight, u32 width, float eps,
             u32 stride) {
            const step::RmsNorm job{
                address<const float>(weight), address(rows), address(out), 0, width, eps, number(bfloat16), stride};
            add_job(self, job, &step::RmsNorm::n_rows, n_rows, step::rms_norm);
          },
          "out"_a, "rows"_a, "bfloat16"_a, "n_rows"_a, "weight"_a, "width"_a, "eps"_a, "stride"_a = 0,
          "Root mean square normalisation of rows; step::RmsNorm in csrc/step/cpu/cpu_decode.h.")
      .def(
          "normalize",
          [](Program& self, u64 out, u64 rows, bool bfloat16, i64 n_rows, u64 weight, u64 bias, u32 width, float eps) {
            const step::Norm norm{address<const float>(weight), address<const float>(bias), width, eps};
            const step::Normalization job{norm, address(rows), address(out), 0, number(bfloat16)};
            add_job(self, job, &step::Normalization::n_rows, n_rows, step::normalize);
          },
          "out"_a, "rows"_a, "bfloat16"_a, "n_rows"_a, "weight"_a, "bias"_a, "width"_a, "eps"_a,
          "Layer normalisation of rows; step::Normalization in csrc/step/cpu/cpu_ops.h.")
      .def(
          "gate",
          [](Program& self, u64 out, u64 rows, bool bfloat16, i64 n_rows, u32 inner, const std::string& activate) {
            const step::Gate job{address(rows), address(out), 0, inner, number(bfloat16), activation(activate)};
            add_job(self, job, &step::Gate::n_rows, n_rows, step::gate);
          },
          "out"_a, "rows"_a, "bfloat16"_a, "n_rows"_a, "inner"_a, "activation"_a,
          "activation(gate) * up; step::Gate in csrc/step/cpu/cpu_decode.h.")
      .def(
          "add",
          [](Program& self, u64 sums, u64 x, bool bfloat16, i64 n_rows, u32 width) {
            const step::Addition job{address(sums), address(x), 0, number(bfloat16)};
            self.add([=, n = Count(n_rows)](const Piece& piece) {
              step::Addition part = job;
              part.n = u64(n.of(piece)) * width;
              step::add(part);
            });
          },
          "sums"_a, "x"_a, "bfloat16"_a, "n_rows"_a, "width"_a, "sums += x.")
      .def(
          "project",
          [](Program& self, u64 out, u64 rows, i64 n_rows, u64 weight, u64 bias, u32 inputs, u32 outputs,
             const std::string& activation) {
            const step::Projection job{address<const float>(rows),
                                       address<const float>(weight),
                                       address<const float>(bias),
                                       address<float>(out),
                                       0,
                                       inputs,
                                       outputs};
            self.add([=, n = Count(n_rows), f = named("activation", kFunctions, activation)](const Piece& piece) {
              step::Projection part = job;
              part.n_rows = n.of(piece);
              step::project(part, piece.threads);
              step::apply(f, part.out, u64(part.n_rows) * outputs);
            });
          },
          "out"_a, "rows"_a, "n_rows"_a, "weight"_a, "bias"_a, "inputs"_a, "outputs"_a, "activation"_a = "identity",
          "A product of rows with a weight in strips, and a function of it; step::Projection in "
          "csrc/step/cpu/cpu_ops.h.");
}

void register_program(py::module_& m) {
  m.attr("TOKENS") = Count::kTokens;
  m.attr("ITEMS") = Count::kItems;
  m.attr("NEW_ITEMS") = Count::kNewItems;
  ProgramClass program(m, "Program",
                       "A step's operations, recorded by the methods that are named after them and run at every size; "
                       "csrc/step/cpu/program.h. Numbers of rows are fixed, or one of TOKENS, ITEMS and NEW_ITEMS.");
  program.def(py::init<>())
      .def_static("at_once", &Program::at_once, "threads"_a, "A program that keeps nothing: operations run when added.")
      .def("__len__", &Program::size)
      .def(
          "call",
          [](Program& self, py::typing::Callable<void(int, int)> function) {
            self.add_torch([function = py::function(std::move(function))](const Piece& piece) {
              py::gil_scoped_acquire acquire;
              function(piece.tokens, piece.items);
            });
          },
          "function"_a, "Calls a function of Python, which uses torch, with the numbers of tokens and items.")
      .def(
          "run",
          [](const Program& self, u32 tokens, u32 items, u32 new_items, u32 threads) {
            self.run({.tokens = tokens, .items = items, .new_items = new_items, .threads = threads});
          },
          "tokens"_a, "items"_a, "new_items"_a, "threads"_a, py::call_guard<py::gil_scoped_release>(),
          "Runs the operations, without the GIL.")
      .def(
          "run_pieces",
          [](const Program& self, u64 starts, u32 n_items, u32 piece_tokens, u32 threads) {
            self.run_pieces(address<const i32>(starts), n_items, piece_tokens, threads);
          },
          "starts"_a, "n_items"_a, "piece_tokens"_a, "threads"_a, py::call_guard<py::gil_scoped_release>(),
          "Runs the operations over pieces of whole items, without the GIL.");
  add_row_operations(program);
  add_encoder_operations(program);
  add_decoder_operations(program);
  register_products(m);
}

}  // namespace fastqps::bind
