// The embeddings of Ollama's API.
#pragma once
#include <string>
#include <string_view>

#include "protocols/tei/http_requests.h"

namespace fastqps::protocols {

// POST /api/embed: {"model", "input"}, a text or an array of texts. Fields that it does not know are ignored.
// POST /api/embeddings, its predecessor: {"model", "prompt"}, one text, whose embedding is as the model makes it.
class OllamaReader final : public EmbedJsonReader {
 public:
  OllamaReader(service::ModelRoutes& routes, u32 items_max) : EmbedJsonReader(routes, items_max), prompt_(false) {}
  explicit OllamaReader(service::ModelRoutes& routes) : EmbedJsonReader(routes, 1), prompt_(true) {}

 private:
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {{"input", into<&OllamaReader::inputs_>, kInput},
                                           {"prompt", into<&OllamaReader::inputs_>, kInput}};
    return FieldRows(kFields).subspan(prompt_, 1);
  }
  FieldError check(const transport::CallInfo& info, ReasonText& reason) override {
    constexpr std::string_view kTag = ":latest";  // which a name without a tag means, too
    std::string_view& model = options_.text.model;
    if (model.ends_with(kTag) && requests_.find({Task::kEmbed}, model) < 0) model.remove_suffix(kTag.size());
    options_.text.normalize = !prompt_;
    return EmbedJsonReader::check(info, reason);
  }

  const bool prompt_;
};

// {"model", "embeddings": [[…], …], "total_duration", "load_duration", "prompt_eval_count"}, and {"embedding": […]}
extern const service::AnswerWriter &kOllamaEmbedWriter, &kOllamaPromptWriter;

}  // namespace fastqps::protocols
