// The embed API of Cohere.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "contract/quantize.h"
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
      : TeiJsonReader(routes, items_max, kCohereApi), routes_(routes), texts_(items_max) {}

  u32 items() const override { return texts_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = options_.base;
    texts_.item(index, view);
    return requests_.one(Task::kEmbed, options_.text, view, item_reason_);
  }
  std::string_view context() const override { return context_; }

 private:
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {
        {"texts", into<&EmbedTextsReader::texts_>, kInput},
        {"input_type",
         purpose<&EmbedTextsReader::purpose_, "must be search_document, search_query, classification or clustering">},
        {"embedding_types", by<&EmbedTextsReader::read_forms>},
        {"truncate", by<&EmbedTextsReader::read_truncate>},
        {"output_dimension", text_option<&TextOptions::dimensions>},
        {"max_tokens", into<&EmbedTextsReader::tokens_>},
        {"images", refused<"is not served: send texts">},
        {"inputs", refused<"is not served: send texts">},
    };
    return kFields;
  }
  FieldRows api_fields() const override {
    static constexpr FieldRow kFields[] = {{"model", text_option<&TextOptions::model>}};
    return kFields;
  }
  void clear() override {
    texts_.clear();
    forms_ = 0;
    purpose_ = nullptr;
    tokens_ = 0;
  }
  FieldError read_forms(const GivenField& field) {
    constexpr const char* kWrong = "must be an array of float, int8, uint8, binary, ubinary or base64";
    JsonArray names;
    if (field.value.get(names) || names.begin() == names.end()) return {field.name, kWrong};
    forms_ = 0;  // of a key that was there before
    for (const JsonValue& each : names) {
      std::string_view name;
      if (each.get(name)) return {field.name, kWrong};
      const auto* form = std::ranges::find(kEmbeddingForms, name, &EmbeddingForm::name);
      if (form == std::end(kEmbeddingForms)) return {field.name, kWrong};
      forms_ |= u8(1 << (form - kEmbeddingForms));
    }
    return {};
  }
  FieldError read_truncate(const GivenField& field) {
    enum Side : u8 { kNone, kStart, kEnd } side = kNone;
    const FieldError error = read_word(field, {"NONE", "START", "END"}, side);
    options_.text.truncation.asked = side != kNone;
    options_.text.direction = side == kStart ? TruncationDirection::kLeft : TruncationDirection::kRight;
    return error;
  }
  FieldError check(const transport::CallInfo& info, ReasonText& reason) override {
    if (const FieldError error = texts_.check("texts", reason)) return error;
    const i32 route = requests_.find({Task::kEmbed}, options_.text.model);
    if (route >= 0 && purpose_) options_.text.prompt_name = prompt_for(*purpose_, routes_.setup(u32(route)).card);
    if (const FieldError error = requests_.check_tokens("max_tokens", tokens_, route, reason)) return error;
    context_ = bytes_of(AnswerHead{.forms = forms_, .version = version_of(info), .id = next_id()});
    RankContext::append(context_, true, texts_.texts());
    return {};
  }

  service::ModelRoutes& routes_;
  TextList texts_;
  u8 forms_ = 0;                      // see AnswerHead
  const Purpose* purpose_ = nullptr;  // none was given
  u32 tokens_ = 0;                    // max_tokens; 0: not given
  std::string context_;
};

// {"id", "response_type", "embeddings": {"float": [[…], …], "int8": …}, "texts", "meta"}; of /v1/embed without
// embedding_types, "embeddings" is the float ones alone.
extern const service::AnswerWriter& kEmbedTextsWriter;

}  // namespace fastqps::protocols
