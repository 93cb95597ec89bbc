// The names of PredictRequest's fields in the other protocols, for refusals. This is the one place that has them.
#pragma once
#include <string_view>

namespace fastqps::service {

struct FieldNames {
  std::string_view text, token_ids, pair, first, second, input;
  std::string_view model = "model", dtype = "dtype", generate = "generate";

  // Options have the last part of their names in every protocol: output.dimensions is "dimensions". A name that is a
  // protocol's own already stays as it is.
  constexpr std::string_view of(std::string_view field) const {
    const std::string_view renamed[][2] = {{"text", text},          {"token_ids", token_ids}, {"pair", pair},
                                           {"pair.first", first},   {"pair.second", second},  {"input", input},
                                           {"output.dtype", dtype}, {"model", model},         {"generate", generate}};
    for (const auto& [ours, theirs] : renamed)
      if (field == ours) return theirs;
    return field.substr(field.rfind('.') + 1);
  }
};

// Of protocols with one field for whatever is sent.
constexpr FieldNames one_field(std::string_view name) { return {name, name, name, name, name, name}; }
// Of those that compare a query with texts.
constexpr FieldNames query_and(std::string_view texts) { return {texts, texts, texts, "query", texts, texts}; }

inline constexpr FieldNames kInferFields{.text = "text",
                                         .token_ids = "input_ids",
                                         .pair = "text_pair",
                                         .first = "text",
                                         .second = "text_pair",
                                         .input = "inputs",
                                         .model = "model_name",
                                         .dtype = "datatype",
                                         .generate = "parameters"};
inline constexpr FieldNames kEmbeddingsFields = one_field("input");    // OpenAI's
inline constexpr FieldNames kCompletionsFields = one_field("prompt");  // OpenAI's
inline constexpr FieldNames kTeiFields = one_field("inputs");
inline constexpr FieldNames kTeiRankFields = query_and("texts");
inline constexpr FieldNames kRerankFields = query_and("documents");

}  // namespace fastqps::service
