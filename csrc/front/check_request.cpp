// The limits on a request's values that hold for every model. Each refusal names the field and the limit.
#include <cmath>

#include "front/request_view.h"
#include "text/stop_strings.h"

namespace fastqps::front {
namespace {

constexpr i32 kPriorityLast = 3;
constexpr i32 kDTypeLast = 3;
static_assert(kStopStringsMax == text::StopStrings::kStringsMax && kStopBytesMax == text::StopStrings::kBytesMax);
static_assert(kStopStringsMax == 16 && kStopBytesMax == 256 && kStopTokensMax == 8 && kTopKMax == 64,
              "the messages below name these limits");

FieldError check_generate(const RequestView& request) {
  const GenerateOptions& g = request.generate;
  if (!(std::isfinite(g.temperature) && g.temperature >= 0))
    return {"generate.temperature", "must be a finite number, 0 or more"};
  if (g.top_k > kTopKMax) return {"generate.top_k", "must be at most 64"};
  if (g.has_top_p && !(g.top_p > 0 && g.top_p <= 1)) return {"generate.top_p", "must be above 0 and at most 1"};
  if (g.stop_count > kStopStringsMax) return {"generate.stop", "more than 16 strings"};
  if (g.stop_token_count > kStopTokensMax) return {"generate.stop_token_ids", "more than 8 ids"};
  std::string_view stops[kStopStringsMax];
  stop_strings(request, stops);
  for (u32 i = 0; i < g.stop_count; i++) {
    if (stops[i].empty()) return {"generate.stop", "a stop string is empty"};
    if (stops[i].size() > kStopBytesMax) return {"generate.stop", "a stop string is longer than 256 bytes"};
  }
  return {};
}

}  // namespace

FieldError check_request(const RequestView& request) {
  if (request.input == Input::kNone) return {"input", "none of text, token_ids and pair is set"};
  if (request.priority < 0 || request.priority > kPriorityLast) return {"priority", "unknown value"};
  if (request.output.dtype < 0 || request.output.dtype > kDTypeLast) return {"output.dtype", "unknown value"};
  return request.has_generate ? check_generate(request) : FieldError{};
}

}  // namespace fastqps::front
