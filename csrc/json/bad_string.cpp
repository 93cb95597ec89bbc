#include "json/bad_string.h"

#include <simdjson.h>

#include <string_view>
#include <vector>

namespace fastqps::front {

namespace {

constexpr size_t kDepthMax = 8;  // of a path; nothing that is read lies deeper
constexpr size_t kNameMax = 40;

struct Level {
  bool is_array;
  u32 index = 0;               // of an array
  std::string_view name = {};  // of an object: of its current field
};

// The number of \uXXXX at the start of text, or -1.
int escaped_unit(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return -1;
  int unit = 0;
  for (const char digit : text.substr(2, 4)) {
    const int value = digit >= '0' && digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10;
    if (value < 0 || value > 15) return -1;
    unit = unit * 16 + value;
  }
  return unit;
}

bool is_text(std::string_view raw) {
  if (!simdjson::validate_utf8(raw)) return false;
  for (size_t at = 0; (at = raw.find('\\', at)) < raw.size(); at += 2) {
    const int unit = escaped_unit(raw.substr(at));
    if (unit < 0xd800 || unit > 0xdfff) continue;
    const int second = unit < 0xdc00 ? escaped_unit(raw.substr(at + 6)) : -1;
    if (second < 0xdc00 || second > 0xdfff) return false;
    at += 10;
  }
  return true;
}

std::string path_of(const std::vector<Level>& levels) {
  std::string path;
  for (const Level& level : levels) {
    if (level.is_array) {
      path += '[' + std::to_string(level.index) + ']';
    } else {
      path.append(path.empty() ? "" : ".").append(level.name.substr(0, kNameMax));
    }
  }
  return path;
}

}  // namespace

std::string bad_string(std::span<const u8> body) {
  const std::string_view json(reinterpret_cast<const char*>(body.data()), body.size());
  std::vector<Level> levels;
  size_t deeper = 0;  // levels that no path names
  for (size_t at = 0; at < json.size(); at++) {
    const char c = json[at];
    if (c == '{' || c == '[') {
      if (levels.size() == kDepthMax) {
        deeper++;
      } else {
        levels.push_back({.is_array = c == '['});
      }
    } else if (c == '}' || c == ']') {
      if (deeper) {
        deeper--;
      } else if (!levels.empty()) {
        levels.pop_back();
      }
    } else if (c == ',' && !deeper && !levels.empty()) {
      levels.back().index++;
    } else if (c == '"') {
      const size_t begin = at + 1;
      for (at = begin; at < json.size() && json[at] != '"'; at++) at += json[at] == '\\';
      if (at >= json.size()) return {};
      const std::string_view raw = json.substr(begin, at - begin);
      const size_t next = json.find_first_not_of(" \t\r\n", at + 1);
      const bool is_name = next < json.size() && json[next] == ':';
      if (!is_text(raw)) return is_name ? "a name" : path_of(levels);
      if (is_name && !deeper && !levels.empty()) levels.back().name = raw;
    }
  }
  return {};
}

}  // namespace fastqps::front
