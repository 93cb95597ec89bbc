#include <pybind11/stl.h>

#include <algorithm>

#include "bind/arrays.h"
#include "bind/bind.h"
#include "step/decode_stepper.h"
#include "step/encode_stepper.h"
#include "step/table_index.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

// A stepper of either kind, as the dispatcher's loop sees it.
struct Handle {
  virtual ~Handle() = default;
  virtual Stepper& stepper() = 0;
};

// Keeps what the stepper refers to alive.
template <class S>
struct HandleOf final : Handle {
  WakeFds fds;
  S own;
  HandleOf(Segment segment, const WakeFds& wake, u32 me, u32 epoch, u32 route, BatchLimits limits)
      : fds(wake), own(segment, &fds, me, epoch, route, limits) {}
  Stepper& stepper() override { return own; }
};
using EncodeHandle = HandleOf<EncodeStepper>;
using DecodeHandle = HandleOf<DecodeStepper>;

template <class S>
std::unique_ptr<HandleOf<S>> open(const SegmentHandle& s, const WakeFds& fds, u32 me, u32 epoch, u32 route, u32 items,
                                  u32 tokens, u64 delay_ns) {
  if (me >= s.segment.sizes().dispatchers || route >= s.segment.sizes().routes()) throw py::index_error();
  if (std::is_same_v<S, DecodeStepper> && tokens < items + s.segment.route(route).max_input_tokens)
    throw py::value_error("a step must hold a row of every sequence and the longest prompt");
  return std::make_unique<HandleOf<S>>(s.segment, fds, me, epoch, route, BatchLimits{items, tokens, delay_ns});
}

// Both kinds are made with the same arguments.
template <class S>
py::class_<HandleOf<S>, Handle> make_type(py::module_& m, const char* name, const char* doc) {
  return py::class_<HandleOf<S>, Handle>(m, name, doc)
      .def(py::init(&open<S>), "segment"_a, "wake_fds"_a, "me"_a, py::kw_only(), "epoch"_a, "route"_a, "max_items"_a,
           "max_tokens"_a, "delay_ns"_a);
}

// (ids, how many of them belong to the first text) of each item of a step.
py::list items_of(const EncodeStepper& stepper, const EncodeStep& step) {
  py::list items;
  for (u32 i = 0; i < step.n_items; i++) {
    const u32 n = u32(step.buffers.cu_seqlens[i + 1] - step.buffers.cu_seqlens[i]);
    Slot& slot = stepper.slot(step.batch.claims[i]);
    const u32* ids = stepper.segment().ids(slot);
    items.append(py::make_tuple(std::vector<u32>(ids, ids + n), std::min(slot.first_len, n)));
  }
  return items;
}

// (cache slot, tokens made, first position, ids) of each run of a step.
py::list runs_of(const DecodeStep& step) {
  const DecodeLayout& at = step.layout;
  const i32* in = step.staging;
  py::list runs;
  for (u32 i = 0; i < step.runs.size(); i++) {
    const i32 first = in[at.starts + i], end = in[at.starts + i + 1];
    std::vector<i32> ids(in + at.token_ids + first, in + at.token_ids + end);
    runs.append(py::make_tuple(step.runs[i].kv, in[at.made + i], in[at.positions + u32(first)], std::move(ids)));
  }
  return runs;
}

// How the sequences that are new in a step are sampled.
py::list admitted_of(const DecodeStep& step) {
  py::list admitted;
  for (u32 i = 0; i < step.n_admitted; i++) {
    const i32* param = step.staging + step.layout.admitted + i * kAdmittedWords;
    const i32* stops = param + kParamStopIds;
    std::vector<i32> stop_ids(stops, std::find(stops, stops + kStopIdsMax, -1));
    const i32* never = param + kParamSuppressIds;
    std::vector<i32> suppress_ids(never, std::find(never, never + kSuppressIdsMax, -1));
    admitted.append(py::dict("kv_slot"_a = param[kParamSlot],
                             "seed"_a = u64(u32(param[kParamSeedHigh])) << 32 | u32(param[kParamSeedLow]),
                             "temperature"_a = std::bit_cast<float>(param[kParamTemperature]),
                             "top_p"_a = std::bit_cast<float>(param[kParamTopP]), "top_k"_a = param[kParamTopK],
                             "max_tokens"_a = param[kParamMaxTokens], "stop_ids"_a = std::move(stop_ids),
                             "ignore_eos"_a = bool(param[kParamFlags] & kParamIgnoreEos),
                             "logprobs"_a = bool(param[kParamFlags] & kParamLogprobs),
                             "repetition_penalty"_a = std::bit_cast<float>(param[kParamRepetitionPenalty]),
                             "no_repeat_ngram_size"_a = param[kParamNoRepeatNgramSize],
                             "min_tokens"_a = param[kParamMinTokens], "suppress_ids"_a = std::move(suppress_ids)));
  }
  return admitted;
}

u64 nanoseconds(double s) { return u64(std::clamp(s, 0.0, 1e6) * 1e9); }

void check_lane(u32 lane) {
  if (lane >= kLanesMax) throw py::value_error("lanes are numbered from 0 to 7");
}

void register_stepper(py::module_& m) {
  py::class_<Handle>(
      m, "Stepper",
      "A dispatcher's moves around its device, of any kind of steps; see csrc/step/stepper.h. One thread.")
      .def(
          "gather",
          [](Handle& self, double timeout_s) -> py::object {
            i32 found;
            {
              py::gil_scoped_release nogil;
              found = self.stepper().gather(nanoseconds(timeout_s));
            }
            return found == kNothing ? py::object(py::none()) : py::int_(found);
          },
          "timeout_s"_a,
          "The number of a step that holds items, as soon as there is one; None: not within the time, or a lane rang; "
          "below 0: declared dead, exit at once.")
      .def(
          "rest",
          [](Handle& self, double timeout_s) {
            py::gil_scoped_release nogil;
            self.stepper().rest(nanoseconds(timeout_s));
          },
          "timeout_s"_a, "Waits for a lane that rings this dispatcher's eventfd.")
      .def(
          "launch", [](Handle& self, u32 s) { return self.stepper().launch(s); }, "step"_a, "False: declared dead.")
      .def(
          "scatter", [](Handle& self, u32 s) { return self.stepper().scatter(s); }, "step"_a, "False: declared dead.")
      .def(
          "prepared", [](Handle& self, u32 s) { self.stepper().prepared(s); }, "step"_a,
          "The gathered step was prepared over again, until now.")
      .def(
          "shape",
          [](Handle& self, u32 s) {
            const StepSize n = self.stepper().size(s);
            return py::make_tuple(n.items, n.tokens, n.new_items);
          },
          "step"_a, "(items, tokens, new items) of a gathered step; of a decoder runs, rows and new sequences.")
      .def("set_ready", [](Handle& self) { self.stepper().set_ready(); })
      .def("leave", [](Handle& self) { self.stepper().leave(); });
}

}  // namespace

void register_step(py::module_& m) {
  m.def(
      "first_beyond", [](u64 indexes, u32 n, u32 rows) { return first_beyond(address<const i32>(indexes), n, rows); },
      "indexes"_a, "n"_a, "rows"_a,
      "Where the first of n int32 indexes, given by address, is negative or not below `rows`; n: there is none.");
  register_stepper(m);
  make_type<EncodeStepper>(m, "EncodeStepper", "The stepper of an encoder; see csrc/step/encode_stepper.h.")
      .def(
          "add",
          [](EncodeHandle& self, u64 input_ids, u64 position_ids, u64 token_type_ids, u64 cu_seqlens, u64 output,
             u64 stamps, u32 max_items, u32 max_tokens, u32 width, u32 lane) {
            check_lane(lane);
            return self.own.add({address<i32>(input_ids), address<i32>(position_ids), address<i32>(token_type_ids),
                                 address<i32>(cu_seqlens), address<const float>(output),
                                 address<const DeviceStamps>(stamps), max_items, max_tokens, width},
                                lane);
          },
          py::kw_only(), "input_ids"_a, "position_ids"_a, "token_type_ids"_a, "cu_seqlens"_a, "output"_a, "stamps"_a,
          "max_items"_a, "max_tokens"_a, "width"_a, "lane"_a = 0,
          "Adds a set of buffers to a lane, by their addresses; returns its step's number.")
      .def(
          "contents", [](const EncodeHandle& self, u32 s) { return items_of(self.own, self.own.step(s)); }, "step"_a,
          "What a gathered step is made of: [(ids, how many of them belong to the first text)].");
  make_type<DecodeStepper>(m, "DecodeStepper", "The stepper of a decoder; see csrc/step/decode_stepper.h.")
      .def(
          "add",
          [](DecodeHandle& self, u64 staging, u64 output, u64 stamps, u32 max_tokens, u32 max_runs, u32 lane) {
            check_lane(lane);
            if (max_tokens != self.own.max_tokens() || max_runs != self.own.max_running())
              throw py::value_error("the blocks are of another shape than the steps");
            return self.own.add(address<i32>(staging), address<const i32>(output), address<const DeviceStamps>(stamps),
                                lane);
          },
          py::kw_only(), "staging"_a, "output"_a, "stamps"_a, "max_tokens"_a, "max_runs"_a, "lane"_a = 0,
          "Adds the blocks of a step to a lane, of decode_layout(max_tokens, max_runs), by address; returns its "
          "number.")
      .def(
          "contents",
          [](const DecodeHandle& self, u32 s) {
            const DecodeStep& step = self.own.step(s);
            return py::make_tuple(runs_of(step), admitted_of(step));
          },
          "step"_a,
          "What a gathered step is made of: [(cache slot, tokens made, first position, ids)], and of each new sequence "
          "how it is sampled.");
}

}  // namespace fastqps::bind
