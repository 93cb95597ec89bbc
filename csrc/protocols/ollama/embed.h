// The embeddings of Ollama's API.
#pragma once
#include <string>
#include <string_view>

#include "protocols/tei/http_requests.h"

namespace fastqps::protocols {

// POST /api/embed: {"model", "input"}, a text or an array of texts. Fields that it does not know are ignored.
class OllamaEmbedReader : public TeiJsonReader {
 public:
  OllamaEmbedReader(service::ModelRoutes& routes, u32 items_max)
      : OllamaEmbedReader(routes, items_max, "input", true) {}

  u32 items() const final { return input_.items(); }
  FieldError item(u32 index, RequestView& view) final {
    view = options_.base;
    input_.item(index, view);
    return requests_.embed(options_.text, view, item_reason_);
  }

 protected:
  // field: of the texts, a literal.
  OllamaEmbedReader(service::ModelRoutes& routes, u32 items_max, const char* field, bool normalize)
      : TeiJsonReader(routes, items_max), field_(field), normalize_(normalize), input_(field, items_max) {}

 private:
  void clear() final { input_.clear(); }
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) final {
    if (name == field_) return input_.read(value, reason);
    return {};
  }
  FieldError check(const transport::CallInfo&, ReasonText&) final {
    constexpr std::string_view kTag = ":latest";  // which a name without a tag means, too
    std::string_view& model = options_.text.model;
    if (model.ends_with(kTag) && requests_.find({Task::kEmbed}, model) < 0) model.remove_suffix(kTag.size());
    options_.text.normalize = normalize_;
    return input_.given() ? FieldError{} : FieldError{field_, "must be given"};
  }

  const char* const field_;
  const bool normalize_;
  TextInput input_;
};

// POST /api/embeddings, its predecessor: {"model", "prompt"}, one text, whose embedding is as the model makes it.
class OllamaPromptReader final : public OllamaEmbedReader {
 public:
  explicit OllamaPromptReader(service::ModelRoutes& routes) : OllamaEmbedReader(routes, 1, "prompt", false) {}
};

// {"model", "embeddings": [[…], …], "total_duration", "load_duration", "prompt_eval_count"}, and {"embedding": […]}
extern const service::AnswerWriter &kOllamaEmbedWriter, &kOllamaPromptWriter;

}  // namespace fastqps::protocols
