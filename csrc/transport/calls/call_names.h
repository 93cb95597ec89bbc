// What the headers of a call say of its caller.
#pragma once
#include "transport/calls/call_state.h"

namespace fastqps::transport {

// The call's row, a fresh one at first.
inline CallerRow& caller_of(CallState& calls, Call& call) {
  if (calls.callers.size() <= call.index) calls.callers.resize(call.index + 1);
  CallerRow& row = calls.callers[call.index];
  if (!call.identified) row = {};
  call.identified = true;
  return row;
}

inline void forget_caller(CallState& calls, Call& call) {
  if (call.identified) calls.allocator.release(calls.callers[call.index].names);
  call.identified = false;
}

// Whether a header names a tenant or a group.
inline bool is_name(const CallState& calls, std::string_view header) {
  return header == kGroupHeader || (header == calls.tenant_header && !header.empty());
}

// Takes the value of a header that is_name(). kNone: it is good.
inline Fault take_name(CallNames& names, std::string_view header, std::string_view value) {
  if (header == kGroupHeader) return names.group.take(value) ? Fault::kNone : Fault::kGroup;
  return names.tenant.take(value) ? Fault::kNone : Fault::kTenant;
}

// nullptr: no memory.
inline CallNames* make_names(CallState& calls, const CallNames& from = {}) {
  void* block = calls.allocator.allocate(sizeof(CallNames));
  return block ? new (block) CallNames(from) : nullptr;
}

}  // namespace fastqps::transport
