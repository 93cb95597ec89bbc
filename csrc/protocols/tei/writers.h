// The response messages of tei.v1.
#pragma once
#include "service/formats/protocol.h"

namespace fastqps::protocols {

class EmbedWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiFields; }
};

class EmbedSparseWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiFields; }
};

class PredictWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiFields; }
};

// Its context is a RankContext.
class RerankWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kTeiRankFields; }
};

}  // namespace fastqps::protocols
