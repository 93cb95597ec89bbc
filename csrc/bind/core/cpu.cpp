// The CPU kernels for Python. Arrays are given by address, so nothing here knows torch.
#include <stdexcept>
#include <string>
#include <utility>

#include "bind/bind.h"
#include "step/buffers.h"
#include "step/cpu/cpu_decode.h"
#include "step/cpu/cpu_ops.h"
#include "step/cpu/logit_options.h"
#include "step/cpu/products/levels.h"
#include "step/team.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

using Release = py::call_guard<py::gil_scoped_release>;

step::Norm norm(u64 weight, u64 bias, u32 width, float eps) {
  return {address<const float>(weight), address<const float>(bias), width, eps};
}

// IndexError where a step would read behind a table's last row, or in front of its first one.
void check_indexes(const char* what, const i32* indexes, u32 n, u32 rows, i32 least = 0) {
  const u32 at = first_beyond(indexes, n, rows, least);
  if (at == n) return;
  throw std::out_of_range(std::string(what) + " " + std::to_string(indexes[at]) + " at row " + std::to_string(at) +
                          " of the step; its table has " + std::to_string(rows) + " rows");
}

// IndexError where an item is longer than a table by the position or the distance of its tokens.
void check_lengths(const i32* starts, u32 n_items, u32 most) {
  for (u32 i = 0; i < n_items; i++)
    if (const i32 length = starts[i + 1] - starts[i]; length > i32(most))
      throw std::out_of_range("an item of " + std::to_string(length) + " tokens; its tables are for " +
                              std::to_string(most));
}

step::TableNumber table_number(const std::string& name) {
  static constexpr std::pair<const char*, step::TableNumber> kNumbers[] = {{"float32", step::TableNumber::kFloat32},
                                                                           {"float16", step::TableNumber::kFloat16},
                                                                           {"bfloat16", step::TableNumber::kBfloat16},
                                                                           {"int8", step::TableNumber::kInt8}};
  for (const auto& [known, number] : kNumbers)
    if (name == known) return number;
  throw py::value_error("number: '" + name + "' is none of float32, float16, bfloat16, int8");
}

void register_rows(py::module_& m) {
  m.def(
      "rms_norm",
      [](u64 out, u64 rows, bool bfloat16, u32 n_rows, u64 weight, u32 width, float eps, u32 threads) {
        step::rms_norm(
            {address<const float>(weight), address(rows), address(out), n_rows, width, eps, number(bfloat16)}, threads);
      },
      "out"_a, "rows"_a, "bfloat16"_a, "n_rows"_a, "weight"_a, "width"_a, "eps"_a, "threads"_a, Release(),
      "Root mean square normalisation of rows; step::RmsNorm in csrc/step/cpu/cpu_decode.h.");
  m.def(
      "embed_tokens",
      [](u64 out, bool bfloat16, u32 n_tokens, u64 ids, u64 kv_slots, u64 last_token, u64 table, u32 n_rows, u32 width,
         u64 positions, u64 history, u32 history_len) {
        check_indexes("token id", address<const i32>(ids), n_tokens, n_rows, -1);
        step::embed_tokens({address<const i32>(ids), address<const i32>(kv_slots), address<const i32>(last_token),
                            address(table), address(out), n_tokens, width, number(bfloat16),
                            address<const i32>(positions), address<i32>(history), history_len});
      },
      "out"_a, "bfloat16"_a, "n_tokens"_a, "ids"_a, "kv_slots"_a, "last_token"_a, "table"_a, "n_rows"_a, "width"_a,
      "positions"_a = 0, "history"_a = 0, "history_len"_a = 0, Release(),
      "Rows of a table by token id, -1 for the last token made; IndexError for an id beyond the table; "
      "step::TokenEmbedding in csrc/step/cpu/cpu_decode.h.");
  m.def(
      "gated_silu",
      [](u64 out, u64 rows, bool bfloat16, u32 n_rows, u32 inner, u32 threads) {
        step::gated_silu({address(rows), address(out), n_rows, inner, number(bfloat16)}, threads);
      },
      "out"_a, "rows"_a, "bfloat16"_a, "n_rows"_a, "inner"_a, "threads"_a, Release(),
      "silu(gate) * up; step::GatedSilu in csrc/step/cpu/cpu_decode.h.");
}

step::Activation activation(const std::string& name) {
  static constexpr std::pair<const char*, step::Activation> kActivations[] = {
      {"none", step::Activation::kNone},
      {"gelu", step::Activation::kGelu},
      {"gelu_tanh", step::Activation::kGeluTanh},
      {"relu", step::Activation::kRelu},
      {"silu", step::Activation::kSilu}};
  for (const auto& [known, activation] : kActivations)
    if (name == known) return activation;
  throw py::value_error("activation: '" + name + "' is none of none, gelu, gelu_tanh, relu, silu");
}

void register_products(py::module_& m) {
  m.attr("INT8_INPUTS_MAX") = step::kInt8InputsMax;
  m.attr("PANEL_OUTPUTS") = step::kPanelOutputs;
  m.attr("PRODUCTS_LEVEL") = step::chosen_products().name;
  py::class_<step::Matrix>(m, "Matrix", "A weight in int8 or bf16, and its products; csrc/step/cpu/products/product.h.")
      .def(py::init([](u64 weight, u64 bias, u32 outputs, u32 inputs, bool int8) {
             if (!outputs || !inputs || (int8 && inputs > step::kInt8InputsMax))
               throw py::value_error("a weight of " + std::to_string(outputs) + " x " + std::to_string(inputs) +
                                     " has no product" + (int8 ? " in int8" : ""));
             py::gil_scoped_release release;
             return step::Matrix(int8 ? step::WeightType::kInt8 : step::WeightType::kBf16, address<const float>(weight),
                                 address<const float>(bias), outputs, inputs);
           }),
           "weight"_a, "bias"_a, "outputs"_a, "inputs"_a, "int8"_a,
           "Packs a float32 weight [outputs, inputs]: quantised, or rounded to bf16.")
      .def(
          "multiply",
          [](const step::Matrix& matrix, u64 out, u64 x, bool bfloat16, u32 n_rows, u32 threads,
             const std::string& activate, bool gated, u64 residual) {
            const step::Product job{matrix.view(), address(x),       address(out),         address(residual),
                                    n_rows,        number(bfloat16), activation(activate), gated};
            if (!bfloat16 && job.weight.type == step::WeightType::kBf16)
              throw py::value_error("a weight of bf16 multiplies rows of bf16");
            if (gated && job.weight.outputs % (2 * step::kPanelOutputs))
              throw py::value_error("half of " + std::to_string(job.weight.outputs) +
                                    " gated outputs is no multiple of " + std::to_string(step::kPanelOutputs));
            py::gil_scoped_release release;
            step::multiply(job, threads);
          },
          "out"_a, "x"_a, "bfloat16"_a, "n_rows"_a, "threads"_a, "activation"_a = "none", "gated"_a = false,
          "residual"_a = 0, "One product with what follows it; step::Product in csrc/step/cpu/products/product.h.");
}

}  // namespace

void register_cpu_ops(py::module_& m) {
  register_products(m);
  m.def("has_team", &step::has_team, "Whether kernels can use several threads: torch has loaded an OpenMP runtime.");
  m.def(
      "attend",
      [](u64 out, u64 qkv, bool bfloat16, u32 heads, u32 head_dim, u64 starts, u32 n_items, u32 threads, u64 positions,
         u64 rotary, u32 n_rotary, u32 window, u64 bias, u64 relative, u32 reach, u32 kv_heads, bool causal, u64 q_norm,
         u64 k_norm, float eps) {
        if (kv_heads && heads % kv_heads)
          throw py::value_error(std::to_string(heads) + " heads cannot share " + std::to_string(kv_heads));
        if (rotary) check_lengths(address<const i32>(starts), n_items, n_rotary);
        if (bias || relative) check_lengths(address<const i32>(starts), n_items, reach / 16 * 16);
        step::attend({address(qkv), address(out), address<const i32>(starts), address<const i32>(positions),
                      address<const float>(rotary), address<const float>(bias), address(relative), n_items, heads,
                      head_dim, reach, window, number(bfloat16), kv_heads, causal, address<const float>(q_norm),
                      address<const float>(k_norm), eps},
                     threads);
      },
      "out"_a, "qkv"_a, "bfloat16"_a, "heads"_a, "head_dim"_a, "starts"_a, "n_items"_a, "threads"_a, "positions"_a = 0,
      "rotary"_a = 0, "n_rotary"_a = 0, "window"_a = 0, "bias"_a = 0, "relative"_a = 0, "reach"_a = 0, "kv_heads"_a = 0,
      "causal"_a = false, "q_norm"_a = 0, "k_norm"_a = 0, "eps"_a = 0.0f, Release(),
      "Attention inside each item; step::Attention in csrc/step/cpu/cpu_ops.h.");
  m.def(
      "normalize",
      [](u64 out, u64 in, bool bfloat16, u32 n_rows, u64 weight, u64 bias, u32 width, float eps, u32 threads) {
        step::normalize({norm(weight, bias, width, eps), address(in), address(out), n_rows, number(bfloat16)}, threads);
      },
      "out"_a, "rows"_a, "bfloat16"_a, "n_rows"_a, "weight"_a, "bias"_a, "width"_a, "eps"_a, "threads"_a, Release(),
      "Layer normalisation of rows; step::Normalization in csrc/step/cpu/cpu_ops.h.");
  m.def(
      "embed",
      [](u64 out, bool bfloat16, u32 n_tokens, u64 ids, u64 positions, u64 types, u64 words, u32 n_words, u64 places,
         u32 n_places, u64 kinds, u32 n_kinds, u64 weight, u64 bias, u32 width, float eps, u32 threads) {
        check_indexes("token id", address<const i32>(ids), n_tokens, n_words);
        if (places) check_indexes("position", address<const i32>(positions), n_tokens, n_places);
        if (kinds) check_indexes("token type", address<const i32>(types), n_tokens, n_kinds);
        step::embed({norm(weight, bias, width, eps), address<const i32>(ids), address<const i32>(positions),
                     address<const i32>(types), address(words), address(places), address(kinds), address(out), n_tokens,
                     number(bfloat16)},
                    threads);
      },
      "out"_a, "bfloat16"_a, "n_tokens"_a, "ids"_a, "positions"_a, "types"_a, "words"_a, "n_words"_a, "places"_a,
      "n_places"_a, "kinds"_a, "n_kinds"_a, "weight"_a, "bias"_a, "width"_a, "eps"_a, "threads"_a, Release(),
      "The normalised sum of rows of tables; IndexError for an index beyond its table; step::Embedding in "
      "csrc/step/cpu/cpu_ops.h.");
  m.def(
      "means",
      [](u64 out, u64 rows, bool bfloat16, u32 width, u64 starts, u32 n_items, u32 threads) {
        step::means({address(rows), address<float>(out), address<const i32>(starts), n_items, width, number(bfloat16)},
                    threads);
      },
      "out"_a, "rows"_a, "bfloat16"_a, "width"_a, "starts"_a, "n_items"_a, "threads"_a, Release(),
      "The mean of each item's rows; step::ItemRows in csrc/step/cpu/cpu_ops.h.");
  m.def(
      "maxima",
      [](u64 out, u64 rows, bool bfloat16, u32 width, u64 starts, u32 n_items, u32 threads) {
        step::maxima({address(rows), address<float>(out), address<const i32>(starts), n_items, width, number(bfloat16)},
                     threads);
      },
      "out"_a, "rows"_a, "bfloat16"_a, "width"_a, "starts"_a, "n_items"_a, "threads"_a, Release(),
      "The largest number of each column of each item's rows; step::ItemRows in csrc/step/cpu/cpu_ops.h.");
  m.def(
      "project",
      [](u64 out, u64 rows, u32 n_rows, u64 weight, u64 bias, u32 inputs, u32 outputs, u32 threads) {
        step::project({address<const float>(rows), address<const float>(weight), address<const float>(bias),
                       address<float>(out), n_rows, inputs, outputs},
                      threads);
      },
      "out"_a, "rows"_a, "n_rows"_a, "weight"_a, "bias"_a, "inputs"_a, "outputs"_a, "threads"_a, Release(),
      "A product of rows with a weight in strips; step::Projection in csrc/step/cpu/cpu_ops.h.");
  m.def(
      "mean_bags",
      [](u64 out, u64 ids, u64 starts, u32 n_items, u64 table, const std::string& number, u32 width, u32 n_ids,
         u64 mapping, u64 weights, u32 skipped_id) {
        step::mean_bags({address(table), address<const i32>(mapping), address<const float>(weights),
                         address<const i32>(ids), address<const i32>(starts), address<float>(out), n_items, width,
                         n_ids, skipped_id, table_number(number)});
      },
      "out"_a, "ids"_a, "starts"_a, "n_items"_a, "table"_a, "number"_a, "width"_a, "n_ids"_a, "mapping"_a = 0,
      "weights"_a = 0, "skipped_id"_a = ~u32(0), Release(),
      "The weighted mean of the table's rows that each item's ids name; step::Bags in csrc/step/cpu/cpu_ops.h.");
}

void register_logit_options(py::module_& m) {
  m.attr("RULE_FORCED") = i32(step::kRuleForced);
  m.attr("RULE_FORBIDDEN") = i32(step::kRuleForbidden);
  m.attr("RULE_NOT_FIRST") = i32(step::kRuleNotFirst);
  m.attr("RULE_WORDS") = u32(step::kRuleWords);
  m.def(
      "any_logit_options",
      [](u64 starts, u64 kv_slots, u32 n_runs, u64 params) {
        return step::any_logit_options(address<const i32>(starts), address<const i32>(kv_slots), n_runs,
                                       address<const i32>(params));
      },
      "starts"_a, "kv_slots"_a, "n_runs"_a, "params"_a, "Whether a run has options of its own that change its logits.");
  m.def(
      "change_logits",
      [](u64 logits, u32 n_runs, u32 vocab, u64 starts, u64 kv_slots, u64 positions, u64 made, u64 params, u64 history,
         u32 history_len, u64 eos_ids, u32 n_eos, u64 rules, u64 rule_ids, u32 n_rules, u32 n_forced, u32 threads) {
        step::change_logits({.logits = address<float>(logits),
                             .starts = address<const i32>(starts),
                             .kv_slots = address<const i32>(kv_slots),
                             .positions = address<const i32>(positions),
                             .made = address<const i32>(made),
                             .params = address<const i32>(params),
                             .history = address<const i32>(history),
                             .eos_ids = address<const i32>(eos_ids),
                             .rules = {address<const i32>(rules), address<const i32>(rule_ids), n_rules, n_forced},
                             .n_runs = n_runs,
                             .vocab = vocab,
                             .history_len = history_len,
                             .n_eos = n_eos},
                            threads);
      },
      "logits"_a, "n_runs"_a, "vocab"_a, "starts"_a, "kv_slots"_a, "positions"_a, "made"_a, "params"_a, "history"_a,
      "history_len"_a, "eos_ids"_a, "n_eos"_a, "rules"_a, "rule_ids"_a, "n_rules"_a, "n_forced"_a, "threads"_a,
      Release(),
      "Changes float32 logits as the checkpoint's rules and each run's options say; step::LogitChanges in "
      "csrc/step/cpu/logit_options.h.");
}

void register_cpu_decode(py::module_& m) {
  register_rows(m);
  register_logit_options(m);
  m.def(
      "attend_slots",
      [](u64 out, u64 qkv, u64 cache, bool bfloat16, u32 heads, u32 kv_heads, u32 head_dim, u64 starts, u32 n_runs,
         u64 positions, u64 kv_slots, u32 n_slots, u32 max_len, float scale, u32 threads, u64 prefix, u32 prefix_len,
         u64 rotary, u64 q_norm, u64 k_norm, float eps, bool last_rows_only) {
        step::attend_slots({.qkv = address(qkv),
                            .out = address(out),
                            .cache = address(cache),
                            .prefix = address(prefix),
                            .starts = address<const i32>(starts),
                            .positions = address<const i32>(positions),
                            .kv_slots = address<const i32>(kv_slots),
                            .rotary = address<const float>(rotary),
                            .q_norm = address<const float>(q_norm),
                            .k_norm = address<const float>(k_norm),
                            .eps = eps,
                            .scale = scale,
                            .n_runs = n_runs,
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .head_dim = head_dim,
                            .n_slots = n_slots,
                            .max_len = max_len,
                            .prefix_len = prefix_len,
                            .last_rows_only = last_rows_only,
                            .number = number(bfloat16)},
                           threads);
      },
      "out"_a, "qkv"_a, "cache"_a, "bfloat16"_a, "heads"_a, "kv_heads"_a, "head_dim"_a, "starts"_a, "n_runs"_a,
      "positions"_a, "kv_slots"_a, "n_slots"_a, "max_len"_a, "scale"_a, "threads"_a, "prefix"_a = 0, "prefix_len"_a = 0,
      "rotary"_a = 0, "q_norm"_a = 0, "k_norm"_a = 0, "eps"_a = 0.0f, "last_rows_only"_a = false, Release(),
      "Attention over cache slots; step::SlotAttention in csrc/step/cpu/cpu_decode.h. n_slots counts the one "
      "for padding.");
  m.def(
      "admit",
      [](u64 params, u64 admitted, u32 n) { step::admit(address<i32>(params), address<const i32>(admitted), n); },
      "params"_a, "admitted"_a, "n_admitted"_a, Release(), "Copies sampling parameters to their cache slots' places.");
  m.def(
      "sample",
      [](u64 tokens, u64 logprobs, u64 finish, u64 last_token, u64 logits, bool bfloat16, u32 n_runs, u32 vocab,
         u64 starts, u64 kv_slots, u64 made, u64 params, u64 eos_ids, u32 n_eos, u32 threads) {
        step::sample({.logits = address(logits),
                      .starts = address<const i32>(starts),
                      .kv_slots = address<const i32>(kv_slots),
                      .made = address<const i32>(made),
                      .params = address<const i32>(params),
                      .eos_ids = address<const i32>(eos_ids),
                      .tokens = address<i32>(tokens),
                      .logprobs = address<float>(logprobs),
                      .finish = address<i32>(finish),
                      .last_token = address<i32>(last_token),
                      .n_runs = n_runs,
                      .vocab = vocab,
                      .n_eos = n_eos,
                      .number = number(bfloat16)},
                     threads);
      },
      "tokens"_a, "logprobs"_a, "finish"_a, "last_token"_a, "logits"_a, "bfloat16"_a, "n_runs"_a, "vocab"_a, "starts"_a,
      "kv_slots"_a, "made"_a, "params"_a, "eos_ids"_a, "n_eos"_a, "threads"_a, Release(),
      "Draws one token for each run; step::Draw in csrc/step/cpu/cpu_decode.h.");
}

}  // namespace fastqps::bind
