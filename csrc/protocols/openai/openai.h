// OpenAI's API: embeddings and completions.
#pragma once
#include <string>
#include <string_view>

#include "contract/best_of.h"
#include "contract/context_head.h"
#include "protocols/json/text_input.h"
#include "service/tables/routes.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// {"error": {"message", "type", "param", "code"}}
void write_openai_error(const transport::HttpError& error, transport::HttpErrorBody& body);

// The context of an answer with embeddings.
struct EmbeddingsHead {
  bool base64 = false;
  char ignored = '@';  // a letter of IgnoredFields
};

// POST /v1/embeddings.
class EmbeddingsReader final : public FieldsReader {
 public:
  EmbeddingsReader(service::ModelRoutes& routes, u32 items_max);

  u32 items() const override { return input_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    input_.item(index, view);
    return {};
  }
  Output wants() const override { return Output::kEmbedding; }
  std::string_view context() const override { return bytes_of(head_); }

 private:
  FieldRows fields() const override;
  void clear() override {
    head_ = {};
    purpose_ = nullptr;
    input_.clear();
  }
  FieldError check(const transport::CallInfo&, ReasonText&) override;
  FieldError read_format(const GivenField& field) { return read_word(field, {"float", "base64"}, head_.base64); }
  FieldError read_type(const GivenField& field);
  FieldError read_late_chunking(const GivenField& field);

  service::ModelRoutes& routes_;
  TextInput input_;
  EmbeddingsHead head_;
  const Purpose* purpose_ = nullptr;  // none was given
};

// The beginning of the context of an answer with completions; its id and its time follow as they are written.
struct CompletionsHead {
  // Which events of a stream have the usage. kSoFar: vLLM's continuous_usage_stats.
  enum class Usage : char { kNone = '-', kAtEnd = 'u', kSoFar = 'c' };
  enum class Form : char { kText = 't', kChat = 'm' };

  Usage usage = Usage::kNone;
  char ignored = '@';  // a letter of IgnoredFields
  Form form = Form::kText;
  BestOf choices = {};     // of each prompt
  bool echo = false;       // the text begins with the prompt
  i8 echo_top = kNoTop;    // likeliest tokens beside the prompt's own in an echo; kNoTop: no log-probabilities
  i8 prompt_top = kNoTop;  // the same of vLLM's prompt_logprobs

  static constexpr i8 kNoTop = -1;
};

// POST /v1/completions.
class CompletionsReader : public FieldsReader {
 public:
  explicit CompletionsReader(u32 items_max);

  // The candidates of a prompt stand side by side.
  u32 items() const final { return prompts() * candidates(); }
  u32 candidates() const final { return options_.base.generate.candidates(); }
  FieldError item(u32 index, RequestView& view) final {
    view = options_.base;
    prompt(index / candidates(), view);
    make_candidate(view, index % candidates());
    // In a stream the chunks of other choices may come first.
    if (echo_ && stream_ && options_.base.generate.scores_prompt()) view.generate.set_given(kPromptLogprobsField);
    return {};
  }
  std::string_view context() const override { return context_; }
  // Ids of tokens have a place among the log-probabilities only.
  Output wants() const override {
    const GenerateOptions& options = options_.base.generate;
    return options.logprobs || options.scores_prompt() ? Output::kGeneration : Output::kText;
  }
  bool streams() const override { return stream_; }

 protected:
  CompletionsReader(const JsonApi& api, u32 items_max)
      : FieldsReader(api, items_max), items_max_(items_max), prompt_(items_max) {}

  FieldRows fields() const override;
  void clear() override {
    stream_ = usage_ = usage_so_far_ = echo_ = false;
    prompt_top_.reset();
    biases_.clear();
    prompt_.clear();
  }
  FieldError check(const transport::CallInfo&, ReasonText& reason) override;
  // The last part of check(): it makes the context.
  FieldError finish(CompletionsHead::Form form, ReasonText& reason);
  virtual u32 prompts() const { return prompt_.items(); }
  virtual void prompt(u32 index, RequestView& view) const { prompt_.item(index, view); }

 private:
  FieldRows api_fields() const final;
  FieldError read_stream_options(const GivenField& field);
  FieldError read_structured_outputs(const GivenField& field);
  FieldError read_logprobs(const GivenField& field);
  FieldError read_prompt_logprobs(const GivenField& field);
  void ask_prompt(u32 top);
  FieldError read_logit_bias(const GivenField& field);

  const u32 items_max_;
  TextInput prompt_;
  std::vector<TokenBias> biases_;
  bool stream_ = false, usage_ = false, usage_so_far_ = false, echo_ = false;
  std::optional<u32> prompt_top_;  // of vLLM's prompt_logprobs
  std::string context_;
};

extern const service::AnswerWriter &kEmbeddingsWriter, &kCompletionsWriter;

}  // namespace fastqps::protocols
