// A 64-bit fingerprint of token ids, to recognise a request that has killed dispatchers when a client repeats it.
#pragma once
#include "contract/types.h"

namespace fastqps::service {

inline u64 fingerprint(const u32* ids, u32 n) {
  u64 h = 0x9e3779b97f4a7c15u ^ n;
  for (u32 i = 0; i < n; i++) {
    h = (h ^ ids[i]) * 0xff51afd7ed558ccdu;
    h ^= h >> 29;
  }
  return h ? h : 1;  // 0 means: no mark
}

}  // namespace fastqps::service
