// What the CPU's kernels compute outside of a program, and weights that are packed for it.
#include <malloc.h>

#include <string>

#include "bind/core/program.h"
#include "step/cpu/cpu_ops.h"
#include "step/cpu/logit_options.h"
#include "step/cpu/products/levels.h"
#include "step/team.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

constexpr Names<step::TableNumber> kTableNumbers[] = {{"float32", step::TableNumber::kFloat32},
                                                      {"float16", step::TableNumber::kFloat16},
                                                      {"bfloat16", step::TableNumber::kBfloat16},
                                                      {"int8", step::TableNumber::kInt8}};
constexpr Names<step::Activation> kActivations[] = {{"none", step::Activation::kNone},
                                                    {"gelu", step::Activation::kGelu},
                                                    {"gelu_tanh", step::Activation::kGeluTanh},
                                                    {"relu", step::Activation::kRelu},
                                                    {"silu", step::Activation::kSilu}};
constexpr Names<step::WeightType> kWeightTypes[] = {
    {"int8", step::WeightType::kInt8}, {"bfloat16", step::WeightType::kBf16}, {"float32", step::WeightType::kF32}};

}  // namespace

step::Activation activation(const std::string& name) { return named("activation", kActivations, name); }

void register_products(py::module_& m) {
  m.attr("INT8_INPUTS_MAX") = step::kInt8InputsMax;
  m.attr("PANEL_OUTPUTS") = step::kPanelOutputs;
  m.attr("PRODUCTS_LEVEL") = step::chosen_products().name;
  py::class_<step::Matrix>(m, "Matrix",
                           "A weight in int8, bf16 or fp32, and its products; csrc/step/cpu/products/product.h.")
      .def(py::init([](u64 weight, u64 bias, u32 outputs, u32 inputs, const std::string& number, u64 exact) {
             const step::WeightType type = named("number", kWeightTypes, number);
             const bool int8 = type == step::WeightType::kInt8;
             if (!outputs || !inputs || (int8 && inputs > step::kInt8InputsMax))
               throw py::value_error("a weight of " + std::to_string(outputs) + " x " + std::to_string(inputs) +
                                     " has no product" + (int8 ? " in int8" : ""));
             py::gil_scoped_release release;
             return step::Matrix(type, address(weight), address<const float>(bias), outputs, inputs, address(exact));
           }),
           "weight"_a, "bias"_a, "outputs"_a, "inputs"_a, "number"_a, "exact"_a = 0,
           "Packs a weight [outputs, inputs] of this number; int8 quantises a float32 one.")
      .def(
          "multiply",
          [](const step::Matrix& matrix, step::Program& program, u64 out, u64 x, bool bfloat16, i64 n_rows,
             const std::string& activate, bool gated, u64 residual) {
            const step::Product job{matrix.view(),    address(x),           address(out), address(residual), 0,
                                    number(bfloat16), activation(activate), gated};
            const auto type = job.weight.type;
            if (type != step::WeightType::kInt8 && bfloat16 != (type == step::WeightType::kBf16))
              throw py::value_error(bfloat16 ? "a weight of fp32 multiplies rows of fp32"
                                             : "a weight of bf16 multiplies rows of bf16");
            if (gated && job.weight.outputs % (2 * step::kPanelOutputs))
              throw py::value_error("half of " + std::to_string(job.weight.outputs) +
                                    " gated outputs is no multiple of " + std::to_string(step::kPanelOutputs));
            if (job.weight.exact && (gated || residual || job.activation != step::Activation::kNone))
              throw py::value_error("a product with an exact weight has nothing behind it but its bias");
            add_job(program, job, &step::Product::n_rows, n_rows, step::multiply);
          },
          "program"_a, "out"_a, "x"_a, "bfloat16"_a, "n_rows"_a, "activation"_a = "none", "gated"_a = false,
          "residual"_a = 0, "One product with what follows it; step::Product in csrc/step/cpu/products/product.h.");
}

void register_cpu(py::module_& m) {
  m.def("set_team_cores", &step::Team::set_cores, "cores"_a,
        "How many cores the threads of programs can use: they sleep at once where there are more threads.");
  m.def(
      "trim_memory", [] { malloc_trim(0); }, py::call_guard<py::gil_scoped_release>(),
      "Gives free memory back to the system, which malloc keeps where larger blocks have been.");
  m.def("has_openmp", &step::has_openmp,
        "Whether torch has loaded an OpenMP runtime, whose threads kernels can borrow.");
  m.def(
      "mean_bags",
      [](u64 out, u64 ids, u64 starts, u32 n_items, u64 table, const std::string& number, u32 width, u32 n_ids,
         u64 mapping, u64 weights, u32 skipped_id) {
        step::mean_bags({address(table), address<const i32>(mapping), address<const float>(weights),
                         address<const i32>(ids), address<const i32>(starts), address<float>(out), n_items, width,
                         n_ids, skipped_id, named("number", kTableNumbers, number)});
      },
      "out"_a, "ids"_a, "starts"_a, "n_items"_a, "table"_a, "number"_a, "width"_a, "n_ids"_a, "mapping"_a = 0,
      "weights"_a = 0, "skipped_id"_a = ~u32(0), py::call_guard<py::gil_scoped_release>(),
      "The weighted mean of the table's rows that each item's ids name; step::Bags in csrc/step/cpu/cpu_ops.h.");
  m.attr("RULE_FORCED") = i32(step::kRuleForced);
  m.attr("RULE_FORBIDDEN") = i32(step::kRuleForbidden);
  m.attr("RULE_NOT_FIRST") = i32(step::kRuleNotFirst);
  m.attr("RULE_WORDS") = u32(step::kRuleWords);
}

}  // namespace fastqps::bind
