// POST /v1/completions.
#pragma once
#include <string>

#include "json/text_input.h"
#include "predict/formats/answer_writer.h"
#include "predict/formats/request_reader.h"

namespace fastqps::front {

class CompletionsReader final : public RequestReader {
 public:
  explicit CompletionsReader(u32 items_max) : prompt_("prompt", items_max) {}

  FieldError read(std::span<const u8> message, const CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return prompt_.items(); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return context_; }
  Output wants() const override { return Output::kGeneration; }
  bool streams() const override { return stream_; }

 private:
  FieldError read_field(std::string_view name, const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_stream_options(const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_logprobs(const OptionValue& value, ReasonText& reason);

  JsonBody body_;
  TextInput prompt_;
  RequestView base_;
  OptionLists lists_;
  bool stream_ = false, usage_ = false;
  std::string context_;
  u64 made_ = 0;  // requests so far, for their ids
};

class CompletionsWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  size_t chunk_room(const AnsweredCall& call, const ChunkView& chunk) const override;
  u8* write_chunk(const AnsweredCall& call, const ChunkView& chunk, u8* out) const override;
  std::string_view field_name(std::string_view field) const override;
};

}  // namespace fastqps::front
