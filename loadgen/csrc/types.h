// Short names, bytes as text, and the one clock: CLOCK_MONOTONIC in signed nanoseconds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string_view>

namespace loadgen {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

constexpr i64 kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;
constexpr i64 kNever = INT64_MAX;

inline std::string_view view(const u8* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

inline i64 now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return i64(t.tv_sec) * kSecond + t.tv_nsec;
}

}  // namespace loadgen
