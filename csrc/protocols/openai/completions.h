// POST /v1/completions.
#pragma once
#include <string>

#include "protocols/json/text_input.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

class CompletionsReader final : public service::RequestReader {
 public:
  explicit CompletionsReader(u32 items_max) : prompt_("prompt", items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return prompt_.items(); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return context_; }
  // Ids of tokens have a place among the log-probabilities only.
  Output wants() const override { return base_.generate.logprobs ? Output::kGeneration : Output::kText; }
  bool streams() const override { return stream_; }

 private:
  FieldError read_field(std::string_view name, const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_stream_options(const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_logprobs(const service::OptionValue& value, ReasonText& reason);

  JsonBody body_;
  TextInput prompt_;
  RequestView base_;
  service::OptionLists lists_;
  bool stream_ = false, usage_ = false;
  std::string context_;
  u64 made_ = 0;  // requests so far, for their ids
};

class CompletionsWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  size_t chunk_room(const service::AnsweredCall& call, const ChunkView& chunk) const override;
  u8* write_chunk(const service::AnsweredCall& call, const ChunkView& chunk, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kCompletionsFields; }
};

}  // namespace fastqps::protocols
