// The places in their texts of the tokens that a token classifier works on, until its answer becomes entities.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace fastqps::front {

class TokenSpans {
 public:
  explicit TokenSpans(u32 slots) : spans_(slots) {}

  void put(u32 slot, std::vector<text::TokenSpan> spans) { spans_[slot] = std::move(spans); }
  std::span<const text::TokenSpan> operator[](u32 slot) const { return spans_[slot]; }
  void drop(u32 slot) {
    if (!spans_[slot].empty()) std::vector<text::TokenSpan>().swap(spans_[slot]);
  }

 private:
  std::vector<std::vector<text::TokenSpan>> spans_;  // by slot
};

}  // namespace fastqps::front
