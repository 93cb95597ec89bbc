#include "predict/tables/refusal.h"

#include <cstdarg>
#include <cstdio>

namespace fastqps::front {

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

Refusal RefusalWriter::refuse(const FieldError& error) {
  const auto code = error.fault == FieldFault::kModel ? StatusCode::kFailedPrecondition : StatusCode::kInvalidArgument;
  Refusal refusal = refuse(code, "%s%s%s", error.field, *error.field ? ": " : "", error.reason);
  refusal.field = error.field;
  refusal.fault = error.fault;
  return refusal;
}

}  // namespace fastqps::front
