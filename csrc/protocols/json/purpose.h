// What a text is embedded for, in requests: Cohere's and Voyage's input_type, Jina's task.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "contract/card.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// A row has the names of one purpose: those that the APIs have for it, and those that models have for its prompt.
using Purpose = std::array<std::string_view, 4>;
inline constexpr Purpose kPurposes[] = {{"search_query", "query", "s2p_query", "retrieval.query"},
                                        {"search_document", "document", "passage", "retrieval.passage"},
                                        {"classification"},
                                        {"clustering", "separation"},
                                        {"text-matching"}};

// nullptr: there is none of this name.
inline const Purpose* find_purpose(std::string_view name) {
  if (name.empty()) return nullptr;
  const auto* found =
      std::ranges::find_if(kPurposes, [&](const Purpose& each) { return std::ranges::count(each, name); });
  return found == std::end(kPurposes) ? nullptr : found;
}

// The name of a model's prompt for a purpose, in any case. Without one, empty: its default prompt is meant.
inline std::string_view prompt_for(const Purpose& purpose, const ModelCard& card) {
  for (const std::string_view wanted : purpose)
    for (const auto& [name, _] : card.prompts)
      if (!wanted.empty() && transport::equal_ignoring_case(name, wanted)) return name;
  return {};
}

}  // namespace fastqps::protocols
