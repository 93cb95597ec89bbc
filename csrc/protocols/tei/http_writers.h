// The response bodies of text-embeddings-inference's HTTP API.
#pragma once
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// [[0.5, …], …]
class EmbedJsonWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiFields; }
};

// [[{"index": 7, "value": 0.5}, …], …]
class EmbedSparseJsonWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiFields; }
};

// [0.9, …]: the cosines of the first embedding with each of the others.
class SimilarityWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiFields; }
};

// [{"score", "label"}, …], or of a batch an array of those.
class PredictJsonWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiFields; }
};

// [{"index", "text", "score"}, …]. Its context is a RankContext.
class RerankJsonWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiRankFields; }
};

}  // namespace fastqps::protocols
