// Reads a JSON object into a struct that lists its fields as pairs of a name and a member, in `kFields`. Every field
// must be there, and no other, except for those that the struct names in `kUnread`.
#pragma once
#include <simdjson.h>

#include <algorithm>
#include <concepts>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace fastqps::json {

using Element = simdjson::dom::element;

// ---- a value of each kind: what is wrong with it; empty: nothing

template <class First, class Second>
std::string read(const Element& from, std::pair<First, Second>& to);
template <class T>
std::string read(const Element& from, std::vector<T>& to);
template <class Struct>
requires requires { Struct::kFields; }
std::string read(const Element& from, Struct& to);

inline std::string read(const Element& from, bool& to) { return from.get(to) ? "not true or false" : ""; }

template <std::integral T>
std::string read(const Element& from, T& to) {
  using Limits = std::numeric_limits<T>;
  std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t> value;
  if (from.get(value) || !std::in_range<T>(value))
    return "not an integer from " + std::to_string(Limits::min()) + " to " + std::to_string(Limits::max());
  to = T(value);
  return {};
}

template <std::floating_point T>
std::string read(const Element& from, T& to) {
  double value;
  if (from.get(value)) return "not a number";
  to = T(value);
  return {};
}

inline std::string read(const Element& from, std::string& to) {
  std::string_view text;
  if (from.get(text)) return "not a string";
  to = text;
  return {};
}

template <class T>
std::string read(const Element& from, std::optional<T>& to) {
  to.reset();
  return from.is_null() ? std::string() : read(from, to.emplace());
}

template <class First, class Second>
std::string read(const Element& from, std::pair<First, Second>& to) {
  simdjson::dom::array both;
  if (from.get(both) || both.size() != 2) return "not a pair";
  std::string wrong = read(both.at(0).value_unsafe(), to.first);
  return wrong.empty() ? read(both.at(1).value_unsafe(), to.second) : wrong;
}

template <class T>
std::string read(const Element& from, std::vector<T>& to) {
  simdjson::dom::array all;
  if (from.get(all)) return "not a list";
  to.clear();
  for (const Element each : all)
    if (std::string wrong = read(each, to.emplace_back()); !wrong.empty()) return wrong;
  return {};
}

// ---- a struct

template <class Struct>
bool declares(std::string_view name) {
  if constexpr (requires { Struct::kUnread; })
    if (std::ranges::find(Struct::kUnread, name) != std::end(Struct::kUnread)) return true;
  return std::apply([&](const auto&... field) { return ((name == field.first) || ...); }, Struct::kFields);
}

template <class Struct>
requires requires { Struct::kFields; }
std::string read(const Element& from, Struct& to) {
  simdjson::dom::object object;
  if (from.get(object)) return "not an object";
  std::string wrong;
  const auto read_field = [&](const auto& field) {
    Element value;
    wrong = object[field.first].get(value) ? "missing" : read(value, to.*field.second);
    if (!wrong.empty()) wrong = std::string(field.first) + ": " + wrong;
    return wrong.empty();
  };
  std::apply([&](const auto&... field) { (read_field(field) && ...); }, Struct::kFields);
  if (!wrong.empty()) return wrong;
  for (const auto [name, _] : object)
    if (!declares<Struct>(name)) return (name.size() <= 64 ? std::string(name) : "a long name") + ": unknown";
  return {};
}

// A whole document.
template <class Struct>
std::string parse(std::string_view text, Struct& to) {
  simdjson::dom::parser parser;
  Element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) return simdjson::error_message(error);
  return read(root, to);
}

}  // namespace fastqps::json
