// Rerank answers. They have the fields of Cohere's, Jina's and vLLM's: each client reads its own.
#pragma once
#include "predict/formats/answer_writer.h"
#include "tei/field_names.h"

namespace fastqps::front {

// {"id", "model", "results": [{"index", "relevance_score", "document": {"text"}}, …], "usage", "meta"}
class DocumentsWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return ranked_field(field, "documents"); }
};

}  // namespace fastqps::front
