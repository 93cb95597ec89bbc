#include "text/json_file.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/types.h"

namespace fastqps::text {
namespace {

using Json = nlohmann::json;

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

}  // namespace

Json parse_json(std::string_view text) {
  Builder builder;
  return Json::sax_parse(text, &builder) ? builder.take() : Json();
}

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

}  // namespace fastqps::text
