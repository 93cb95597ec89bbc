// The embed API of Cohere.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "contract/quantize.h"
#include "protocols/json/purpose.h"
#include "protocols/rerank/rerank.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// The forms in which a request can have its embeddings, all of them at once. In the order of an answer.
struct EmbeddingForm {
  std::string_view name;
  DType dtype;
  bool base64 = false;
};
inline constexpr EmbeddingForm kEmbeddingForms[] = {{"float", DType::kFloat32},   {"int8", DType::kInt8},
                                                    {"uint8", DType::kUint8},     {"binary", DType::kBinary},
                                                    {"ubinary", DType::kUbinary}, {"base64", DType::kFloat32, true}};

// POST /v1/embed and /v2/embed: {"texts"}, an item for each. Its context is an AnswerHead and a RankContext of the
// texts.
class EmbedTextsReader final : public TeiJsonReader {
 public:
  EmbedTextsReader(service::ModelRoutes& routes, u32 items_max)
      : TeiJsonReader(routes, items_max, kCohereOptions), routes_(routes) {}

  u32 items() const override { return u32(texts_.size()); }
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    view.input = Input::kText;
    view.text = texts_[index];
    return requests_.embed(options_.text, view, item_reason_);
  }
  std::string_view context() const override { return context_; }

 private:
  void clear() override {
    given_ = false;
    texts_.clear();
    head_ = {};
    purpose_ = nullptr;
    tokens_ = 0;
  }
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& element, ReasonText& reason) override {
    if (name == "texts") return given_ = true, read_texts("texts", element, items_max_, texts_, reason);
    if (element.is_null()) return FieldError{};  // clients send null for what is not set
    const OptionValue value = option_value(element);
    if (name == "model") return read_text("model", element, &options_.text.model);
    if (name == "input_type") return read_input_type(value.text);
    if (name == "embedding_types") return read_forms(element);
    if (name == "truncate") return read_truncate(value.text);
    if (name == "output_dimension")
      return FieldError{"output_dimension", service::to_count(value, &options_.text.dimensions.emplace())};
    if (name == "max_tokens") return FieldError{"max_tokens", service::to_count(value, &tokens_)};
    if (name == "images" || name == "inputs") return FieldError{name.data(), "is not served: send texts"};
    if (const auto error = set_call_option(name, value, options_.base)) return *error;
    return FieldError{"", reason.print("'%.*s' is not a field of this request", shown(name), name.data())};
  }
  FieldError read_input_type(std::string_view name) {
    purpose_ = find_purpose(name);
    if (purpose_) return {};
    return {"input_type", "must be search_document, search_query, classification or clustering"};
  }
  FieldError read_forms(const JsonValue& value) {
    constexpr const char* kWrong = "must be an array of float, int8, uint8, binary, ubinary or base64";
    JsonArray names;
    if (value.get(names) || names.begin() == names.end()) return {"embedding_types", kWrong};
    head_.forms = 0;  // of a key that was there before
    for (const JsonValue& each : names) {
      std::string_view name;
      if (each.get(name)) return {"embedding_types", kWrong};
      const auto* form = std::ranges::find(kEmbeddingForms, name, &EmbeddingForm::name);
      if (form == std::end(kEmbeddingForms)) return {"embedding_types", kWrong};
      head_.forms |= u8(1 << (form - kEmbeddingForms));
    }
    return {};
  }
  FieldError read_truncate(std::string_view side) {
    if (side != "NONE" && side != "START" && side != "END") return {"truncate", "must be NONE, START or END"};
    options_.text.truncation.asked = side != "NONE";
    options_.text.direction = side == "START" ? TruncationDirection::kLeft : TruncationDirection::kRight;
    return {};
  }
  FieldError check(const transport::CallInfo& info, ReasonText& reason) override {
    if (!given_) return {"texts", "must be given"};
    if (texts_.empty()) return {"texts", "0 texts, at least 1", FieldFault::kEmpty};
    const i32 route = requests_.find({Task::kEmbed}, options_.text.model);
    if (route >= 0 && purpose_) options_.text.prompt_name = prompt_for(*purpose_, routes_.setup(u32(route)).card);
    if (const FieldError error = requests_.check_tokens("max_tokens", tokens_, route, reason)) return error;
    head_.begin(info, made_++);
    context_ = head_.bytes();
    RankContext::append(context_, true, texts_);
    return {};
  }

  service::ModelRoutes& routes_;
  bool given_ = false;
  std::vector<std::string_view> texts_;
  AnswerHead head_;
  const Purpose* purpose_ = nullptr;  // none was given
  u32 tokens_ = 0;                    // max_tokens; 0: not given
  std::string context_;
  u64 made_ = 0;  // requests so far, for their ids
};

// {"id", "response_type", "embeddings": {"float": [[…], …], "int8": …}, "texts", "meta"}; of /v1/embed without
// embedding_types, "embeddings" is the float ones alone.
extern const service::AnswerWriter& kEmbedTextsWriter;

}  // namespace fastqps::protocols
