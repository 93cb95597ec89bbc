#include "transport/http/http_routes.h"

#include <algorithm>
#include <utility>

namespace fastqps::transport {

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "/v1" of "/v1/embeddings".
std::string_view first_segment(std::string_view path) { return path.substr(0, path.find('/', 1)); }

}  // namespace

bool percent_decode(std::string_view text, char* out, size_t* bytes) {
  char* const begin = out;
  for (size_t i = 0; i < text.size(); i++) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return false;
      const int high = hex_value(text[i + 1]), low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return false;
      c = char(high << 4 | low);
      i += 2;
    }
    if (c == '\0') return false;
    *out++ = c;
  }
  *bytes = size_t(out - begin);
  return true;
}

std::vector<std::string> HttpRoutes::split(std::string_view path) {
  std::vector<std::string> segments;
  for (size_t at = 1; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    segments.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return segments;
}

bool HttpRoutes::is_parameter(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

bool HttpRoutes::add(HttpRow row) {
  if (!row.pattern.starts_with('/')) return false;
  Pattern* pattern = nullptr;
  for (Pattern& each : patterns_)
    if (each.text == row.pattern) pattern = &each;
  if (!pattern) {
    std::vector<std::string> segments = split(row.pattern);
    const auto parameters = std::count_if(segments.begin(), segments.end(), is_parameter);
    if (u32(parameters) > kHttpParametersMax) return false;
    pattern = &patterns_.emplace_back(Pattern{row.pattern, std::move(segments), {}});
    if (parameters) {
      with_parameters_.push_back(pattern);
    } else {
      literal_.emplace(pattern->text, pattern);
    }
  }
  for (const HttpRow* other : pattern->rows)
    if (other->verb == row.verb) return false;
  pattern->rows.push_back(&rows_.emplace_back(std::move(row)));
  return true;
}

void HttpRoutes::alias(HttpVerb verb, const std::string& path, std::string_view of) {
  HttpRow row = *find(verb, of).row;
  row.pattern = path;
  add(std::move(row));
}

HttpMatch HttpRoutes::find(HttpVerb verb, std::string_view path) const {
  HttpMatch match;
  if (verb == HttpVerb::kOptions && path == "*") {  // of the server as a whole
    for (const Pattern& pattern : patterns_) choose(pattern, verb, match);
    match.errors = write_error_text;
    return match;
  }
  if (const auto found = literal_.find(path); found != literal_.end())
    return choose(*found->second, verb, match), match;
  for (const Pattern* pattern : with_parameters_)
    if (fits(*pattern, path, match)) return choose(*pattern, verb, match), match;
  for (const HttpRow& row : rows_)
    if (first_segment(row.pattern) == first_segment(path)) match.errors = row.errors;
  return match;
}

std::string_view HttpRoutes::instead_of(std::string_view path) const {
  const auto found = elsewhere_.find(path);
  return found == elsewhere_.end() ? "GET /docs shows all routes" : found->second;
}

bool HttpRoutes::fits(const Pattern& pattern, std::string_view path, HttpMatch& match) {
  match.parameter_count = 0;
  size_t at = 1;
  for (const std::string& segment : pattern.segments) {
    if (at > path.size()) return false;
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view own = path.substr(at, end - at);
    if (is_parameter(segment)) {
      if (own.empty()) return false;
      match.parameters[match.parameter_count++] = own;
    } else if (own != segment) {
      return false;
    }
    at = end + 1;
  }
  return at == path.size() + 1;
}

void HttpRoutes::choose(const Pattern& pattern, HttpVerb verb, HttpMatch& match) const {
  const auto bit = [](HttpVerb each) { return u8(1u << u32(each)); };
  for (const HttpRow* row : pattern.rows) {
    const bool answers_head = row->verb == HttpVerb::kGet;
    match.allowed |= u8(bit(row->verb) | (answers_head ? bit(HttpVerb::kHead) : 0) | bit(HttpVerb::kOptions));
    match.errors = row->errors;
    if (row->verb == verb || (answers_head && verb == HttpVerb::kHead)) match.row = row;
  }
  if (match.row) match.errors = match.row->errors;
}

}  // namespace fastqps::transport
