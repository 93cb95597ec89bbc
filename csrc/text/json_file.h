// JSON with numbers as the `tokenizers` package reads them.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace fastqps::text {

// Null where the text is no JSON.
nlohmann::json parse_json(std::string_view text);

// A number with a point or an exponent, as serde_json reads it by default: 19 or 20 digits, divided by a power of ten.
// That is one or two roundings more than the nearest number takes, and decides between paths of a Unigram model that
// differ in nothing but the order of their pieces.
double serde_number(std::string_view spelled);

}  // namespace fastqps::text
