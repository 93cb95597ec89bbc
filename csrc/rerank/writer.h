// Rerank answers. They have the fields of Cohere's, Jina's and vLLM's: each client reads its own.
#pragma once
#include "predict/formats/answer_writer.h"

namespace fastqps::front {

// {"id", "model", "results": [{"index", "relevance_score", "document": {"text"}}, …], "usage", "meta"}
class DocumentsWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kRerankFields; }
};

}  // namespace fastqps::front
