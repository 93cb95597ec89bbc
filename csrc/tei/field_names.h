// TEI's names of the fields of PredictRequest, for refusals. Those of options are the same in both: output.dimensions
// is "dimensions".
#pragma once
#include <string_view>

namespace fastqps::front {

inline std::string_view option_field(std::string_view field) { return field.substr(field.rfind('.') + 1); }

// Of requests with "inputs".
inline std::string_view inputs_field(std::string_view field) {
  return field == "text" || field == "token_ids" || field.starts_with("pair") ? "inputs" : option_field(field);
}

// Of requests with a query and `texts`, whatever those are called.
inline std::string_view ranked_field(std::string_view field, std::string_view texts) {
  if (field == "pair.first") return "query";
  return field == "text" || field.starts_with("pair") ? texts : option_field(field);
}

}  // namespace fastqps::front
