// vLLM's API of models that do not generate: /classify, /pooling and /score.
#pragma once
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "protocols/openai/openai.h"
#include "protocols/tei/http_requests.h"

namespace fastqps::protocols {

// The beginning of an answer's context. That of the answer itself follows, as it is written.
struct PoolingHead {
  u32 queries = 0;     // /score: so many items, the first ones, are queries; 0: each item is a pair
  char ignored = '@';  // a letter of IgnoredFields
  bool base64 = false;

  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  static PoolingHead of(std::string_view context) {
    PoolingHead head;
    std::memcpy(&head, context.data(), sizeof head);
    return head;
  }
  static std::string_view rest(std::string_view context) { return context.substr(sizeof(PoolingHead)); }
};

// vLLM refuses a text that is too long, unless a request has it cut.
inline const JsonOptions kVllmOptions = JsonOptions::of_api(false, false);

// What the requests have in common. The context is a PoolingHead.
class VllmReader : public TeiJsonReader {
 public:
  std::string_view context() const final { return context_; }

 protected:
  // name: with which the ids of answers begin.
  VllmReader(service::ModelRoutes& routes, u32 items_max, const char* name)
      : TeiJsonReader(routes, items_max, kVllmOptions), name_(name) {}

  void clear() override {
    head_ = {};
    ignored_.clear();
    activate_.reset();
    tokens_ = 0;
    id_ = {};
    options_.text.takes_empty = true;
  }
  // Reads a field of this request alone. Nothing for any other name.
  virtual std::optional<FieldError> read_input(std::string_view name, const JsonValue& value, ReasonText& reason) = 0;
  // Checks what depends on the model, and makes the context. After all fields.
  FieldError finish(i32 route, ReasonText& reason);

  PoolingHead head_;
  std::optional<bool> activate_;  // use_activation

 private:
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) final;
  FieldError read_truncation(const OptionValue& value);

  const char* const name_;
  IgnoredFields ignored_;
  u32 tokens_ = 0;       // truncate_prompt_tokens; 0: not given, or the model's own limit
  std::string_view id_;  // request_id
  OptionLists lists_;    // what an error refers to
  std::string context_;
  u64 made_ = 0;  // requests so far, for their ids
};

// A pooling task, and what turns an input into an item of it.
struct PoolingTask {
  std::string_view name;
  Task task;
  FieldError (TextRequests::*make)(const TextOptions&, RequestView&, ReasonText&);
};
inline constexpr PoolingTask kPoolingTasks[] = {{"embed", Task::kEmbed, &TextRequests::embed},
                                                {"token_embed", Task::kEmbedMulti, &TextRequests::embed_all},
                                                {"classify", Task::kClassify, &TextRequests::label}};

// POST /pooling, and POST /classify, whose task is given: {"input"}, an item for each.
class PoolingReader final : public VllmReader {
 public:
  PoolingReader(service::ModelRoutes& routes, u32 items_max, const PoolingTask* only = nullptr)
      : VllmReader(routes, items_max, only ? "classify" : "pool"),
        routes_(routes),
        only_(only),
        inputs_("input", items_max) {}

  u32 items() const override { return inputs_.items(); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override {
    VllmReader::clear();
    inputs_.clear();
    task_ = only_;
  }
  std::optional<FieldError> read_input(std::string_view name, const JsonValue& value, ReasonText& reason) override;
  FieldError check(const transport::CallInfo&, ReasonText& reason) override;
  FieldError read_task(std::string_view name);
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
  ScoreReader(service::ModelRoutes& routes, u32 items_max) : VllmReader(routes, items_max, "score") {}

  u32 items() const override { return u32(head_.queries + documents_.size()); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override {
    VllmReader::clear();
    queries_.clear();
    documents_.clear();
  }
  std::optional<FieldError> read_input(std::string_view name, const JsonValue& value, ReasonText& reason) override;
  FieldError check(const transport::CallInfo&, ReasonText& reason) override;

  std::vector<std::string_view> queries_, documents_;
};

// {"id", "object", "created", "model", "data", "usage"}. An element of the data is
// of /classify: {"index", "label", "probs", "num_classes"}
// of /pooling:  {"index", "object": "pooling", "data"}
// of /score:    {"index", "object": "score", "score"}
extern const service::AnswerWriter &kClassifyWriter, &kPoolingWriter, &kScoreWriter;

}  // namespace fastqps::protocols
