// The response bodies of text-embeddings-inference's HTTP API.
#pragma once
#include "predict/formats/answer_writer.h"

namespace fastqps::front {

// [[0.5, …], …]
class EmbedJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiFields; }
};

// [[{"index": 7, "value": 0.5}, …], …]
class EmbedSparseJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiFields; }
};

// [0.9, …]: the cosines of the first embedding with each of the others.
class SimilarityWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiFields; }
};

// [{"score", "label"}, …], or of a batch an array of those.
class PredictJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiFields; }
};

// [{"index", "text", "score"}, …]. Its context is a RankContext.
class RerankJsonWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiRankFields; }
};

}  // namespace fastqps::front
