// Continuous batching for Python: the same DecodeBatch that a dispatcher steps through, without shared memory.
#include <pybind11/stl.h>

#include <map>
#include <unordered_map>

#include "bind/bind.h"
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
              (masked ? kParamMasked : 0) | (biased ? kParamBiased : 0));
  return params;
}

// Sequences by names that the caller chooses.
class NamedBatch {
 public:
  NamedBatch(u32 slots, u32 prefix_len) : batch_(slots, prefix_len), names_(slots) {}

  u32 add(u64 staging, u64 output, u32 max_tokens, u32 max_runs, u64 biases) {
    batch_.use_biases(address<i32>(biases));
    steps_.emplace_back(reinterpret_cast<i32*>(staging), reinterpret_cast<const i32*>(output), max_tokens, max_runs);
    return u32(steps_.size() - 1);
  }
  void begin(u32 s) {
    if (batch_.going() > at(s).layout.max_tokens || batch_.going() > at(s).layout.max_runs)
      throw py::value_error("the step has no room for a row of every sequence");
    batch_.begin(at(s));
  }
  bool admit(u32 s, const std::vector<u32>& ids, u64 user, bool ignore_eos, bool logprobs, bool masked,
             const std::map<u32, float>& logit_bias, const py::KWArgs<py::object>& options) {
    if (ids.empty()) throw py::value_error("a prompt has at least one id");
    const Sampling sampling = sampling_of(options);
    if (!sampling.max_tokens) throw py::value_error("max_tokens must be at least 1");
    if (kv_.contains(user)) throw py::value_error("a sequence of this name runs");
    if (logit_bias.size() > kLogitBiasMax) throw py::value_error("at most 300 tokens with a bias");
    std::vector<TokenBias> biases;
    for (const auto& [id, bias] : logit_bias) biases.push_back({id, bias});
    const u32 kv =
        batch_.admit(at(s), ids.data(), u32(ids.size()), sampling, flags_of(ignore_eos, logprobs), masked, biases);
    if (kv == DecodeBatch::kNobody) return false;
    names_[kv] = user;
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
  std::vector<std::tuple<u64, u32, float, u32>> retire(u32 s) {
    std::vector<std::tuple<u64, u32, float, u32>> out;
    batch_.retire(at(s), [&](u32 kv, u32, Token token) {
      out.emplace_back(names_[kv], token.id, token.logprob, u32(token.finish));
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
  std::unordered_map<u64, u32> kv_;
};

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
  m.attr("IDS_MAX") = IdList::kMax;
  py::typing::Dict<py::str, u32> words;  // the first word of each option's value
  each_param([&](const auto& row, u32 word) { words[py::str(row.name())] = word; });
  m.attr_with_type_hint<decltype(words)>("PARAM_WORDS") = words;
  m.def("sequence_params", &sequence_params, "kv"_a, py::kw_only(), "ignore_eos"_a = false, "logprobs"_a = false,
        "masked"_a = false, "biased"_a = false,
        "The parameters of a sequence, as a step's `admitted` has them, with the options that DecodeBatch takes.");
  m.def(
      "release_masks", [](u64 state) { step::release_masks(address<i32>(state)); }, "state"_a,
      "The masks of a step are there; state: the address of its header's word HEADER_MASKS.");
  m.attr("HEADER_MASKS") = u32(kHeaderMasks);
  py::class_<DecodeLayout>(m, "DecodeLayout",
                           "Offsets, in 32-bit words, of the sections of a decoder step's two blocks; see "
                           "csrc/step/decode/decode_layout.h.")
      .def(py::init<u32, u32>(), "max_tokens"_a, "max_runs"_a)
      .def_readonly("token_ids", &DecodeLayout::token_ids)
      .def_readonly("positions", &DecodeLayout::positions)
      .def_readonly("kv_slots", &DecodeLayout::kv_slots)
      .def_readonly("starts", &DecodeLayout::starts)
      .def_readonly("made", &DecodeLayout::made)
      .def_readonly("admitted", &DecodeLayout::admitted)
      .def_readonly("words", &DecodeLayout::words)
      .def_readonly("out_tokens", &DecodeLayout::out_tokens)
      .def_readonly("out_logprobs", &DecodeLayout::out_logprobs)
      .def_readonly("out_finish", &DecodeLayout::out_finish)
      .def_readonly("out_words", &DecodeLayout::out_words);
  py::class_<NamedBatch>(
      m, "DecodeBatch",
      "Sequences that generate, and the packed steps made of them; see csrc/step/decode/decode_batch.h.")
      .def(py::init<u32, u32>(), "slots"_a, "prefix_len"_a = 0)
      .def("add", &NamedBatch::add, py::kw_only(), "staging"_a, "output"_a, "max_tokens"_a, "max_runs"_a,
           "biases"_a = 0, "Adds a step's blocks by their addresses; returns its index. biases: [slots, BIAS_WORDS].")
      .def("begin", &NamedBatch::begin, "step"_a, "Begins a step with one row for every sequence that goes on.")
      .def("admit", &NamedBatch::admit, "step"_a, "ids"_a, py::kw_only(), "user"_a, "ignore_eos"_a = false,
           "logprobs"_a = false, "masked"_a = false, "logit_bias"_a = std::map<u32, float>(),
           "Adds a prompt as a new sequence named `user`, with options of Sampling in csrc/contract/options.h. False: "
           "no "
           "room for it in this step.")
      .def("seal", &NamedBatch::seal, "step"_a, "Completes a step: (runs, rows, new sequences).")
      .def("masked", &NamedBatch::masked, "step"_a,
           "[(run, user)] of a sealed step: the runs whose tokens a mask allows.")
      .def("retire", &NamedBatch::retire, "step"_a,
           "The step has been computed: [(user, token, logprob, finish)] of all sequences that live; finish 0: it goes "
           "on, 1: stopped, 2: max_tokens.")
      .def("drop", &NamedBatch::drop, "user"_a, "Ends a sequence now; its tokens that are on their way are dropped.")
      .def_property_readonly("running", &NamedBatch::running);
}

}  // namespace fastqps::bind
