#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"
#include "text/bpe/bpe.h"
#include "text/load/detokenizer.h"
#include "text/unigram/unigram.h"
#include "text/wordpiece/wordpiece.h"

namespace fastqps::text {

namespace {

using Json = nlohmann::json;

// A number with a point or an exponent, as serde_json reads it by default: 19 or 20 digits, divided by a power of ten.
// That is one or two roundings more than the nearest number takes, and decides between paths of a Unigram model that
// differ in nothing but the order of their pieces.
double serde_number(std::string_view spelled) {
  constexpr u64 kMost = std::numeric_limits<u64>::max();
  const bool negative = spelled.starts_with('-');
  u64 digits = 0;
  i64 exponent = 0;
  bool point = false, full = false;
  std::size_t at = negative;
  for (; at < spelled.size() && spelled[at] != 'e' && spelled[at] != 'E'; ++at) {
    if (spelled[at] == '.') {
      point = true;
      continue;
    }
    const u64 digit = static_cast<u64>(spelled[at] - '0');
    full = full || digits > kMost / 10 || (digits == kMost / 10 && digit > kMost % 10);
    if (full) {
      exponent += !point;
    } else {
      digits = digits * 10 + digit;
      exponent -= point;
    }
  }
  if (at < spelled.size()) {
    constexpr i64 kFar = 1'000'000;
    const bool down = spelled[++at] == '-';
    at += down || spelled[at] == '+';
    i64 stated = 0;
    for (; at < spelled.size(); ++at) stated = std::min(kFar, stated * 10 + (spelled[at] - '0'));
    exponent += down ? -stated : stated;
  }
  constexpr i64 kLargest = 308;  // power of ten
  const auto power = [](i64 n) { return std::strtod(("1e" + std::to_string(n)).c_str(), nullptr); };
  double value = static_cast<double>(digits);
  for (; exponent < -kLargest && value != 0; exponent += kLargest) value /= power(kLargest);
  if (value != 0 && exponent != 0) {
    const double factor = power(std::min(kLargest, std::abs(exponent)));
    value = exponent > 0 ? value * factor : value / factor;
  }
  return negative ? -value : value;
}

// Builds a value as it is read.
class Builder : public Json::json_sax_t {
 public:
  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t, const string_t& spelled) override { return put(serde_number(spelled)); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  static constexpr std::size_t kDepthMax = 128;  // as serde_json has it

  Json& place() {
    if (open_.empty()) return root_;
    Json& parent = *open_.back();
    return parent.is_array() ? parent.emplace_back() : parent[key_];
  }
  template <class Value>
  bool put(Value&& value) {
    place() = std::forward<Value>(value);
    return true;
  }
  bool open(Json value) {
    Json& at = place();
    at = std::move(value);
    open_.push_back(&at);
    return open_.size() <= kDepthMax;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;
  std::string key_;
};

// Null where the text is no JSON.
Json parse_json(std::string_view text) {
  Builder builder;
  return Json::sax_parse(text, &builder) ? builder.take() : Json();
}

}  // namespace

Tokenizer::~Tokenizer() = default;

namespace {

bool read(const std::string& source, nlohmann::json& file, std::string* why) {
  const std::size_t first = source.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && source[first] == '{') {
    file = parse_json(source);
  } else {
    std::ifstream stream(source, std::ios::binary);
    std::ostringstream all;
    if (!stream || !(all << stream.rdbuf())) {
      *why = "cannot read " + source;
      return false;
    }
    file = parse_json(all.str());
  }
  if (!file.is_object()) *why = "not a JSON object";
  return file.is_object();
}

std::string model_type(const nlohmann::json& file) {
  if (!file.contains("model")) return "";
  const auto& model = file["model"];
  const bool stated = model.is_object() && model.contains("type") && model["type"].is_string();
  return stated ? model["type"].get<std::string>() : "no type";
}

}  // namespace

std::optional<SpecialTokens> special_tokens_named(std::string_view name) {
  if (name == "all") return SpecialTokens::kAll;
  if (name == "none") return SpecialTokens::kNone;
  if (name == "trailing") return SpecialTokens::kTrailing;
  return std::nullopt;
}

std::unique_ptr<Tokenizer> load_native(const std::string& source, std::string* why, SpecialTokens special) {
  nlohmann::json file;
  if (!read(source, file, why)) return nullptr;
  const std::string type = model_type(file);
  if (type == "WordPiece") {
    WordPieceConfig config;
    if (!WordPieceReader(config, *why).read(file)) return nullptr;
    config.around.special.keep(special);
    return std::make_unique<WordPiece>(std::make_shared<const WordPieceModel>(std::move(config)));
  }
  if (type == "BPE") {
    BpeConfig config;
    if (!BpeReader(config, *why).read(file)) return nullptr;
    config.around.special.keep(special);
    return std::make_unique<Bpe>(std::make_shared<const BpeModel>(std::move(config)));
  }
  if (type == "Unigram") {
    UnigramConfig config;
    if (!UnigramReader(config, *why).read(file)) return nullptr;
    config.around.special.keep(special);
    return std::make_unique<Unigram>(std::make_shared<const UnigramModel>(std::move(config)));
  }
  *why = type.empty() ? "no model" : "model: " + type + " is not native, only WordPiece, BPE and Unigram are";
  return nullptr;
}

std::shared_ptr<const Detokenizer> load_detokenizer(const std::string& source, std::string* why) {
  nlohmann::json file;
  if (!read(source, file, why)) return nullptr;
  return DetokenizerReader(*why).read(file);
}

}  // namespace fastqps::text
