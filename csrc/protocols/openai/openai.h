// OpenAI's API: embeddings and completions.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "protocols/json/purpose.h"
#include "protocols/json/text_input.h"
#include "service/formats/protocol.h"
#include "service/tables/routes.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// Reads a field that is not a request's own: the model, the user, and fastqps's options by name, among them priority
// ("low", "normal", "high") and timeout (seconds). An unknown field is an error.
// lists: what the view and the error refer to.
FieldError read_common_field(std::string_view name, const JsonValue& value, RequestView& view, OptionLists& lists);

FieldError unknown_field(std::string_view name, OptionLists& lists);

// Fields that SDKs and proxies send and that change nothing here, as a set of bits: the response names them.
class IgnoredFields {
 public:
  // Whether the field is one of them; it is noted unless it is null.
  bool take(std::string_view name, const JsonValue& value);
  void clear() { bits_ = 0; }
  // As a part of an answer's context.
  char letter() const { return char('@' + bits_); }
  // Names of a context's letter, with commas between them; they live for ever.
  static std::string_view names(char letter);

 private:
  u8 bits_ = 0;
};

// {"error": {"message", "type", "param", "code"}}
void write_openai_error(const transport::HttpError& error, transport::HttpErrorBody& body);

// POST /v1/embeddings.
class EmbeddingsReader final : public service::RequestReader {
 public:
  EmbeddingsReader(service::ModelRoutes& routes, u32 items_max) : routes_(routes), input_("input", items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) override {
    base_ = {};
    purpose_ = nullptr;
    context_[0] = 'f';
    ignored_.clear();
    input_.clear();
    const FieldError error = body_.each_field(message, reason, [&](std::string_view name, const JsonValue& value) {
      return read_field(name, value, reason);
    });
    context_[1] = ignored_.letter();
    if (error) return error;
    if (!input_.given()) return {"input", "must be given"};
    if (purpose_) choose_prompt();
    return {};
  }
  u32 items() const override { return input_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = base_;
    input_.item(index, view);
    return {};
  }
  Output wants() const override { return Output::kEmbedding; }
  std::string_view context() const override { return {context_, sizeof context_}; }

 private:
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
    if (name == "input") return input_.read(value, reason);
    if (name == "encoding_format") return read_format(value);
    if (name != "model") {
      if (ignored_.take(name, value)) return {};
      if (const auto error = read_other_api(name, value)) return *error;
    }
    const FieldError error = read_common_field(name, value, base_, lists_);
    return error || !base_.has_generate ? error : unknown_field(name, lists_);
  }
  FieldError read_format(const JsonValue& value) {
    const OptionValue format = option_value(value);
    if (format.text == "float" || value.is_null()) return context_[0] = 'f', FieldError{};
    if (format.text == "base64") return context_[0] = 'b', FieldError{};
    return {"encoding_format", "must be float or base64"};
  }
  // Fields of Jina's and Voyage's APIs. Nothing for any other name.
  std::optional<FieldError> read_other_api(std::string_view name, const JsonValue& value);
  // A prompt that the request names counts.
  void choose_prompt() {
    const i32 route = routes_.find(base_.model);
    if (route >= 0 && base_.prompt_name.empty())
      base_.prompt_name = prompt_for(*purpose_, routes_.setup(u32(route)).card);
  }

  service::ModelRoutes& routes_;
  JsonBody body_;
  TextInput input_;
  RequestView base_;
  OptionLists lists_;
  IgnoredFields ignored_;
  const Purpose* purpose_ = nullptr;  // none was given
  char context_[2] = {};              // 'f': vectors are arrays of numbers, 'b': base64; and a letter of IgnoredFields
};

// POST /v1/completions.
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
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason);
  FieldError read_stream_options(const JsonValue& value, ReasonText& reason);
  FieldError read_logprobs(const OptionValue& value, ReasonText& reason);
  char usage() const;

  JsonBody body_;
  TextInput prompt_;
  RequestView base_;
  OptionLists lists_;
  IgnoredFields ignored_;
  bool stream_ = false, usage_ = false, usage_so_far_ = false;
  std::string context_;
  u64 made_ = 0;  // requests so far, for their ids
};

extern const service::AnswerWriter &kEmbeddingsWriter, &kCompletionsWriter;

}  // namespace fastqps::protocols
