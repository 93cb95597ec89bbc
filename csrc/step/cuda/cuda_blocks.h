// A step's two blocks, which are copied to a GPU and back, for encoders and decoders.
//
// The host writes a step into blocks of the lane's shape, whose sections have room for the largest step. A graph is
// captured for fewer tokens and items, and reads its sections at the offsets of its own shape. pack() moves the used
// part of each section to these offsets, so that one copy transfers little more than the step. unpack() moves the
// results to the offsets that the host reads.
//
//   lane    header | tokens ............ | tokens ............ | items ...... |
//   graph   header | tokens . | tokens . | items
#pragma once
#include <cstring>
#include <variant>

#include "step/encode/encode_layout.h"
#include "step/step_size.h"

namespace fastqps {

struct GraphShape {
  u32 max_tokens, max_items;  // the graph's capacity
};

struct CopyWords {
  u32 up, down;
};

inline void move_words(i32* to, const i32* from, size_t words) { std::memmove(to, from, words * sizeof(i32)); }

struct EncodeBlocks {
  EncodeLayout layout;  // of the host's blocks
  bool token_types;     // the model reads them

  u32 words() const { return layout.words; }
  u32 out_words() const { return layout.out_words; }
  u32 device_words() const { return of({layout.max_tokens, layout.max_items}).device_words; }
  EncodeLayout of(GraphShape shape) const {
    return EncodeLayout(shape.max_tokens, shape.max_items, layout.width, token_types, layout.by_token);
  }
  bool holds(StepSize n) const { return n.items <= layout.max_items && n.tokens <= layout.max_tokens; }

  // Packs a step into `to`, a block of the graph's shape.
  CopyWords pack(const i32* from, i32* to, GraphShape shape, StepSize n) const {
    const EncodeLayout at = of(shape);
    to[kHeaderTokens] = i32(n.tokens), to[kHeaderItems] = i32(n.items), to[kHeaderNewItems] = i32(n.new_items);
    move_words(to + at.input_ids, from + layout.input_ids, n.tokens);
    if (token_types) move_words(to + at.token_type_ids, from + layout.token_type_ids, n.tokens);
    move_words(to + at.cu_seqlens, from + layout.cu_seqlens, n.items + 1);
    return {at.cu_seqlens + n.items + 1, kStampWords + layout.rows(n.tokens, n.items) * layout.width};
  }
  // Rows of answers are contiguous in every shape.
  void unpack(i32*, GraphShape, u32) const {}
};

struct DecodeBlocks {
  DecodeLayout layout;  // of the host's blocks

  u32 words() const { return layout.words; }
  u32 out_words() const { return layout.out_words; }
  u32 device_words() const { return layout.words; }
  bool holds(StepSize n) const {
    return n.items <= layout.max_runs && n.tokens <= layout.max_tokens && n.new_items <= n.items;
  }

  CopyWords pack(const i32* from, i32* to, GraphShape shape, StepSize n) const {
    const DecodeLayout at(shape.max_tokens, shape.max_items);
    move_words(to, from, kHeaderWords);  // it was written with the rows
    to[kHeaderT] = i32(shape.max_tokens), to[kHeaderS] = i32(shape.max_items);
    move_words(to + at.token_ids, from + layout.token_ids, n.tokens);
    move_words(to + at.positions, from + layout.positions, n.tokens);
    move_words(to + at.kv_slots, from + layout.kv_slots, n.tokens);
    move_words(to + at.starts, from + layout.starts, n.items + 1);
    move_words(to + at.made, from + layout.made, n.items);
    move_words(to + at.admitted, from + layout.admitted, n.new_items * kAdmittedWords);
    return {at.admitted + n.new_items * kAdmittedWords, kStampWords + at.out_finish + n.items};
  }
  // Works in place. Sections move up, last one first, so that each overwrites only its own words or unused ones.
  void unpack(i32* output, GraphShape shape, u32 runs) const {
    const DecodeLayout at(shape.max_tokens, shape.max_items);
    move_words(output + layout.out_finish, output + at.out_finish, runs);
    move_words(output + layout.out_logprobs, output + at.out_logprobs, runs);
  }
};

using StepBlocks = std::variant<EncodeBlocks, DecodeBlocks>;

}  // namespace fastqps
