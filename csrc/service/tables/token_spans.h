// The places in their texts of the tokens that a token classifier works on, until its answer becomes entities.
#pragma once
#include <span>
#include <vector>

#include "text/tokenizer.h"

namespace fastqps::service {

class TokenSpans {
 public:
  explicit TokenSpans(u32 slots) : slots_(slots) {}

  // To be filled.
  std::vector<text::TokenSpan>& of(u32 slot) {
    if (spans_.empty()) spans_.resize(slots_);
    return spans_[slot];
  }
  std::span<const text::TokenSpan> operator[](u32 slot) const {
    return spans_.empty() ? std::span<const text::TokenSpan>() : spans_[slot];
  }
  // Keeps the memory of usual texts.
  void drop(u32 slot) {
    if (spans_.empty()) return;
    spans_[slot].clear();
    if (spans_[slot].capacity() > kKept) std::vector<text::TokenSpan>().swap(spans_[slot]);
  }

 private:
  static constexpr size_t kKept = 128;

  const u32 slots_;
  std::vector<std::vector<text::TokenSpan>> spans_;  // by slot; empty until a token classifier has a request
};

}  // namespace fastqps::service
