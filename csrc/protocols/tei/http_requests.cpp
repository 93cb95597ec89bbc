// The request bodies of text-embeddings-inference over HTTP.
#include "protocols/tei/http.h"

namespace fastqps::protocols {

namespace {

FieldError read_flag(const char* field, const OptionValue& value, bool& flag) {
  return {field, service::to_bool(value, &flag)};
}

FieldError read_direction(const OptionValue& value, TruncationDirection& direction) {
  if (value.text == "Right" || value.text == "right") return direction = TruncationDirection::kRight, FieldError{};
  if (value.text == "Left" || value.text == "left") return direction = TruncationDirection::kLeft, FieldError{};
  return {"truncation_direction", "must be Left or Right"};
}

}  // namespace

FieldError TeiJsonReader::read_option(std::string_view name, const JsonValue& element) {
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

FieldError TeiJsonReader::read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) {
  options_ = {};
  options_.text.truncation.by_api = true;  // as TEI since 1.9, and Cohere's API
  clear();
  const FieldError error = body_.each_field(message, reason, [&](std::string_view name, const JsonValue& value) {
    const std::optional<FieldError> own = read_own(name, value, reason);
    return own ? *own : read_option(name, value);
  });
  return error ? error : check(info, reason);
}

FieldError TeiJsonReader::read_text(const char* field, const JsonValue& value, std::string_view* text) {
  return value.get(*text) ? FieldError{field, "must be a string"} : FieldError{};
}

FieldError TeiJsonReader::read_texts(const char* field, const JsonValue& value, u32 texts_max,
                                     std::vector<std::string_view>& texts, ReasonText& reason) {
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

// ---- /embed, /embed_sparse

std::optional<FieldError> EmbedJsonReader::read_own(std::string_view name, const JsonValue& value, ReasonText& reason) {
  if (name == "inputs") return inputs_.read(value, reason);
  return {};
}

FieldError EmbedJsonReader::item(u32 index, RequestView& view) {
  view = options_.base;
  inputs_.item(index, view);
  return (requests_.*make_)(options_.text, view, item_reason_);
}

// ---- /similarity

void SimilarityReader::clear() {
  given_ = false;
  source_ = {};
  sentences_.clear();
}

std::optional<FieldError> SimilarityReader::read_own(std::string_view name, const JsonValue& value,
                                                     ReasonText& reason) {
  JsonObject fields;
  if (name == "parameters" && !value.is_null()) {
    if (value.get(fields)) return FieldError{"parameters", "must be an object"};
    for (const auto [option, each] : fields)
      if (const FieldError error = read_option(option, each)) return error;
  }
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

FieldError SimilarityReader::check(const transport::CallInfo&, ReasonText&) {
  if (!given_) return {"inputs", "must be given"};
  if (sentences_.empty()) return {"inputs.sentences", "0 texts, at least 1", FieldFault::kEmpty};
  return {};
}

FieldError SimilarityReader::item(u32 index, RequestView& view) {
  view = options_.base;
  view.input = Input::kText;
  view.text = index ? sentences_[index - 1] : source_;
  options_.text.normalize = false;  // the writer divides by the lengths
  options_.text.dimensions.reset();
  return requests_.embed(options_.text, view, item_reason_);
}

// ---- /predict

void PredictJsonReader::clear() {
  form_ = kOne;
  sequences_.clear();
}

std::optional<FieldError> PredictJsonReader::read_own(std::string_view name, const JsonValue& value,
                                                      ReasonText& reason) {
  if (name == "inputs") return read_inputs(value, reason);
  return {};
}

FieldError PredictJsonReader::read_inputs(const JsonValue& value, ReasonText& reason) {
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

FieldError PredictJsonReader::read_sequence(const JsonArray& texts, ReasonText& reason) {
  Sequence& sequence = sequences_.emplace_back();
  sequence.count = 0;
  for (const JsonValue& text : texts) {
    if (sequence.count == 2) return {"inputs", reason.print("%zu texts, must be 1 or 2", texts.size())};
    if (text.get(sequence.texts[sequence.count++])) return {"inputs", "the elements of a pair must be strings"};
  }
  return {};
}

FieldError PredictJsonReader::check(const transport::CallInfo&, ReasonText&) {
  return sequences_.empty() ? FieldError{"inputs", "must be given"} : FieldError{};
}

FieldError PredictJsonReader::item(u32 index, RequestView& view) {
  const Sequence& sequence = sequences_[index];
  view = options_.base;
  return requests_.predict({sequence.texts, sequence.count}, options_.text, view, item_reason_);
}

// ---- /rerank

void RerankJsonReader::clear() {
  query_.reset();
  texts_given_ = false;
  texts_.clear();
}

std::optional<FieldError> RerankJsonReader::read_own(std::string_view name, const JsonValue& value,
                                                     ReasonText& reason) {
  if (name == "query") return read_text("query", value, &query_.emplace());
  if (name == "texts") return texts_given_ = true, read_texts("texts", value, items_max_, texts_, reason);
  // Other servers rank documents at this path.
  if (name == "documents") return FieldError{"documents", "this route takes texts; POST /v1/rerank takes documents"};
  return {};
}

FieldError RerankJsonReader::check(const transport::CallInfo&, ReasonText& reason) {
  if (!query_) return {"query", "must be given"};
  if (!texts_given_) return {"texts", "must be given"};
  if (texts_.empty()) return {"texts", "0 texts, at least 1", FieldFault::kEmpty};
  if (const FieldError error = requests_.check_ranks(options_.text.model, reason)) return error;
  context_.clear();
  RankContext::append(context_, options_.return_text, texts_);
  return {};
}

FieldError RerankJsonReader::item(u32 index, RequestView& view) {
  view = options_.base;
  return requests_.rerank("texts", *query_, texts_[index], options_.text, view, item_reason_);
}

}  // namespace fastqps::protocols
