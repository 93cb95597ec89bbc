// The labels of tokens or words to entities, as transformers' pipeline for token classification makes them.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "contract/response_view.h"
#include "core/layout.h"
#include "text/tokenizer.h"

namespace fastqps::service {

class EntityMaker {
 public:
  // labels: one for each token, or for each word where the aggregation says so. spans: the tokens'. The views are valid
  // until the next call, and as long as `names` are. Returns false if the labels are not those of the tokens.
  bool make(Aggregation aggregation, std::span<const LabelScore> labels, std::span<const text::TokenSpan> spans,
            const std::vector<std::string>& names);
  std::span<const EntityView> entities() const { return entities_; }

 private:
  void add(std::string_view label, float score, text::TokenSpan span);
  void join(std::string_view label, float score, text::TokenSpan span);
  void close();

  // Neighbours of one kind that are joined.
  struct Group {
    std::string_view label, kind;
    float score = 0;  // sum
    u32 n = 0;
    text::TokenSpan span = {};
  };
  std::vector<EntityView> entities_;
  Group group_;
};

}  // namespace fastqps::service
