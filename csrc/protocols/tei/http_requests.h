// The request bodies of text-embeddings-inference over HTTP.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "contract/context_head.h"
#include "protocols/json/text_input.h"
#include "protocols/tei/scores.h"
#include "protocols/tei/text_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// TEI cuts since 1.9, and Cohere's API does. TEI ignores fields that it does not know.
inline const JsonApi kTeiApi{JsonOptions::of_api(true, true)},
    kCohereApi{JsonOptions::of_api(true, false), JsonApi::Unknown::kRefusedInText};

// Reads bodies for models of texts.
class TeiJsonReader : public FieldsReader {
 public:
  // Reads what several requests in a body share: options that count where one has none itself. Without any: defaults().
  FieldError read_shared(const JsonObject& fields, JsonOptions& shared, ReasonText& reason) {
    options_ = defaults();
    const FieldError error = read_options(fields, reason);
    shared = options_;
    return error;
  }
  // Reads one of these requests: its fields, or its "inputs" alone.
  FieldError read_one(const JsonValue& request, const JsonOptions& shared, ReasonText& reason) {
    begin(shared);
    JsonObject fields;
    const FieldError error = request.get(fields) ? read_field("inputs", request, reason) : read_fields(fields, reason);
    return error ? error : check({}, reason);
  }

 protected:
  TeiJsonReader(service::ModelRoutes& routes, u32 items_max, const JsonApi& api = kTeiApi)
      : FieldsReader(api, items_max), requests_(routes) {}

  FieldRows api_fields() const override {
    static constexpr FieldRow kFields[] = {
        {"model", text_option<&TextOptions::model>},
        {"truncate", into<&TeiJsonReader::options_, &JsonOptions::text, &TextOptions::truncation, &Truncation::asked>},
        {"truncation_direction", by<&TeiJsonReader::read_direction<"must be Left or Right">>},
        {"normalize", text_option<&TextOptions::normalize>},
        {"raw_scores", text_option<&TextOptions::raw_scores>},
        {"return_text", into<&TeiJsonReader::options_, &JsonOptions::return_text>},
        {"dimensions", by<&TeiJsonReader::read_dimensions>},
        {"prompt_name", text_option<&TextOptions::prompt_name>},
    };
    return kFields;
  }
  template <FieldName reason>
  FieldError read_direction(const GivenField& field) {
    const auto place = find_word(field.text(), {"Right", "Left", "right", "left"});
    if (!place) return {field.name, reason.text};
    options_.text.direction = TruncationDirection(*place % 2);
    return {};
  }
  // Options that are in an object of their own.
  FieldError read_parameters(const GivenField& field) {
    JsonObject parameters;
    if (field.value.is_null()) return {};
    if (field.value.get(parameters)) return {field.name, "must be an object"};
    return read_options(parameters, field.reason);
  }

  TextRequests requests_;
  ReasonText item_reason_;

 private:
  // 0 is refused where the option counts.
  FieldError read_dimensions(const GivenField& field) {
    return {field.name, service::to_u32(field.option(), &options_.text.dimensions.emplace())};
  }
};

// POST /embed, /embed_sparse and /embed_all: {"inputs"}, an item for each.
class EmbedJsonReader : public TeiJsonReader {
 public:
  EmbedJsonReader(service::ModelRoutes& routes, u32 items_max, Task task = Task::kEmbed)
      : TeiJsonReader(routes, items_max), inputs_(items_max), task_(task) {}

  u32 items() const final { return inputs_.items(); }
  FieldError item(u32 index, RequestView& view) final {
    view = options_.base;
    inputs_.item(index, view);
    return requests_.one(task_, options_.text, view, item_reason_);
  }

 protected:
  // The first one has the inputs.
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {{"inputs", into<&EmbedJsonReader::inputs_>, kInput}};
    return kFields;
  }
  FieldError check(const transport::CallInfo&, ReasonText&) override {
    return inputs_.given() ? FieldError{} : FieldError{fields()[0].name.data(), "must be given"};
  }

  TextInput inputs_;

 private:
  void clear() final { inputs_.clear(); }

  const Task task_;
};

// POST /similarity: {"inputs": {"source_sentence", "sentences"}, "parameters"}. The first item is the source.
class SimilarityReader final : public TeiJsonReader {
 public:
  SimilarityReader(service::ModelRoutes& routes, u32 items_max)
      : TeiJsonReader(routes, items_max), sentences_(items_max - 1) {}

  u32 items() const override { return 1 + sentences_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    view.input = Input::kText;
    view.text = index ? sentences_.texts()[index - 1] : *source_;
    options_.text.normalize = false;  // the writer divides by the lengths
    options_.text.dimensions.reset();
    return requests_.one(Task::kEmbed, options_.text, view, item_reason_);
  }

 private:
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {{"inputs", by<&SimilarityReader::read_inputs>, kInput},
                                           {"parameters", by<&SimilarityReader::read_parameters>, kInput}};
    return kFields;
  }
  // Options are in the parameters alone.
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason) override {
    return name == "inputs" || name == "parameters" ? TeiJsonReader::read_field(name, value, reason) : FieldError{};
  }
  void clear() override {
    given_ = false;
    source_.reset();
    sentences_.clear();
  }
  FieldError read_inputs(const GivenField& field) {
    static constexpr FieldRow kParts[] = {{"inputs.source_sentence", into<&SimilarityReader::source_>},
                                          {"inputs.sentences", into<&SimilarityReader::sentences_>}};
    clear();
    given_ = true;
    return read_parts(field, kParts);
  }
  FieldError check(const transport::CallInfo&, ReasonText& reason) override {
    if (!given_) return {"inputs", "must be given"};
    if (!source_) return {"inputs.source_sentence", "must be given"};
    return sentences_.check("inputs.sentences", reason);
  }

  bool given_ = false;
  std::optional<std::string_view> source_;
  TextList sentences_;
};

// POST /predict: {"inputs"}, a text, a pair, or an array of arrays with one or two texts.
class PredictJsonReader final : public TeiJsonReader {
 public:
  static constexpr char kOne = '1', kBatch = 'b';  // the context

  PredictJsonReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(sequences_.size()); }
  FieldError item(u32 index, RequestView& view) override {
    const Sequence& sequence = sequences_[index];
    view = options_.base;
    return requests_.predict({sequence.texts, sequence.count}, options_.text, view, item_reason_);
  }
  std::string_view context() const override { return {&form_, 1}; }

 private:
  // One or two texts.
  struct Sequence {
    std::string_view texts[2];
    u32 count;
  };
  void clear() override {
    form_ = kOne;
    sequences_.clear();
  }
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {{"inputs", by<&PredictJsonReader::read_inputs>, kInput}};
    return kFields;
  }
  FieldError check(const transport::CallInfo&, ReasonText&) override {
    return sequences_.empty() ? FieldError{"inputs", "must be given"} : FieldError{};
  }
  FieldError read_inputs(const GivenField& field) {
    const auto& [_, value, reason] = field;
    constexpr const char* kForms = "must be a string, a pair of strings, or an array of arrays with one or two strings";
    clear();
    std::string_view text;
    if (!value.get(text)) return sequences_.push_back({{text, {}}, 1}), FieldError{};
    JsonArray values, each;
    if (value.get(values)) return {"inputs", kForms};
    if (values.begin() == values.end())
      return {"inputs", "an empty array, must have at least one element", FieldFault::kEmpty};
    if ((*values.begin()).is_string()) return read_sequence(values, reason);
    form_ = kBatch;
    for (const JsonValue& element : values) {
      if (sequences_.size() == items_max_)
        return {"inputs", reason.print("more than %u elements, which is the most", items_max_), FieldFault::kTooMany};
      if (element.get(each) && sequences_.empty()) return {"inputs", kForms};
      if (!element.is_array()) return {"inputs", reason.print("element %zu is no array of strings", sequences_.size())};
      if (const FieldError error = read_sequence(each, reason)) {
        const std::string why = error.reason;  // it may lie in `reason`
        return {"inputs", reason.print("element %zu: %s", sequences_.size() - 1, why.c_str())};
      }
    }
    return {};
  }
  FieldError read_sequence(const JsonArray& texts, ReasonText& reason) {
    Sequence& sequence = sequences_.emplace_back();
    sequence.count = 0;
    for (const JsonValue& text : texts) {
      if (sequence.count == 2) return {"inputs", reason.print("%zu texts, must be 1 or 2", texts.size())};
      if (text.get(sequence.texts[sequence.count++])) return {"inputs", "the elements of a pair must be strings"};
    }
    return {};
  }

  char form_ = kOne;
  std::vector<Sequence> sequences_;
};

// The beginning of the context of an answer with entities; a RankContext follows.
struct EntitiesHead {
  bool batch = false;   // the texts were an array
  bool grouped = true;  // neighbouring tokens are joined
};

// POST /entities: {"inputs", "parameters"}, an item for each text, as Hugging Face's API has them.
class EntitiesReader final : public TeiJsonReader {
 public:
  EntitiesReader(service::ModelRoutes& routes, u32 items_max)
      : TeiJsonReader(routes, items_max), texts_(items_max, TextList::Form::kOneOrArray) {}

  u32 items() const override { return texts_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    texts_.item(index, view);
    return requests_.one(Task::kClassifyTokens, options_.text, view, item_reason_);
  }
  std::string_view context() const override { return context_; }

 private:
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {{"inputs", into<&EntitiesReader::texts_>, kInput},
                                           {"parameters", by<&EntitiesReader::read_parameters>, kInput},
                                           {"aggregation_strategy", by<&EntitiesReader::read_aggregation>}};
    return kFields;
  }
  void clear() override { texts_.clear(); }
  FieldError read_aggregation(const GivenField& field) {
    return {field.name, service::to_aggregation(field.option(), &options_.base.output.aggregation)};
  }
  FieldError check(const transport::CallInfo&, ReasonText& reason) override {
    if (const FieldError error = texts_.check("inputs", reason)) return error;
    const EntitiesHead head{texts_.is_array(), options_.base.output.aggregation != i32(Aggregation::kNone)};
    context_ = bytes_of(head);
    RankContext::append(context_, true, texts_.texts());
    return {};
  }

  TextList texts_;
  std::string context_;
};

// Requests of a query and texts to rank, an item for each text.
class RankReader : public TeiJsonReader {
 public:
  u32 items() const final { return texts_.items(); }
  FieldError item(u32 index, RequestView& view) final {
    view = options_.base;
    return requests_.rerank(*query_, texts_.texts()[index], options_.text, view, item_reason_);
  }
  std::string_view context() const final { return context_; }

 protected:
  RankReader(service::ModelRoutes& routes, u32 items_max, TextList::Form form, const JsonApi& api)
      : TeiJsonReader(routes, items_max, api), texts_(items_max, form) {}
  void clear() override {
    query_.reset();
    texts_.clear();
  }
  // field: the name of the texts.
  FieldError check_texts(const char* field, ReasonText& reason) {
    if (!query_) return {"query", "must be given"};
    if (const FieldError error = texts_.check(field, reason)) return error;
    return requests_.check(kRanks, options_.text.model, reason);
  }

  std::optional<std::string_view> query_;
  TextList texts_;
  std::string context_;
};

// POST /rerank: {"query", "texts"}.
class RerankJsonReader final : public RankReader {
 public:
  RerankJsonReader(service::ModelRoutes& routes, u32 items_max)
      : RankReader(routes, items_max, TextList::Form::kArray, kTeiApi) {}

 private:
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {{"query", into<&RerankJsonReader::query_>, kInput},
                                           {"texts", into<&RerankJsonReader::texts_>, kInput}};
    return kFields;
  }
  FieldError check(const transport::CallInfo&, ReasonText& reason) override {
    if (const FieldError error = check_texts("texts", reason)) return error;
    context_.clear();
    RankContext::append(context_, options_.return_text, texts_.texts());
    return {};
  }
};

}  // namespace fastqps::protocols
