// The table of HTTP routes: which method answers a verb and a path. It is filled before the loop starts, and read-only
// afterwards.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/layout.h"
#include "transport/http/http_request.h"
#include "transport/rpc/method.h"

namespace fastqps::transport {

struct HttpRow {
  HttpVerb verb;        // kGet also answers HEAD
  std::string pattern;  // "/v2/models/{model}/infer": a whole segment in braces stands for any text
  Method* method;
  MethodRole role = MethodRole::kService;
  Rpc rpc = kOther;  // the name of its calls in traces
  ErrorWriter errors = write_error_text;
};

struct HttpMatch {
  const HttpRow* row = nullptr;                     // nullptr: 404, or 405 if some verb is allowed
  std::string_view parameters[kHttpParametersMax];  // as sent
  u32 parameter_count = 0;
  u8 allowed = 0;                         // bits of HttpVerb that this path has
  ErrorWriter errors = write_error_text;  // also where there is no row: of a route that begins like the path
};

class HttpRoutes {
 public:
  // Returns false if the pattern does not begin with '/', has too many parameters, or exists already for this verb.
  bool add(HttpRow row);
  // Lets a path be another name of a route without parameters. A path that answers this verb already stays as it is.
  void alias(HttpVerb verb, const std::string& path, std::string_view of);
  // Says of a path without a route what to use instead. Both texts live for ever.
  void add_elsewhere(std::string_view path, std::string_view instead) { elsewhere_.emplace(path, instead); }
  HttpMatch find(HttpVerb verb, std::string_view path) const;
  // What a client may use instead of a path that there is not.
  std::string_view instead_of(std::string_view path) const;
  const std::deque<HttpRow>& rows() const { return rows_; }

 private:
  // The rows of one pattern.
  struct Pattern {
    std::string text;
    std::vector<std::string> segments;
    std::vector<const HttpRow*> rows;
  };
  static std::vector<std::string> split(std::string_view path);
  static bool is_parameter(std::string_view segment);
  static bool fits(const Pattern& pattern, std::string_view path, HttpMatch& match);
  void choose(const Pattern& pattern, HttpVerb verb, HttpMatch& match) const;

  std::deque<HttpRow> rows_;
  std::deque<Pattern> patterns_;                                  // rows point into it
  std::unordered_map<std::string_view, const Pattern*> literal_;  // those without parameters
  std::vector<const Pattern*> with_parameters_;
  std::unordered_map<std::string_view, std::string_view> elsewhere_;
};

// Decodes %XX into out, which has room for `text`. Returns false if the text is not well-formed or holds a NUL.
bool percent_decode(std::string_view text, char* out, size_t* bytes);

}  // namespace fastqps::transport
