// The response bodies of text-embeddings-inference's HTTP API.
#pragma once
#include "predict/formats/answer_writer.h"
#include "tei/field_names.h"

namespace fastqps::front {

// [[0.5, …], …]
class EmbedJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return inputs_field(field); }
};

// [[{"index": 7, "value": 0.5}, …], …]
class EmbedSparseJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return inputs_field(field); }
};

// [0.9, …]: the cosines of the first embedding with each of the others.
class SimilarityWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return inputs_field(field); }
};

// [{"score", "label"}, …], or of a batch an array of those.
class PredictJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return inputs_field(field); }
};

// [{"index", "text", "score"}, …]. Its context is a RankContext.
class RerankJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return ranked_field(field, "texts"); }
};

}  // namespace fastqps::front
