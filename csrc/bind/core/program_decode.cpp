// The operations of decoders in a program.
#include "bind/core/program.h"
#include "step/cpu/cpu_decode.h"
#include "step/cpu/logit_options.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {

using step::Count;
using step::Piece;
using step::Program;

namespace {

void embed_tokens(Program& self, u64 out, bool bfloat16, i64 n_tokens, u64 ids, u64 kv_slots, u64 last_token, u64 table,
                  u32 n_rows, u32 width, u64 positions, u64 history, u32 history_len, u64 places, u32 n_places,
                  float scale) {
  const step::TokenEmbedding job{address<const i32>(ids),
                                 address<const i32>(kv_slots),
                                 address<const i32>(last_token),
                                 address(table),
                                 address(out),
                                 0,
                                 width,
                                 number(bfloat16),
                                 address<const i32>(positions),
                                 address<i32>(history),
                                 history_len,
                                 address(places),
                                 scale};
  self.add([=, n = Count(n_tokens)](const Piece& piece) {
    step::TokenEmbedding part = job;
    part.n_tokens = n.of(piece);
    check_indexes("token id", part.ids, part.n_tokens, n_rows, -1);
    if (part.places) check_indexes("position", part.positions, part.n_tokens, n_places);
    step::embed_tokens(part);
  });
}

void copy_slots(Program& self, u64 cache, bool bfloat16, u64 copies, u64 n_copies, u32 planes, u32 n_slots,
                u32 kv_heads, u32 max_len, u32 head_dim, u64 history, u32 history_len, u32 prefix_len) {
  const step::SlotCopies job{.there = address<const i32>(n_copies),
                             .words = address<const i32>(copies),
                             .cache = address(cache),
                             .planes = planes,
                             .n_slots = n_slots,
                             .kv_heads = kv_heads,
                             .max_len = max_len,
                             .head_dim = head_dim,
                             .number = number(bfloat16),
                             .history = address<i32>(history),
                             .history_len = history_len,
                             .prefix_len = prefix_len};
  self.add([=](const Piece& piece) { step::copy_slots(job, piece.threads); });
}

void attend_slots(Program& self, u64 out, u64 qkv, u64 cache, bool bfloat16, u32 heads, u32 kv_heads, u32 head_dim,
                  u64 starts, i64 n_runs, u64 positions, u64 kv_slots, u32 n_slots, u32 max_len, float scale,
                  u64 prefix, u32 prefix_len, u64 rotary, u64 q_norm, u64 k_norm, float eps, bool last_rows_only,
                  u32 window, float cap) {
  const step::SlotAttention job{.qkv = address(qkv),
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
                                .cap = cap,
                                .n_runs = 0,
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .head_dim = head_dim,
                                .n_slots = n_slots,
                                .max_len = max_len,
                                .prefix_len = prefix_len,
                                .window = window,
                                .last_rows_only = last_rows_only,
                                .number = number(bfloat16)};
  add_job(self, job, &step::SlotAttention::n_runs, n_runs, step::attend_slots);
}

void change_logits(Program& self, u64 out, u64 logits, bool bfloat16, i64 n_runs, u32 vocab, u64 starts, u64 kv_slots,
                   u64 positions, u64 made, u64 params, u64 biases, u64 history, u32 history_len, u64 eos_ids,
                   u32 n_eos, u64 rules, u64 rule_ids, u32 n_rules, u32 n_forced, u64 masks, u32 mask_words,
                   u64 masks_state, u64 targets, u64 targets_there) {
  const step::LogitChanges job{.logits = address(logits),
                               .out = address<float>(out),
                               .starts = address<const i32>(starts),
                               .kv_slots = address<const i32>(kv_slots),
                               .positions = address<const i32>(positions),
                               .made = address<const i32>(made),
                               .params = address<const i32>(params),
                               .biases = address<const i32>(biases),
                               .history = address<const i32>(history),
                               .eos_ids = address<const i32>(eos_ids),
                               .rules = {address<const i32>(rules), address<const i32>(rule_ids), n_rules, n_forced},
                               .n_runs = 0,
                               .vocab = vocab,
                               .history_len = history_len,
                               .n_eos = n_eos,
                               .number = number(bfloat16),
                               .masks = address<const u32>(masks),
                               .masks_state = address<const i32>(masks_state),
                               .mask_words = mask_words,
                               .targets = {address<const i32>(targets_there), address<const i32>(targets)}};
  add_job(self, job, &step::LogitChanges::n_runs, n_runs, step::change_logits);
}

void sample(Program& self, u64 tokens, u64 logprobs, u64 finish, u64 last_token, u64 logits, bool bfloat16, i64 n_runs,
            u32 vocab, u64 starts, u64 kv_slots, u64 made, u64 params, u64 eos_ids, u32 n_eos, u64 changed,
            bool all_changed, u64 top, u64 targets, u64 targets_there) {
  const step::Draw job{.logits = address(logits),
                       .starts = address<const i32>(starts),
                       .kv_slots = address<const i32>(kv_slots),
                       .made = address<const i32>(made),
                       .params = address<const i32>(params),
                       .eos_ids = address<const i32>(eos_ids),
                       .tokens = address<i32>(tokens),
                       .logprobs = address<float>(logprobs),
                       .finish = address<i32>(finish),
                       .last_token = address<i32>(last_token),
                       .n_runs = 0,
                       .vocab = vocab,
                       .n_eos = n_eos,
                       .number = number(bfloat16),
                       .changed = address<const float>(changed),
                       .all_changed = all_changed,
                       .top = address<i32>(top),
                       .targets = {address<const i32>(targets_there), address<const i32>(targets)}};
  add_job(self, job, &step::Draw::n_runs, n_runs, step::sample);
}

}  // namespace

void add_decoder_operations(ProgramClass& program) {
  program
      .def(
          "admit",
          [](Program& self, u64 params, u64 admitted, i64 n_admitted) {
            self.add([params = address<i32>(params), admitted = address<const i32>(admitted),
                      n = Count(n_admitted)](const Piece& piece) { step::admit(params, admitted, n.of(piece)); });
          },
          "params"_a, "admitted"_a, "n_admitted"_a, "Copies sampling parameters to their cache slots' places.")
      .def("copy_slots", &copy_slots, "cache"_a, "bfloat16"_a, "copies"_a, "n_copies"_a, "planes"_a, "n_slots"_a,
           "kv_heads"_a, "max_len"_a, "head_dim"_a, "history"_a, "history_len"_a, "prefix_len"_a,
           "Copies between cache slots, as many as the word at n_copies says; step::SlotCopies in "
           "csrc/step/cpu/cpu_decode.h.")
      .def("embed_tokens", &embed_tokens, "out"_a, "bfloat16"_a, "n_tokens"_a, "ids"_a, "kv_slots"_a, "last_token"_a,
           "table"_a, "n_rows"_a, "width"_a, "positions"_a = 0, "history"_a = 0, "history_len"_a = 0, "places"_a = 0,
           "n_places"_a = 0, "scale"_a = 1.0f,
           "Rows of tables by token id, -1 for the last token made, and by position; IndexError beyond a table; "
           "step::TokenEmbedding in csrc/step/cpu/cpu_decode.h.")
      .def("attend_slots", &attend_slots, "out"_a, "qkv"_a, "cache"_a, "bfloat16"_a, "heads"_a, "kv_heads"_a,
           "head_dim"_a, "starts"_a, "n_runs"_a, "positions"_a, "kv_slots"_a, "n_slots"_a, "max_len"_a, "scale"_a,
           "prefix"_a = 0, "prefix_len"_a = 0, "rotary"_a = 0, "q_norm"_a = 0, "k_norm"_a = 0, "eps"_a = 0.0f,
           "last_rows_only"_a = false, "window"_a = 0, "cap"_a = 0.0f,
           "Attention over cache slots; step::SlotAttention in csrc/step/cpu/cpu_decode.h. n_slots counts the one "
           "for padding.")
      .def("change_logits", &change_logits, "out"_a, "logits"_a, "bfloat16"_a, "n_runs"_a, "vocab"_a, "starts"_a,
           "kv_slots"_a, "positions"_a, "made"_a, "params"_a, "biases"_a, "history"_a, "history_len"_a, "eos_ids"_a,
           "n_eos"_a, "rules"_a, "rule_ids"_a, "n_rules"_a, "n_forced"_a, "masks"_a = 0, "mask_words"_a = 0,
           "masks_state"_a = 0, "targets"_a = 0, "targets_there"_a = 0,
           "Writes float32 logits as the checkpoint's rules and each run's options change them; step::LogitChanges in "
           "csrc/step/cpu/logit_options.h.")
      .def(
          "cap",
          [](Program& self, u64 x, bool bfloat16, i64 n_rows, u32 width, float cap) {
            add_job(self, step::Cap{address<void>(x), 0, width, cap, number(bfloat16)}, &step::Cap::n_rows, n_rows,
                    step::cap);
          },
          "x"_a, "bfloat16"_a, "n_rows"_a, "width"_a, "cap"_a, "x becomes cap * tanh(x / cap).")
      .def("sample", &sample, "tokens"_a, "logprobs"_a, "finish"_a, "last_token"_a, "logits"_a, "bfloat16"_a,
           "n_runs"_a, "vocab"_a, "starts"_a, "kv_slots"_a, "made"_a, "params"_a, "eos_ids"_a, "n_eos"_a,
           "changed"_a = 0, "all_changed"_a = false, "top"_a = 0, "targets"_a = 0, "targets_there"_a = 0,
           "Draws one token for each run; step::Draw in csrc/step/cpu/cpu_decode.h.");
}

}  // namespace fastqps::bind
