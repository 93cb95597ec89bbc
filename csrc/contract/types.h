// The few short names that all of csrc uses.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fastqps {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

// Every relaxed access in csrc/core gives its reason beside it ("relaxed: …"); tests/project/test_layers.py looks. A
// compare-exchange that fails is relaxed without one: nobody reads anything behind the word that it found.
inline constexpr auto kRelaxed = std::memory_order_relaxed;
inline constexpr auto kAcquire = std::memory_order_acquire;
inline constexpr auto kRelease = std::memory_order_release;
inline constexpr auto kAcqRel = std::memory_order_acq_rel;
inline constexpr auto kSeqCst = std::memory_order_seq_cst;

}  // namespace fastqps
