#include "service/tables/refusal.h"

#include <cstdarg>
#include <cstdio>

namespace fastqps::service {

namespace {

constexpr u64 kMs = 1'000'000;

}  // namespace

Refusal RefusalWriter::refuse(StatusCode code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const int n = std::vsnprintf(text_, sizeof text_, format, args);
  va_end(args);
  return {code, {text_, size_t(std::clamp(n, 0, int(sizeof text_) - 1))}};
}

Refusal RefusalWriter::refuse_field(const char* field, const char* format, ...) {
  int n = std::snprintf(text_, sizeof text_, "%s: ", field);
  va_list args;
  va_start(args, format);
  n += std::vsnprintf(text_ + n, sizeof text_ - size_t(n), format, args);
  va_end(args);
  return {StatusCode::kInvalidArgument, {text_, size_t(std::clamp(n, 0, int(sizeof text_) - 1))}, field};
}

Refusal RefusalWriter::refuse_late(const char* stage, TimeBound bound, u64 length_ns) {
  return name_limit(refuse(StatusCode::kDeadlineExceeded, "the deadline passed at stage %s", stage), bound, length_ns);
}

Refusal RefusalWriter::name_limit(Refusal refusal, TimeBound bound, u64 length_ns) {
  if (bound == TimeBound::kOwn) return refusal;
  const bool by_default = bound == TimeBound::kDefault && !times_.bounds_call(length_ns);
  const size_t n = refusal.message.size();
  const int added = std::snprintf(
      text_ + n, sizeof text_ - n, ": %s %llu ms%s",
      by_default ? "the request has no timeout, and --default-timeout is" : "--max-timeout has limited its time to",
      (unsigned long long)((by_default ? times_.default_ns : times_.most_ns()) / kMs),
      by_default ? "; send a longer one with it" : "");
  refusal.message = {text_, std::min(n + size_t(added), sizeof text_ - 1)};
  return refusal;
}

Refusal RefusalWriter::refuse_inputs(u32 inputs, u64 fit, u64 time_ns, TimeBound bound) {
  return refuse(StatusCode::kInvalidArgument,
                "%u inputs take longer than the %llu ms that %s gives the call, and about %llu fit: send fewer in a "
                "call%s",
                inputs, (unsigned long long)(time_ns / kMs),
                bound == TimeBound::kOwn ? "its timeout" : "the server's --max-timeout", (unsigned long long)fit,
                bound == TimeBound::kOwn ? ", or with a longer timeout" : "");
}

Refusal RefusalWriter::refuse(const FieldError& error) {
  const auto code = error.fault == FieldFault::kModel ? StatusCode::kFailedPrecondition : StatusCode::kInvalidArgument;
  Refusal refusal = refuse(code, "%s%s%s", error.field, *error.field ? ": " : "", error.reason);
  refusal.field = error.field;
  refusal.fault = error.fault;
  return refusal;
}

}  // namespace fastqps::service
