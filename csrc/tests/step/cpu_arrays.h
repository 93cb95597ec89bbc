// For tests of the CPU kernels: arrays in both types of numbers, and every instruction set that this machine has.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <random>
#include <vector>

#include "step/cpu/cpu_ops_levels.h"
#include "tests/check.h"

namespace fastqps::step {

using Doubles = std::vector<double>;
constexpr Number kNumbers[] = {Number::kFloat32, Number::kBfloat16};

// An array of floats or of bf16 numbers, as the kernels read it, and what it holds.
struct Array {
  std::vector<float> floats;
  std::vector<u16> halves;
  Number number;
  Array(Number kind, size_t n, u32 seed = 0) : floats(n), halves(n), number(kind) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < n; i++) set(i, normal(random));
  }
  void set(size_t i, float x) {
    halves[i] = u16(std::bit_cast<u32>(x) >> 16);
    floats[i] = number == Number::kBfloat16 ? widen(halves[i]) : x;
  }
  void* data() { return number == Number::kFloat32 ? static_cast<void*>(floats.data()) : halves.data(); }
  double operator[](size_t i) const { return number == Number::kFloat32 ? floats[i] : widen(halves[i]); }
};

// fp32 sums, and half a unit in the last of bf16's 8 bits: of the written number and, by `slack`, of what it is made
// of.
inline void check_close(const Array& got, const Doubles& want, const char* level, double slack = 0,
                        double sums = 3e-6) {
  for (size_t i = 0; i < want.size(); i++) {
    const bool halves = got.number == Number::kBfloat16;
    const double allowed = sums * (1 + std::abs(want[i])) + halves * (std::abs(want[i]) / 256 + slack);
    if (!(std::abs(got[i] - want[i]) <= allowed)) {
      std::fprintf(stderr, "%s: number %zu is %.9g, not %.9g\n", level, i, got[i], want[i]);
      CHECK(false);
    }
  }
}

// Exactly the scratch memory that was asked for, filled with NaN.
class Scratch {
 public:
  explicit Scratch(u64 n_floats) : lines_(std::max<u64>(1, (n_floats + 15) / 16)) {
    for (Line& line : lines_) std::fill(std::begin(line.values), std::end(line.values), NAN);
  }
  float* data() { return lines_.data()->values; }

 private:
  struct Line {
    alignas(64) float values[16];
  };
  std::vector<Line> lines_;
};

inline void at_every_level(u64 n_floats, const std::function<void(const Kernels&, float*)>& job) {
  CHECK(!cpu_ops_levels().empty());
  CHECK_EQ(std::string(cpu_ops_levels().back()->name), "baseline");
  for (const Kernels* level : cpu_ops_levels()) job(*level, Scratch(n_floats).data());
}

}  // namespace fastqps::step
