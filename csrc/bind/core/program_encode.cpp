// The operations of encoders in a program. Those that read a step's buffers do so from the piece's first token or item.
#include <stdexcept>
#include <string>

#include "bind/core/program.h"
#include "step/cpu/cpu_ops.h"
#include "step/cpu/head_ops.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {

using step::Count;
using step::Piece;
using step::Program;

namespace {

// IndexError where an item is longer than a table by the position or the distance of its tokens.
void check_lengths(const i32* starts, u32 n_items, u32 most) {
  for (u32 i = 0; i < n_items; i++)
    if (const i32 length = starts[i + 1] - starts[i]; length > i32(most))
      throw std::out_of_range("an item of " + std::to_string(length) + " tokens; its tables are for " +
                              std::to_string(most));
}

constexpr Names<step::Pick> kPicks[] = {
    {"cls", step::Pick::kFirst}, {"lasttoken", step::Pick::kLast}, {"tokens", step::Pick::kAll}};
constexpr Names<void (*)(const step::ItemRows&, u32 threads)> kPools[] = {{"mean", step::means}, {"max", step::maxima}};

// The same of keys and values in front of items: IndexError where a position is none of `n_rotary`, or an item has more
// of them than there are.
void check_openings(const step::Attention& job, u32 n_rotary) {
  for (u32 i = 0; i < job.n_items; i++) {
    const i32 before = job.positions[job.starts[i]], length = job.starts[i + 1] - job.starts[i];
    if (before < 0 || before > i32(job.n_opening) || (job.rotary && before + length > i32(n_rotary)))
      throw std::out_of_range("an item of " + std::to_string(length) + " tokens behind " + std::to_string(before) +
                              "; there are " + std::to_string(job.n_opening) + ", and its tables are for " +
                              std::to_string(n_rotary));
  }
}

// The address of a row of the step's buffers, moved on to the piece's.
template <class T>
T* from(T* rows, u64 first, u64 width = 1) {
  return rows ? rows + first * width : nullptr;
}

}  // namespace

void add_encoder_operations(ProgramClass& program) {
  program
      .def(
          "begin_at_zero",
          [](Program& self, u64 out, u64 starts, i64 n_items) {
            self.add(
                [out = address<i32>(out), starts = address<const i32>(starts), n = Count(n_items)](const Piece& piece) {
                  step::begin_at_zero(out, from(starts, piece.first_item), n.of(piece));
                });
          },
          "out"_a, "starts"_a, "n_items"_a, "The piece's starts, counted from its first token.")
      .def(
          "embed",
          [](Program& self, u64 out, bool bfloat16, i64 n_tokens, u64 ids, u64 positions, u64 types, u64 words,
             u32 n_words, u64 places, u32 n_places, u64 kinds, u32 n_kinds, u64 weight, u64 bias, u32 width,
             float eps) {
            const step::Norm norm{address<const float>(weight), address<const float>(bias), width, eps};
            const step::Embedding job{norm,
                                      address<const i32>(ids),
                                      address<const i32>(positions),
                                      address<const i32>(types),
                                      address(words),
                                      address(places),
                                      address(kinds),
                                      address(out),
                                      0,
                                      number(bfloat16)};
            self.add([=, n = Count(n_tokens)](const Piece& piece) {
              step::Embedding part = job;
              part.n_tokens = n.of(piece);
              part.ids = from(job.ids, piece.first_token);
              part.positions = from(job.positions, piece.first_token);
              part.types = from(job.types, piece.first_token);
              check_indexes("token id", part.ids, part.n_tokens, n_words);
              if (part.places) check_indexes("position", part.positions, part.n_tokens, n_places);
              if (part.kinds) check_indexes("token type", part.types, part.n_tokens, n_kinds);
              step::embed(part, piece.threads);
            });
          },
          "out"_a, "bfloat16"_a, "n_tokens"_a, "ids"_a, "positions"_a, "types"_a, "words"_a, "n_words"_a, "places"_a,
          "n_places"_a, "kinds"_a, "n_kinds"_a, "weight"_a, "bias"_a, "width"_a, "eps"_a,
          "The normalised sum of rows of tables; IndexError for an index beyond its table; step::Embedding in "
          "csrc/step/cpu/cpu_ops.h.")
      .def(
          "attend",
          [](Program& self, u64 out, u64 qkv, bool bfloat16, u32 heads, u32 head_dim, u64 starts, i64 n_items,
             u64 positions, u64 rotary, u32 n_rotary, u32 window, u64 bias, u64 relative, u32 reach, u32 kv_heads,
             bool causal, u64 q_norm, u64 k_norm, float eps, u64 opening, u32 n_opening) {
            if (kv_heads && heads % kv_heads)
              throw py::value_error(std::to_string(heads) + " heads cannot share " + std::to_string(kv_heads));
            const step::Attention job{address(qkv),
                                      address(out),
                                      address<const i32>(starts),
                                      address<const i32>(positions),
                                      address<const float>(rotary),
                                      address<const float>(bias),
                                      address(relative),
                                      0,
                                      heads,
                                      head_dim,
                                      reach,
                                      window,
                                      number(bfloat16),
                                      kv_heads,
                                      causal,
                                      address<const float>(q_norm),
                                      address<const float>(k_norm),
                                      eps,
                                      address(opening),
                                      n_opening};
            self.add([=, n = Count(n_items)](const Piece& piece) {
              step::Attention part = job;
              part.n_items = n.of(piece);
              part.positions = from(job.positions, piece.first_token);
              if (part.opening)
                check_openings(part, n_rotary);
              else if (part.rotary)
                check_lengths(part.starts, part.n_items, n_rotary);
              if (part.bias || part.relative) check_lengths(part.starts, part.n_items, part.reach / 16 * 16);
              step::attend(part, piece.threads);
            });
          },
          "out"_a, "qkv"_a, "bfloat16"_a, "heads"_a, "head_dim"_a, "starts"_a, "n_items"_a, "positions"_a = 0,
          "rotary"_a = 0, "n_rotary"_a = 0, "window"_a = 0, "bias"_a = 0, "relative"_a = 0, "reach"_a = 0,
          "kv_heads"_a = 0, "causal"_a = false, "q_norm"_a = 0, "k_norm"_a = 0, "eps"_a = 0.0f, "opening"_a = 0,
          "n_opening"_a = 0, "Attention inside each item; step::Attention in csrc/step/cpu/cpu_ops.h.")
      .def(
          "pool",
          [](Program& self, u64 out, bool answer, u64 rows, bool bfloat16, u32 width, u64 starts, i64 n_items,
             const std::string& mode) {
            const step::ItemRows job{address(rows), address<float>(out), address<const i32>(starts), 0,
                                     width,         number(bfloat16)};
            const auto pooled = named("mode", kPools, mode);
            self.add([=, n = Count(n_items)](const Piece& piece) {
              step::ItemRows part = job;
              part.n_items = n.of(piece);
              if (answer) part.out = from(part.out, piece.first_item, width);
              pooled(part, piece.threads);
            });
          },
          "out"_a, "answer"_a, "rows"_a, "bfloat16"_a, "width"_a, "starts"_a, "n_items"_a, "mode"_a,
          "The mean of each item's rows, or the largest numbers; step::ItemRows in csrc/step/cpu/cpu_ops.h. answer: "
          "out "
          "is the step's, not the piece's.")
      .def(
          "pick_rows",
          [](Program& self, u64 out, bool answer, u64 rows, bool bfloat16, u32 width, u64 starts, i64 n_rows,
             const std::string& mode, u64 ids, i32 skipped, bool out_bfloat16) {
            const step::PickedRows job{.rows = address(rows),
                                       .out = address(out),
                                       .starts = address<const i32>(starts),
                                       .ids = address<const i32>(ids),
                                       .n_rows = 0,
                                       .width = width,
                                       .number = number(bfloat16),
                                       .out_number = number(out_bfloat16),
                                       .pick = named("mode", kPicks, mode),
                                       .skipped = skipped};
            self.add([=, n = Count(n_rows)](const Piece& piece) {
              step::PickedRows part = job;
              part.n_rows = n.of(piece);
              part.ids = from(job.ids, piece.first_token);
              if (answer) part.out = from((char*)job.out, n.first(piece), width * bytes_of(job.out_number));
              step::pick_rows(part);
            });
          },
          "out"_a, "answer"_a, "rows"_a, "bfloat16"_a, "width"_a, "starts"_a, "n_rows"_a, "mode"_a, "ids"_a = 0,
          "skipped"_a = -1, "out_bfloat16"_a = false,
          "Each item's first row (mode cls) or last one (lasttoken), or all rows (tokens); step::PickedRows in "
          "csrc/step/cpu/head_ops.h. answer: as of pool.");
}

}  // namespace fastqps::bind
