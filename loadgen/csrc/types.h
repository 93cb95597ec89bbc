// Short names, bytes as text, and the one clock: CLOCK_MONOTONIC in signed nanoseconds.
#pragma once
#include <string_view>

#include "core/clock.h"

namespace loadgen {

using fastqps::i32, fastqps::i64, fastqps::u16, fastqps::u32, fastqps::u64, fastqps::u8;

constexpr i64 kMicrosecond = 1'000, kMillisecond = 1'000'000, kSecond = 1'000'000'000;
constexpr i64 kNever = INT64_MAX;

inline std::string_view view(const u8* bytes, size_t size) { return {reinterpret_cast<const char*>(bytes), size}; }

inline i64 now_ns() { return i64(fastqps::now_ns()); }

}  // namespace loadgen
