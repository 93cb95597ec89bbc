// The response messages of tei.v1.
#pragma once
#include "predict/formats/answer_writer.h"

namespace fastqps::front {

class EmbedWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiFields; }
};

class EmbedSparseWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiFields; }
};

class PredictWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiFields; }
};

// Its context is a RankContext.
class RerankWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kTeiRankFields; }
};

}  // namespace fastqps::front
