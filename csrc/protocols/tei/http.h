// The API of text-embeddings-inference over HTTP.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "protocols/json/text_input.h"
#include "protocols/tei/scores.h"
#include "protocols/tei/text_request.h"
#include "service/formats/protocol.h"
#include "service/methods.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// {"error", "error_type"}
void write_tei_error(const transport::HttpError& error, transport::HttpErrorBody& body);

struct JsonOptions {
  TextOptions text;
  RequestView base;  // priority and timeout
  bool return_text = false;
};

// Reads the fields of a body, each by itself or as an option.
class TeiJsonReader : public service::RequestReader {
 public:
  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) final;

 protected:
  TeiJsonReader(service::ModelRoutes& routes, u32 items_max) : requests_(routes), items_max_(items_max) {}

  // Forgets the last request.
  virtual void clear() = 0;
  // Reads a field of this request alone. Nothing for any other name.
  virtual std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) = 0;
  // After all fields.
  virtual FieldError check(const transport::CallInfo& info, ReasonText& reason) = 0;
  FieldError read_text(const char* field, const JsonValue& value, std::string_view* text);
  // An array of at most `texts_max` strings.
  FieldError read_texts(const char* field, const JsonValue& value, u32 texts_max, std::vector<std::string_view>& texts,
                        ReasonText& reason);
  // Reads one of the options. TEI ignores fields that it does not know, so they are ignored here.
  FieldError read_option(std::string_view name, const JsonValue& value);

  TextRequests requests_;
  const u32 items_max_;
  JsonOptions options_;
  ReasonText item_reason_;

 private:
  JsonBody body_;
};

// POST /embed and /embed_sparse: {"inputs"}, an item for each.
class EmbedJsonReader final : public TeiJsonReader {
 public:
  // make: what turns a text into an item.
  using Make = FieldError (TextRequests::*)(const TextOptions&, RequestView&, ReasonText&);
  EmbedJsonReader(service::ModelRoutes& routes, u32 items_max, Make make = &TextRequests::embed)
      : TeiJsonReader(routes, items_max), make_(make), inputs_("inputs", items_max) {}

  u32 items() const override { return inputs_.items(); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override { inputs_.clear(); }
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override;
  FieldError check(const transport::CallInfo&, ReasonText&) override {
    return inputs_.given() ? FieldError{} : FieldError{"inputs", "must be given"};
  }

  const Make make_;
  TextInput inputs_;
};

// POST /similarity: {"inputs": {"source_sentence", "sentences"}, "parameters"}. The first item is the source.
class SimilarityReader final : public TeiJsonReader {
 public:
  SimilarityReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(1 + sentences_.size()); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override;
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override;
  FieldError check(const transport::CallInfo&, ReasonText& reason) override;

  bool given_ = false;
  std::string_view source_;
  std::vector<std::string_view> sentences_;
};

// POST /predict: {"inputs"}, a text, a pair, or an array of arrays with one or two texts.
class PredictJsonReader final : public TeiJsonReader {
 public:
  static constexpr char kOne = '1', kBatch = 'b';  // the context

  PredictJsonReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(sequences_.size()); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return {&form_, 1}; }

 private:
  // One or two texts.
  struct Sequence {
    std::string_view texts[2];
    u32 count;
  };
  void clear() override;
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override;
  FieldError check(const transport::CallInfo&, ReasonText&) override;
  FieldError read_inputs(const JsonValue& value, ReasonText& reason);
  FieldError read_sequence(const JsonArray& texts, ReasonText& reason);

  char form_ = kOne;
  std::vector<Sequence> sequences_;
};

// POST /rerank: {"query", "texts"}, an item for each text.
class RerankJsonReader final : public TeiJsonReader {
 public:
  RerankJsonReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(texts_.size()); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return context_; }

 private:
  void clear() override;
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override;
  FieldError check(const transport::CallInfo&, ReasonText& reason) override;

  std::optional<std::string_view> query_;
  bool texts_given_ = false;
  std::vector<std::string_view> texts_;
  std::string context_;
};

// [[0.5, …], …]
extern const service::AnswerWriter& kEmbedJsonWriter;
// [[{"index": 7, "value": 0.5}, …], …]
extern const service::AnswerWriter& kSparseJsonWriter;
// [0.9, …]: the cosines of the first embedding with each of the others.
extern const service::AnswerWriter& kSimilarityWriter;
// [{"score", "label"}, …], or of a batch an array of those.
extern const service::AnswerWriter& kPredictJsonWriter;
// [{"index", "text", "score"}, …]. Its context is a RankContext.
extern const service::AnswerWriter& kRerankJsonWriter;

// POST /embed_all, which no model here can answer.
class UnservedMethod final : public transport::Method {
 public:
  explicit UnservedMethod(const service::ItemsPath& path) : path_(path) {}

  transport::Took on_message(transport::CallId call, std::span<const u8>, const transport::CallInfo& info) override {
    constexpr auto kWhy = "not served here: POST /embed, or call Predict where the model makes a vector of each token";
    path_.attachment->finish(call, {.code = StatusCode::kFailedPrecondition, .message = kWhy});
    path_.counts.call(0, kTeiEmbed, StatusCode::kFailedPrecondition, info.receive_ns);
    return transport::Took::kAll;
  }

 private:
  const service::ItemsPath& path_;
};

// POST /: the method that fits the default model. Clients that know only a model's address call it.
class DefaultMethod final : public transport::Method {
 public:
  struct Choices {
    service::ItemsMethod &embed, &sparse, &similarity, &predict, &rerank;
  };
  DefaultMethod(service::ModelRoutes& routes, const Choices& choices) : routes_(routes), choices_(choices) {}

  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override {
    return choose(message, info.user).on_message(call, message, info);
  }
  transport::Gone on_gone(transport::CallId call, u64 user) override {
    return choices_.embed.on_gone(call, user);
  }  // all do the same

 private:
  service::ItemsMethod& choose(std::span<const u8> message, u64 user) {
    for (service::ItemsMethod* method :
         {&choices_.embed, &choices_.sparse, &choices_.similarity, &choices_.predict, &choices_.rerank})
      if (method->began(user)) return *method;
    const i32 route = routes_.find({});
    if (route >= 0 && routes_[u32(route)].task == Task::kEmbedSparse) return choices_.sparse;
    if (route < 0 || routes_[u32(route)].task != Task::kClassify)
      return asks_for_similarity(message) ? choices_.similarity : choices_.embed;
    return routes_[u32(route)].dimensions == 1 ? choices_.rerank : choices_.predict;
  }
  bool asks_for_similarity(std::span<const u8> message) {
    ReasonText reason;
    JsonObject request;
    JsonValue inputs;
    return !body_.parse(message, &request, reason) && !request["inputs"].get(inputs) && inputs.is_object();
  }

  service::ModelRoutes& routes_;
  const Choices choices_;
  JsonBody body_;
};

}  // namespace fastqps::protocols
