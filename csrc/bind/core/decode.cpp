// Continuous batching for Python: the same DecodeBatch that a dispatcher steps through, without shared memory.
#include <pybind11/stl.h>

#include <map>
#include <unordered_map>

#include "bind/bind.h"
#include "core/choice_tree.h"
#include "step/cpu/logit_options.h"
#include "step/decode/decode_batch.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

void set(const py::handle& value, IdList& out) {
  for (const u32 id : value.cast<std::vector<u32>>()) out.add(id);
  if (out.count > IdList::kMax) throw py::value_error("at most 8 ids");
}
template <class T>
void set(const py::handle& value, T& out) {
  out = value.cast<T>();
}

// The options of Sampling by their names; those that are missing have their defaults.
Sampling sampling_of(const py::kwargs& options) {
  Sampling sampling;
  for (const auto& [name, value] : options)
    if (!any_option(kSamplingOptions, [&name = name, &value = value, &sampling](const auto& row) {
          return row.name() == name.template cast<std::string_view>() && (set(value, sampling.*row.member), true);
        }))
      throw py::type_error("no option " + name.cast<std::string>());
  return sampling;
}

u8 flags_of(bool ignore_eos, bool logprobs) { return u8((ignore_eos ? kIgnoreEos : 0) | (logprobs ? kLogprobs : 0)); }

std::vector<i32> sequence_params(u32 kv, bool ignore_eos, bool logprobs, bool masked, bool biased,
                                 const py::KWArgs<py::object>& options) {
  std::vector<i32> params(kAdmittedWords);
  fill_params(params.data(), kv, sampling_of(options), flags_of(ignore_eos, logprobs), 0,
              (masked ? u32(kParamMasked) : 0) | (biased ? u32(kParamBiased) : 0));
  return params;
}

// Sequences by names that the caller chooses.
class NamedBatch {
 public:
  NamedBatch(u32 slots, u32 prefix_len) : batch_(slots, prefix_len), names_(slots), tops_(slots) {}

  u32 add(u64 staging, u64 output, u32 max_tokens, u32 max_runs, u64 biases) {
    batch_.use_biases(address<i32>(biases));
    steps_.emplace_back(reinterpret_cast<i32*>(staging), reinterpret_cast<const i32*>(output), max_tokens, max_runs);
    return u32(steps_.size() - 1);
  }
  void begin(u32 s) {
    const DecodeLayout& room = at(s).layout;
    if (batch_.going() > room.max_tokens || batch_.going() > room.max_runs)
      throw py::value_error("the step has no room for a row of every sequence");
    batch_.plan(std::min((batch_.going() + room.max_runs + 1) / 2, room.max_tokens));  // as DecodeStepper
    batch_.begin(at(s));
  }
  bool admit(u32 s, const std::vector<u32>& ids, u64 user, bool ignore_eos, bool logprobs, bool masked,
             bool prompt_logprobs, const std::map<u32, float>& logit_bias, const std::vector<u32>& script,
             const py::KWArgs<py::object>& options) {
    if (ids.empty()) throw py::value_error("a prompt has at least one id");
    const Sampling sampling = sampling_of(options);
    if (!sampling.max_tokens) throw py::value_error("max_tokens must be at least 1");
    if (sampling.top_logprobs > kTopLogprobsMax)
      throw py::value_error("top_logprobs must be at most " + std::to_string(kTopLogprobsMax));
    if (kv_.contains(user)) throw py::value_error("a sequence of this name runs");
    if (logit_bias.size() > kLogitBiasMax)
      throw py::value_error("at most " + std::to_string(kLogitBiasMax) + " tokens with a bias");
    std::vector<TokenBias> biases;
    for (const auto& [id, bias] : logit_bias) biases.push_back({id, bias});
    auto rows = script.empty() ? std::optional(Script{}) : read_script(script, ~0u, ~0u);
    if (!rows) throw py::value_error("script: these words are none");
    const u8 flags = u8(flags_of(ignore_eos, logprobs) | (prompt_logprobs ? kPromptLogprobs : 0));
    const u32 kv = batch_.admit(at(s), ids.data(), u32(ids.size()), sampling, flags, masked, biases, std::move(*rows));
    if (kv == DecodeBatch::kNobody) return false;
    names_[kv] = user, tops_[kv] = sampling.top_logprobs;
    kv_[user] = kv;
    return true;
  }
  auto seal(u32 s) {
    batch_.seal(at(s));
    return py::make_tuple(at(s).runs.size(), at(s).n_tokens, at(s).n_admitted);
  }
  std::vector<std::pair<u32, u64>> masked(u32 s) {
    std::vector<std::pair<u32, u64>> out;
    for (const u32 run : at(s).masked) out.emplace_back(run, names_[at(s).runs[run].kv]);
    return out;
  }
  using Likeliest = std::vector<std::pair<u32, float>>;
  std::vector<std::tuple<u64, u32, float, u32, Likeliest>> retire(u32 s) {
    std::vector<std::tuple<u64, u32, float, u32, Likeliest>> out;
    batch_.retire(at(s), [&](u32 kv, u32, Token token) {
      Likeliest top;
      for (u32 i = 0; i < tops_[kv]; i++) top.emplace_back(token.top_ids[i], token.top_logprobs[i]);
      out.emplace_back(names_[kv], token.id, token.logprob, u32(token.finish), std::move(top));
      if (token.finish != Finish::kNot) kv_.erase(names_[kv]);
    });
    return out;
  }
  void drop(u64 user) {
    const auto found = kv_.find(user);
    if (found == kv_.end()) throw py::key_error("no sequence of this name runs");
    batch_.drop(found->second);
    kv_.erase(found);
  }
  u32 running() const { return batch_.running(); }

 private:
  DecodeStep& at(u32 s) {
    if (s >= steps_.size()) throw py::index_error();
    return steps_[s];
  }
  DecodeBatch batch_;
  std::vector<DecodeStep> steps_;
  std::vector<u64> names_;  // by cache slot
  std::vector<u32> tops_;   // the same: how many likeliest tokens it asked for
  std::unordered_map<u64, u32> kv_;
};

// (number of the chosen one, its tokens, their log-probabilities, [(log-probability, share)] of all).
auto answer_of(const ChoiceTree& tree, const std::vector<float>& firsts, const std::vector<float>& all,
               float temperature, u64 seed) {
  if (firsts.size() != tree.rows() || all.size() != u64(tree.rows()) * tree.targets_max())
    throw py::value_error("a log-probability for each row, and for each of its targets");
  const TargetLogprobs found{firsts, all};
  const std::vector<double> sums = tree.sums(found);
  const std::vector<float> of = shares(sums);
  std::vector<std::pair<double, float>> scores;
  for (u32 i = 0; i < sums.size(); i++) scores.emplace_back(sums[i], of[i]);
  const u32 chosen = choose_text(sums, temperature, seed);
  return std::make_tuple(chosen, tree.tokens(chosen), tree.logprobs(chosen, found), std::move(scores));
}

}  // namespace

void register_decode(py::module_& m) {
  m.attr("HEADER_WORDS") = kHeaderWords;
  m.attr("ADMITTED_WORDS") = kAdmittedWords;
  m.attr("PARAM_SLOT") = kParamSlot;
  m.attr("PARAM_FLAGS") = kParamFlags;
  m.attr("PARAM_IGNORE_EOS") = u32(kParamIgnoreEos);
  m.attr("PARAM_LOGPROBS") = u32(kParamLogprobs);
  m.attr("PARAM_LOGIT_OPTIONS") = u32(kParamLogitOptions);
  m.attr("PARAM_MASKED") = u32(kParamMasked);
  m.attr("PARAM_BIASED") = u32(kParamBiased);
  m.attr("BIAS_WORDS") = kBiasWords;
  m.attr("LOGIT_BIAS_MAX") = kLogitBiasMax;
  m.attr("BIAS_MOST") = kBiasMost;
  m.attr("TOP_K_MAX") = kTopKMax;
  m.attr("CHOICE_TEXTS_MAX") = kChoiceTextsMax;
  m.attr("IDS_MAX") = IdList::kMax;
  m.attr("TOP_LOGPROBS_MAX") = kTopLogprobsMax;
  py::typing::Dict<py::str, u32> words;  // the first word of each option's value
  each_param([&](const auto& row, u32 word) { words[py::str(row.name())] = word; });
  m.attr_with_type_hint<decltype(words)>("PARAM_WORDS") = words;
  m.def("sequence_params", &sequence_params, "kv"_a, py::kw_only(), "ignore_eos"_a = false, "logprobs"_a = false,
        "masked"_a = false, "biased"_a = false,
        "The parameters of a sequence, as a step's `admitted` has them, with the options that DecodeBatch takes.");
  m.def(
      "release_masks", [](u64 state) { step::release_masks(address<i32>(state)); }, "state"_a,
      "The masks of a step are there; state: the address of its header's word HEADER_MASKS.");
  m.def(
      "masks_ready", [](u64 state) { return step::masks_ready(address<const i32>(state)); }, "state"_a,
      "Whether the masks of a step are there, or it has none; state as release_masks().");
  m.def(
      "await_masks", [](u64 state) { step::await_masks(address<const i32>(state)); }, "state"_a,
      py::call_guard<py::gil_scoped_release>(), "Returns when masks_ready() is true.");
  m.attr("HEADER_MASKS") = u32(kHeaderMasks);
  m.attr("HEADER_TARGETS") = u32(kHeaderTargets);
  m.attr("TARGET_WORDS") = kTargetWords;
  m.attr("HEADER_COPIES") = u32(kHeaderCopies);
  m.attr("COPY_WORDS") = kCopyWords;
  py::class_<DecodeLayout>(m, "DecodeLayout",
                           "Offsets, in 32-bit words, of the sections of a decoder step's two blocks; see "
                           "csrc/step/decode/decode_layout.h.")
      .def(py::init<u32, u32>(), "max_tokens"_a, "max_runs"_a)
      .def_readonly("max_runs", &DecodeLayout::max_runs)
      .def_readonly("token_ids", &DecodeLayout::token_ids)
      .def_readonly("positions", &DecodeLayout::positions)
      .def_readonly("kv_slots", &DecodeLayout::kv_slots)
      .def_readonly("starts", &DecodeLayout::starts)
      .def_readonly("made", &DecodeLayout::made)
      .def_readonly("admitted", &DecodeLayout::admitted)
      .def_readonly("targets", &DecodeLayout::targets)
      .def_readonly("copies", &DecodeLayout::copies)
      .def_readonly("words", &DecodeLayout::words)
      .def_readonly("out_tokens", &DecodeLayout::out_tokens)
      .def_readonly("out_logprobs", &DecodeLayout::out_logprobs)
      .def_readonly("out_finish", &DecodeLayout::out_finish)
      .def_readonly("out_top", &DecodeLayout::out_top)
      .def_readonly("out_words", &DecodeLayout::out_words);
  py::class_<ChoiceTree>(m, "ChoiceTree",
                         "Texts to choose from, as a tree of their tokens; see csrc/core/choice_tree.h.")
      .def(py::init([](const std::vector<std::vector<u32>>& choices) {
             if (choices.empty() ||
                 std::any_of(choices.begin(), choices.end(), [](const auto& ids) { return ids.empty(); }))
               throw py::value_error("choices: at least one token each");
             return ChoiceTree(choices);
           }),
           "choices"_a)
      .def_property_readonly("rows", &ChoiceTree::rows)
      .def_property_readonly("targets_max", &ChoiceTree::targets_max)
      .def("script", [](const ChoiceTree& tree) { return script_words(tree.script()); })
      .def("answer", &answer_of, "firsts"_a, "all"_a, "temperature"_a, "seed"_a,
           "From the log-probabilities of each row's first target, and of targets_max() for each row: (number of the "
           "chosen one, its tokens, their log-probabilities, [(log-probability, share)] of all).");
  py::class_<NamedBatch>(
      m, "DecodeBatch",
      "Sequences that generate, and the packed steps made of them; see csrc/step/decode/decode_batch.h.")
      .def(py::init<u32, u32>(), "slots"_a, "prefix_len"_a = 0)
      .def("add", &NamedBatch::add, py::kw_only(), "staging"_a, "output"_a, "max_tokens"_a, "max_runs"_a,
           "biases"_a = 0, "Adds a step's blocks by their addresses; returns its index. biases: [slots, BIAS_WORDS].")
      .def("begin", &NamedBatch::begin, "step"_a, "Begins a step with one row for every sequence that goes on.")
      .def("admit", &NamedBatch::admit, "step"_a, "ids"_a, py::kw_only(), "user"_a, "ignore_eos"_a = false,
           "logprobs"_a = false, "masked"_a = false, "prompt_logprobs"_a = false,
           "logit_bias"_a = std::map<u32, float>(), "script"_a = std::vector<u32>(),
           "Adds a prompt as a new sequence named `user`, with options of Sampling in csrc/contract/options.h. With "
           "prompt_logprobs each of its tokens but the first comes in front of the answer's. False: no room for it in "
           "this step.")
      .def("seal", &NamedBatch::seal, "step"_a, "Completes a step: (runs, rows, new sequences).")
      .def("masked", &NamedBatch::masked, "step"_a,
           "[(run, user)] of a sealed step: the runs whose tokens a mask allows.")
      .def("retire", &NamedBatch::retire, "step"_a,
           "The step has been computed: [(user, token, logprob, finish, likeliest)] of all sequences that live; finish "
           "0: it goes on, 1: stopped, 2: max_tokens; likeliest: [(token, logprob)] of top_logprobs.")
      .def("drop", &NamedBatch::drop, "user"_a, "Ends a sequence now; its tokens that are on their way are dropped.")
      .def_property_readonly("running", &NamedBatch::running);
}

}  // namespace fastqps::bind
