// Arrays that Python gives by address, and the type of their numbers.
#pragma once
#include "step/cpu/cpu_ops.h"

namespace fastqps::bind {

template <class T = void>
T* address(u64 value) {
  return reinterpret_cast<T*>(value);
}

inline step::Number number(bool bfloat16) { return bfloat16 ? step::Number::kBfloat16 : step::Number::kFloat32; }

}  // namespace fastqps::bind
