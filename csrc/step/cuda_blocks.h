// What is copied of a step's two blocks, encoder's or decoder's: the staging block as far as it is filled, and of the
// output as much as the step makes, behind the stamps.
#pragma once
#include <variant>

#include "step/encode_layout.h"

namespace fastqps {

struct CopyWords {
  u32 up, down;
};

struct EncodeBlocks {
  EncodeLayout layout;
  bool token_types;  // the model reads them

  u32 words() const { return layout.words; }
  u32 out_words() const { return layout.out_words; }
  u32 items_max() const { return layout.max_items; }
  bool holds(u32 items, u32 tokens, u32) const { return items <= layout.max_items && tokens <= layout.max_tokens; }
  // Completes a packed step.
  CopyWords seal(i32* staging, u32 items, u32 tokens, u32 longest) const {
    staging[kHeaderTokens] = i32(tokens), staging[kHeaderItems] = i32(items), staging[kHeaderLongest] = i32(longest);
    return {(token_types ? layout.token_type_ids : layout.input_ids) + tokens, kStampWords + items * layout.width};
  }
};

struct DecodeBlocks {
  DecodeLayout layout;

  u32 words() const { return layout.words; }
  u32 out_words() const { return layout.out_words; }
  u32 items_max() const { return layout.max_runs; }
  bool holds(u32 runs, u32 tokens, u32 admitted) const {
    return runs <= layout.max_runs && tokens <= layout.max_tokens && admitted <= runs;
  }
  // The header was written with the rows.
  CopyWords seal(i32*, u32 runs, u32, u32 admitted) const {
    return {layout.admitted + admitted * kAdmittedWords, kStampWords + layout.out_finish + runs};
  }
};

using StepBlocks = std::variant<EncodeBlocks, DecodeBlocks>;

}  // namespace fastqps
