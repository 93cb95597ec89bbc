// Checks the limits on a request's values that hold for every model. Each refusal names the field, the value and the
// limit.
#include <cmath>

#include "contract/request_view.h"

namespace fastqps {
namespace {

constexpr i32 kPriorityLast = 3;
constexpr i32 kDTypeLast = 3;
constexpr i32 kAggregationLast = 5;

FieldError check_stops(const RequestView& request, ReasonText& reason) {
  const GenerateOptions& g = request.generate;
  if (g.stop_count > kStopStringsMax)
    return {"generate.stop", reason.print("%u strings, at most %u", g.stop_count, kStopStringsMax)};
  if (g.stop_token_count > kStopTokensMax)
    return {"generate.stop_token_ids", reason.print("%u ids, at most %u", g.stop_token_count, kStopTokensMax)};
  std::string_view stops[kStopStringsMax];
  stop_strings(request, stops);
  for (u32 i = 0; i < g.stop_count; i++) {
    if (stops[i].empty() || stops[i].size() > kStopBytesMax)
      return {"generate.stop",
              reason.print("string %u has %zu bytes, must have 1 to %u", i, stops[i].size(), kStopBytesMax)};
  }
  return {};
}

FieldError check_logit_options(const GenerateOptions& g, ReasonText& reason) {
  if (g.has_repetition_penalty && !(std::isfinite(g.repetition_penalty) && g.repetition_penalty > 0))
    return {"generate.repetition_penalty",
            reason.print("%g, must be a finite number above 0", double(g.repetition_penalty))};
  if (g.no_repeat_ngram_size > kNoRepeatNgramMax)
    return {"generate.no_repeat_ngram_size",
            reason.print("%u, must be at most %u", g.no_repeat_ngram_size, kNoRepeatNgramMax)};
  if (g.suppress_token_count > kSuppressTokensMax)
    return {"generate.suppress_token_ids",
            reason.print("%u ids, at most %u", g.suppress_token_count, kSuppressTokensMax)};
  return {};
}

FieldError check_generate(const RequestView& request, ReasonText& reason) {
  const GenerateOptions& g = request.generate;
  if (!(std::isfinite(g.temperature) && g.temperature >= 0))
    return {"generate.temperature", reason.print("%g, must be a finite number, 0 or more", double(g.temperature))};
  if (g.top_k > kTopKMax) return {"generate.top_k", reason.print("%u, must be at most %u", g.top_k, kTopKMax)};
  if (g.has_top_p && !(g.top_p > 0 && g.top_p <= 1))
    return {"generate.top_p", reason.print("%g, must be above 0 and at most 1", double(g.top_p))};
  const FieldError error = check_logit_options(g, reason);
  return error ? error : check_stops(request, reason);
}

}  // namespace

FieldError check_request(const RequestView& request, ReasonText& reason) {
  if (request.input == Input::kNone) return {"input", "no text, pair or token ids are given"};
  if (request.priority < 0 || request.priority > kPriorityLast)
    return {"priority", reason.print("%d, must be 0 to %d", request.priority, kPriorityLast)};
  if (request.tenant.size() > kTenantBytesMax)
    return {"tenant", reason.print("%zu bytes, must be at most %u", request.tenant.size(), kTenantBytesMax)};
  if (request.group.size() > kGroupBytesMax)
    return {"group", reason.print("%zu bytes, must be at most %u", request.group.size(), kGroupBytesMax)};
  if (request.output.dtype < 0 || request.output.dtype > kDTypeLast)
    return {"output.dtype", reason.print("%d, must be 0 to %d", request.output.dtype, kDTypeLast)};
  if (request.output.aggregation < 0 || request.output.aggregation > kAggregationLast)
    return {"output.aggregation", reason.print("%d, must be 0 to %d", request.output.aggregation, kAggregationLast)};
  return request.has_generate ? check_generate(request, reason) : FieldError{};
}

}  // namespace fastqps
