// The response messages of tei.v1.
#pragma once
#include "predict/formats/answer_writer.h"
#include "tei/field_names.h"

namespace fastqps::front {

class EmbedWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return inputs_field(field); }
};

class EmbedSparseWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return inputs_field(field); }
};

class PredictWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall&, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall&, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return inputs_field(field); }
};

// Its context is a RankContext.
class RerankWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override { return ranked_field(field, "texts"); }
};

}  // namespace fastqps::front
