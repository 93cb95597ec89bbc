#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "bind/bind.h"
#include "step/buffers.h"
#include "step/decode/decode_stepper.h"
#include "step/encode/encode_stepper.h"

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
          [](Handle& self, double timeout_s) {
            i32 found;
            {
              py::gil_scoped_release nogil;
              found = self.stepper().gather(nanoseconds(timeout_s));
            }
            return found == kNothing ? std::nullopt : std::optional(found);
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
          "scatter",
          [](Handle& self, u32 s) {
            py::gil_scoped_release nogil;  // masks of the next step can be computed meanwhile
            return self.stepper().scatter(s);
          },
          "step"_a, "False: declared dead.")
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
  make_type<EncodeStepper>(m, "EncodeStepper", "The stepper of an encoder; see csrc/step/encode/encode_stepper.h.")
      .def(
          "add",
          [](EncodeHandle& self, u64 input_ids, u64 position_ids, u64 token_type_ids, u64 cu_seqlens, u64 output,
             u64 stamps, u32 max_items, u32 max_tokens, u32 width, u32 lane) {
            check_lane(lane);
            return self.own.add({address<i32>(input_ids), address<i32>(position_ids), address<i32>(token_type_ids),
                                 address<i32>(cu_seqlens), address<float>(output), address<const DeviceStamps>(stamps),
                                 max_items, max_tokens, width},
                                lane);
          },
          py::kw_only(), "input_ids"_a, "position_ids"_a, "token_type_ids"_a, "cu_seqlens"_a, "output"_a, "stamps"_a,
          "max_items"_a, "max_tokens"_a, "width"_a, "lane"_a = 0,
          "Adds a set of buffers to a lane, by their addresses; returns its step's number.");
  make_type<DecodeStepper>(m, "DecodeStepper", "The stepper of a decoder; see csrc/step/decode/decode_stepper.h.")
      .def(
          "add",
          [](DecodeHandle& self, u64 staging, u64 output, u64 stamps, u32 max_tokens, u32 max_runs, u32 lane,
             u64 biases) {
            check_lane(lane);
            if (max_tokens != self.own.max_tokens() || max_runs < self.own.max_running())
              throw py::value_error("the blocks do not hold the steps");
            return self.own.add(address<i32>(staging), address<const i32>(output), address<const DeviceStamps>(stamps),
                                lane, max_runs, address<i32>(biases));
          },
          py::kw_only(), "staging"_a, "output"_a, "stamps"_a, "max_tokens"_a, "max_runs"_a, "lane"_a = 0,
          "biases"_a = 0,
          "Adds the blocks of a step to a lane, of decode_layout(max_tokens, max_runs), by address, with the lane's "
          "biases [cache slots, BIAS_WORDS]; returns its number.")
      .def(
          "take_structured",
          [](DecodeHandle& self) {
            std::vector<std::tuple<u64, u32, py::bytes>> out;
            for (const auto& [ticket, structure] : self.own.take_structured())
              out.emplace_back(ticket, u8(structure[0]), py::bytes(structure.substr(1)));
            return out;
          },
          "[(ticket, number of the kind, text)] of the requests with a structure that were claimed since the last "
          "call; each waits for `compiled`.")
      .def(
          "on_structured",
          [](DecodeHandle& self, std::function<void()> look) { self.own.on_structured(std::move(look)); }, "look"_a,
          "gather() calls `look` when it has claimed requests with a structure. Those for which `look` calls "
          "compiled() "
          "join the same step.")
      .def(
          "compiled",
          [](DecodeHandle& self, u64 ticket, u16 code, std::string_view message) {
            self.own.compiled(ticket, StatusCode(code), message);
          },
          "ticket"_a, "code"_a = 0, "message"_a = "",
          "The request joins a step, or is answered with a StatusCode that is not OK.")
      .def(
          "fail",
          [](DecodeHandle& self, u64 ticket, u16 code, std::string_view message) {
            return self.own.fail(ticket, StatusCode(code), message);
          },
          "ticket"_a, "code"_a, "message"_a,
          "Ends a running sequence with an error, before its step is scattered. False: this process is fenced.")
      .def(
          "awaited", [](DecodeHandle& self, u64 ticket) { return self.own.awaited(ticket); }, "ticket"_a,
          "Whether the request waits for its structure, or for a step.")
      .def(
          "masked", [](DecodeHandle& self, u32 s) { return self.own.masked(s); }, "step"_a,
          "[(run, ticket)] of a gathered step: the runs whose tokens a mask allows.");
}

}  // namespace fastqps::bind
