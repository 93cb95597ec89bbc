// vLLM's API of models that do not generate: /classify, /pooling and /score.
#pragma once
#include <optional>
#include <string>

#include "protocols/openai/openai.h"
#include "protocols/tei/http_requests.h"

namespace fastqps::protocols {

// The beginning of an answer's context. That of the answer itself follows, as it is written.
struct PoolingHead {
  u32 queries = 0;     // /score: so many items, the first ones, are queries; 0: each item is a pair
  char ignored = '@';  // a letter of IgnoredFields
  bool base64 = false;
};

// vLLM refuses a text that is too long, unless a request has it cut.
inline const JsonApi kVllmApi{JsonOptions::of_api(false, false, true), JsonApi::Unknown::kRefused};

// What the requests have in common. The context is a PoolingHead.
class VllmReader : public TeiJsonReader {
 public:
  std::string_view context() const final { return context_; }

 protected:
  // name: with which the ids of answers begin.
  VllmReader(service::ModelRoutes& routes, u32 items_max, const char* name)
      : TeiJsonReader(routes, items_max, kVllmApi), name_(name) {}

  FieldRows api_fields() const final;
  void clear() override {
    head_ = {};
    activate_.reset();
    tokens_ = 0;
    id_ = {};
  }
  // Checks what depends on the model, and makes the context. After all fields.
  FieldError finish(i32 route, ReasonText& reason);

  PoolingHead head_;
  std::optional<bool> activate_;  // use_activation

 private:
  FieldError read_truncation(const GivenField& field);

  const char* const name_;
  u32 tokens_ = 0;       // truncate_prompt_tokens; 0: not given, or the model's own limit
  std::string_view id_;  // request_id
  std::string context_;
};

struct PoolingTask {
  std::string_view name;
  Task task;
};
inline constexpr PoolingTask kPoolingTasks[] = {
    {"embed", Task::kEmbed}, {"token_embed", Task::kEmbedMulti}, {"classify", Task::kClassify}};

// POST /pooling, and POST /classify, whose task is given: {"input"}, an item for each.
class PoolingReader final : public VllmReader {
 public:
  PoolingReader(service::ModelRoutes& routes, u32 items_max, const PoolingTask* only = nullptr)
      : VllmReader(routes, items_max, only ? "classify" : "pool"), routes_(routes), only_(only), inputs_(items_max) {}

  u32 items() const override { return inputs_.items(); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override {
    VllmReader::clear();
    inputs_.clear();
    task_ = only_;
  }
  FieldRows fields() const override;
  FieldError check(const transport::CallInfo&, ReasonText& reason) override;
  FieldError read_task(const GivenField& field);
  FieldError read_format(const GivenField& field) { return read_word(field, {"float", "base64"}, head_.base64); }
  // Finds the task of a request that names none.
  FieldError choose_task(ReasonText& reason);

  service::ModelRoutes& routes_;
  const PoolingTask* const only_;
  const PoolingTask* task_ = nullptr;  // of the request
  TextInput inputs_;
};

// POST /score and /v1/score: pairs of texts. A cross-encoder has an item for each pair. Of an embedding model each text
// is an item, and the writer compares them.
class ScoreReader final : public VllmReader {
 public:
  ScoreReader(service::ModelRoutes& routes, u32 items_max)
      : VllmReader(routes, items_max, "score"),
        queries_(items_max, TextList::Form::kOneOrArray),
        documents_(items_max, TextList::Form::kOneOrArray) {}

  u32 items() const override { return head_.queries + documents_.items(); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override {
    VllmReader::clear();
    queries_.clear();
    documents_.clear();
  }
  FieldRows fields() const override;
  FieldError check(const transport::CallInfo&, ReasonText& reason) override;

  TextList queries_, documents_;
};

// {"id", "object", "created", "model", "data", "usage"}. An element of the data is
// of /classify: {"index", "label", "probs", "num_classes"}
// of /pooling:  {"index", "object": "pooling", "data"}
// of /score:    {"index", "object": "score", "score"}
extern const service::AnswerWriter &kClassifyWriter, &kPoolingWriter, &kScoreWriter;

}  // namespace fastqps::protocols
