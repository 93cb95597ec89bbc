// How a model with a vector for each token takes its inputs: a query otherwise than a document.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "core/layout.h"

namespace fastqps::service {

struct InputRole {
  std::string name;  // the prompt_name that means it; empty: of all others
  u32 tokens_max = 0;
  u32 expanded_to = 0;  // tokens of a shorter input, filled up by expansion_id; 0: none are added
  u32 expansion_id = 0;
  std::vector<u32> skipped;  // ids of tokens that get no vector, ascending
  std::string refusal;       // why such an input is refused; empty: it is not

  // Expands and marks the n ids of an input. There must be room for expanded_to ids. Returns their new number.
  u32 finish(u32* ids, u32 n) const {
    for (; n < expanded_to; n++) ids[n] = expansion_id;
    if (skipped.empty()) return n;
    for (u32 i = 0; i < n; i++)
      if (std::binary_search(skipped.begin(), skipped.end(), ids[i])) ids[i] |= kNoOwnAnswer;
    return n;
  }
};

// The place of the role that a prompt_name means.
inline u8 role_of(const std::vector<InputRole>& roles, std::string_view prompt_name) {
  for (size_t i = 1; i < roles.size(); i++)
    if (roles[i].name == prompt_name) return u8(i);
  return 0;
}

}  // namespace fastqps::service
