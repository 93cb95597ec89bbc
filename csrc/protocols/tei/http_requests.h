// The request bodies of text-embeddings-inference over HTTP.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "protocols/json/json_reader.h"
#include "protocols/json/text_input.h"
#include "protocols/tei/scores.h"
#include "protocols/tei/text_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

inline FieldError read_flag(const char* field, const OptionValue& value, bool& flag) {
  return {field, service::to_bool(value, &flag)};
}

inline FieldError read_direction(const OptionValue& value, TruncationDirection& direction) {
  if (value.text == "Right" || value.text == "right") return direction = TruncationDirection::kRight, FieldError{};
  if (value.text == "Left" || value.text == "left") return direction = TruncationDirection::kLeft, FieldError{};
  return {"truncation_direction", "must be Left or Right"};
}

struct JsonOptions {
  TextOptions text;
  RequestView base;  // priority and timeout
  bool return_text = false;

  // cuts: texts that are too long, where a request does not say. timings: they are in the answer's headers.
  static JsonOptions of_api(bool cuts, bool timings) {
    JsonOptions options;
    options.text.truncation.by_api = cuts;
    options.base.output.timings = timings;
    return options;
  }
};
// TEI cuts since 1.9, and Cohere's API does.
inline const JsonOptions kTeiOptions = JsonOptions::of_api(true, true),
                         kCohereOptions = JsonOptions::of_api(true, false);

// Reads the fields of a body, each by itself or as an option.
class TeiJsonReader : public JsonReader {
 public:
  FieldError read_body(const JsonObject& body, const transport::CallInfo& info, ReasonText& reason) final {
    begin(defaults_);
    for (const auto [name, value] : body)
      if (const FieldError error = read_field(name, value, reason)) return error;
    return check(info, reason);
  }
  // Reads what several requests in a body share: options that count where one has none itself. Without any: defaults().
  FieldError read_shared(const JsonObject& fields, JsonOptions& shared) {
    options_ = defaults_;
    for (const auto [name, value] : fields)
      if (const FieldError error = read_option(name, value)) return error;
    shared = options_;
    return {};
  }
  const JsonOptions& defaults() const { return defaults_; }
  // Reads one of these requests: its fields, or its "inputs" alone.
  FieldError read_one(const JsonValue& request, const JsonOptions& shared, ReasonText& reason) {
    begin(shared);
    JsonObject fields;
    if (request.get(fields)) {
      if (const FieldError error = read_field("inputs", request, reason)) return error;
    } else {
      for (const auto [name, value] : fields)
        if (const FieldError error = read_field(name, value, reason)) return error;
    }
    return check({}, reason);
  }

 protected:
  TeiJsonReader(service::ModelRoutes& routes, u32 items_max, const JsonOptions& defaults = kTeiOptions)
      : requests_(routes), items_max_(items_max), defaults_(defaults) {}

  // Forgets the last request.
  virtual void clear() = 0;
  // Reads a field of this request alone. Nothing for any other name.
  virtual std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) = 0;
  // After all fields.
  virtual FieldError check(const transport::CallInfo& info, ReasonText& reason) = 0;
  FieldError read_text(const char* field, const JsonValue& value, std::string_view* text) {
    return value.get(*text) ? FieldError{field, "must be a string"} : FieldError{};
  }
  // An array of at most `texts_max` strings.
  FieldError read_texts(const char* field, const JsonValue& value, u32 texts_max, std::vector<std::string_view>& texts,
                        ReasonText& reason) {
    constexpr const char* kForm = "must be an array of strings";
    texts.clear();
    JsonArray values;
    if (value.get(values)) return {field, kForm};
    for (const JsonValue& each : values) {
      if (texts.size() == texts_max)
        return {field, reason.print("more than %u texts, which is the most", texts_max), FieldFault::kTooMany};
      if (!each.is_string()) return {field, reason.print("element %zu is no string", texts.size())};
      texts.push_back(std::string_view(each));
    }
    return {};
  }
  // Calls read(name, value) for each of the options that are in an object of their own.
  template <class Read>
  FieldError each_parameter(const JsonValue& value, Read read) {
    JsonObject parameters;
    if (value.is_null()) return {};
    if (value.get(parameters)) return {"parameters", "must be an object"};
    for (const auto [name, each] : parameters)
      if (const FieldError error = read(name, each)) return error;
    return {};
  }
  // Reads one of the options to options_. TEI ignores fields that it does not know, so they are ignored here.
  virtual FieldError read_option(std::string_view name, const JsonValue& element) {
    if (element.is_null()) return {};  // clients send null for what is not set
    const OptionValue value = option_value(element);
    TextOptions& text = options_.text;
    if (name == "truncate") return read_flag("truncate", value, text.truncation.asked.emplace());
    if (name == "normalize") return read_flag("normalize", value, text.normalize.emplace());
    if (name == "raw_scores") return read_flag("raw_scores", value, text.raw_scores);
    if (name == "return_text") return read_flag("return_text", value, options_.return_text);
    if (name == "dimensions") return {"dimensions", service::to_u32(value, &text.dimensions.emplace())};
    if (name == "truncation_direction") return read_direction(value, text.direction);
    if (name == "model") return {"model", service::to_text(value, &text.model)};
    if (name == "prompt_name") return {"prompt_name", service::to_text(value, &text.prompt_name)};
    return set_call_option(name, value, options_.base).value_or(FieldError{});
  }

  TextRequests requests_;
  const u32 items_max_;
  JsonOptions options_;  // of the request
  ReasonText item_reason_;

 private:
  void begin(const JsonOptions& options) {
    options_ = options;
    clear();
  }
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
    const std::optional<FieldError> own = read_own(name, value, reason);
    return own ? *own : read_option(name, value);
  }

  const JsonOptions& defaults_;
};

// POST /embed, /embed_sparse and /embed_all: {"inputs"}, an item for each.
class EmbedJsonReader final : public TeiJsonReader {
 public:
  // make: what turns a text into an item.
  using Make = FieldError (TextRequests::*)(const TextOptions&, RequestView&, ReasonText&);
  EmbedJsonReader(service::ModelRoutes& routes, u32 items_max, Make make = &TextRequests::embed)
      : TeiJsonReader(routes, items_max), make_(make), inputs_("inputs", items_max) {}

  u32 items() const override { return inputs_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    inputs_.item(index, view);
    return (requests_.*make_)(options_.text, view, item_reason_);
  }

 private:
  void clear() override { inputs_.clear(); }
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override {
    if (name == "inputs") return inputs_.read(value, reason);
    return {};
  }
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
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    view.input = Input::kText;
    view.text = index ? sentences_[index - 1] : source_;
    options_.text.normalize = false;  // the writer divides by the lengths
    options_.text.dimensions.reset();
    return requests_.embed(options_.text, view, item_reason_);
  }

 private:
  void clear() override {
    given_ = false;
    source_ = {};
    sentences_.clear();
  }
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override {
    JsonObject fields;
    if (name == "parameters")
      return each_parameter(value, [&](auto option, const JsonValue& each) { return read_option(option, each); });
    if (name != "inputs") return FieldError{};
    clear();
    given_ = true;
    if (value.get(fields)) return FieldError{"inputs", "must be an object with source_sentence and sentences"};
    bool source_given = false, sentences_given = false;
    for (const auto [key, each] : fields) {
      if (key == "source_sentence") {
        source_given = true;
        if (const FieldError error = read_text("inputs.source_sentence", each, &source_)) return error;
      } else if (key == "sentences") {
        sentences_given = true;
        if (const FieldError error = read_texts("inputs.sentences", each, items_max_ - 1, sentences_, reason))
          return error;
      }
    }
    if (!source_given) return FieldError{"inputs.source_sentence", "must be given"};
    return sentences_given ? FieldError{} : FieldError{"inputs.sentences", "must be given"};
  }
  FieldError check(const transport::CallInfo&, ReasonText&) override {
    if (!given_) return {"inputs", "must be given"};
    if (sentences_.empty()) return {"inputs.sentences", "0 texts, at least 1", FieldFault::kEmpty};
    return {};
  }

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
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override {
    if (name == "inputs") return read_inputs(value, reason);
    return {};
  }
  FieldError check(const transport::CallInfo&, ReasonText&) override {
    return sequences_.empty() ? FieldError{"inputs", "must be given"} : FieldError{};
  }
  FieldError read_inputs(const JsonValue& value, ReasonText& reason) {
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

  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  static EntitiesHead of(std::string_view context) { return {bool(context[0]), bool(context[1])}; }
};

// POST /entities: {"inputs", "parameters"}, an item for each text, as Hugging Face's API has them.
class EntitiesReader final : public TeiJsonReader {
 public:
  EntitiesReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(texts_.size()); }
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    view.input = Input::kText;
    view.text = texts_[index];
    return requests_.entities(options_.text, view, item_reason_);
  }
  std::string_view context() const override { return context_; }

 private:
  void clear() override {
    given_ = false;
    head_ = {};
    texts_.clear();
  }
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override {
    if (name == "inputs") return read_inputs(value, reason);
    if (name != "parameters") return {};
    return each_parameter(value, [&](auto option, const JsonValue& each) { return read_option(option, each); });
  }
  FieldError read_option(std::string_view name, const JsonValue& value) override {
    return name == "aggregation_strategy" ? read_aggregation(value) : TeiJsonReader::read_option(name, value);
  }
  FieldError read_inputs(const JsonValue& value, ReasonText& reason) {
    given_ = true;
    if (head_.batch = !value.is_string(); head_.batch) return read_texts("inputs", value, items_max_, texts_, reason);
    texts_.assign(1, std::string_view(value));
    return {};
  }
  FieldError read_aggregation(const JsonValue& value) {
    if (value.is_null()) return {};
    return {"aggregation_strategy", service::to_aggregation(option_value(value), &options_.base.output.aggregation)};
  }
  FieldError check(const transport::CallInfo&, ReasonText&) override {
    if (!given_) return {"inputs", "must be given"};
    if (texts_.empty()) return {"inputs", "0 texts, at least 1", FieldFault::kEmpty};
    head_.grouped = options_.base.output.aggregation != i32(Aggregation::kNone);
    context_ = head_.bytes();
    RankContext::append(context_, true, texts_);
    return {};
  }

  bool given_ = false;
  EntitiesHead head_;
  std::vector<std::string_view> texts_;
  std::string context_;
};

// Requests of a query and texts to rank, an item for each text.
class RankReader : public TeiJsonReader {
 public:
  u32 items() const final { return u32(texts_.size()); }
  FieldError item(u32 index, RequestView& view) final {
    view = options_.base;
    return requests_.rerank(*query_, texts_[index], options_.text, view, item_reason_);
  }
  std::string_view context() const final { return context_; }

 protected:
  // field: the name of the texts, a literal.
  RankReader(service::ModelRoutes& routes, u32 items_max, const char* field, const JsonOptions& defaults = kTeiOptions)
      : TeiJsonReader(routes, items_max, defaults), field_(field) {}
  void clear() override {
    query_.reset();
    texts_given_ = false;
    texts_.clear();
  }
  FieldError check_texts(ReasonText& reason) {
    if (!query_) return {"query", "must be given"};
    if (!texts_given_) return {field_, "must be given"};
    if (texts_.empty()) return {field_, reason.print("0 %s, at least 1", field_), FieldFault::kEmpty};
    return requests_.check(kRanks, options_.text.model, reason);
  }

  const char* const field_;
  std::optional<std::string_view> query_;
  bool texts_given_ = false;
  std::vector<std::string_view> texts_;
  std::string context_;
};

// POST /rerank: {"query", "texts"}.
class RerankJsonReader final : public RankReader {
 public:
  RerankJsonReader(service::ModelRoutes& routes, u32 items_max) : RankReader(routes, items_max, "texts") {}

 private:
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override {
    if (name == "query") return read_text("query", value, &query_.emplace());
    if (name == "texts") return texts_given_ = true, read_texts("texts", value, items_max_, texts_, reason);
    return {};
  }
  FieldError check(const transport::CallInfo&, ReasonText& reason) override {
    if (const FieldError error = check_texts(reason)) return error;
    context_.clear();
    RankContext::append(context_, options_.return_text, texts_);
    return {};
  }
};

}  // namespace fastqps::protocols
