// POST /v1/embeddings.
#pragma once
#include "json/text_input.h"
#include "predict/formats/answer_writer.h"
#include "predict/formats/request_reader.h"

namespace fastqps::front {

class EmbeddingsReader final : public RequestReader {
 public:
  explicit EmbeddingsReader(u32 items_max) : input_("input", items_max) {}

  FieldError read(std::span<const u8> message, const CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return input_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = base_;
    input_.item(index, view);
    return {};
  }
  Output wants() const override { return Output::kEmbedding; }
  std::string_view context() const override { return {&format_, 1}; }

 private:
  FieldError read_field(std::string_view name, const simdjson::dom::element& value, ReasonText& reason);

  JsonBody body_;
  TextInput input_;
  RequestView base_;
  OptionLists lists_;
  char format_ = 'f';  // of the vectors: 'f': an array of numbers, 'b': base64 of float32
};

class EmbeddingsWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  std::string_view field_name(std::string_view field) const override;
};

}  // namespace fastqps::front
