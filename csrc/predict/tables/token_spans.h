// The places in their texts of the tokens that a token classifier works on, until its answer becomes entities.
#pragma once
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace fastqps::front {

class TokenSpans {
 public:
  explicit TokenSpans(u32 slots) : spans_(slots) {}

  // To be filled.
  std::vector<text::TokenSpan>& of(u32 slot) { return spans_[slot]; }
  std::span<const text::TokenSpan> operator[](u32 slot) const { return spans_[slot]; }
  // Keeps the memory of usual texts.
  void drop(u32 slot) {
    spans_[slot].clear();
    if (spans_[slot].capacity() > kKept) std::vector<text::TokenSpan>().swap(spans_[slot]);
  }

 private:
  static constexpr size_t kKept = 128;

  std::vector<std::vector<text::TokenSpan>> spans_;  // by slot
};

}  // namespace fastqps::front
