// The means of bags of rows, at every instruction set that this machine has, against plain loops in double precision.
#include <cmath>
#include <cstring>
#include <random>

#include "step/cpu/cpu_ops_levels.h"
#include "tests/check.h"

using namespace fastqps;
using namespace fastqps::step;

namespace {

constexpr u32 kRows = 37, kIds = 50;

// The value of a half, by its definition.
double half_value(u16 bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

struct Table {
  std::vector<u8> bytes;
  std::vector<double> values;
};

Table make_table(TableNumber number, u32 width, std::mt19937& random) {
  Table out;
  const size_t size = number == TableNumber::kFloat32 ? 4 : number == TableNumber::kInt8 ? 1 : 2;
  out.bytes.resize(kRows * width * size + 1);  // rows of a file begin anywhere
  u8* at = out.bytes.data() + 1;
  for (u32 i = 0; i < kRows * width; i++, at += size) {
    const float value = std::normal_distribution<float>()(random);
    u16 half = u16(random());
    if ((half >> 10 & 31) == 31) half &= 0x83ff;  // no infinity and no NaN; subnormals instead
    const i8 byte = i8(random());
    if (number == TableNumber::kFloat32) std::memcpy(at, &value, size), out.values.push_back(value);
    if (number == TableNumber::kFloat16) std::memcpy(at, &half, size), out.values.push_back(half_value(half));
    if (number == TableNumber::kInt8) std::memcpy(at, &byte, size), out.values.push_back(byte);
    if (number == TableNumber::kBfloat16) {
      const u16 upper = u16(std::bit_cast<u32>(value) >> 16);
      std::memcpy(at, &upper, size);
      out.values.push_back(widen(upper));
    }
  }
  return out;
}

}  // namespace

TEST(means_of_bags) {
  std::mt19937 random(7);
  const std::vector<i32> starts = {0, 1, 1, 6, 46, 48};
  std::vector<i32> ids(48), mapping(kIds);
  for (i32& id : ids) id = i32(random() % kRows);
  for (i32& row : mapping) row = i32(random() % kRows);
  ids[2] = i32(kIds), ids[9] = i32(kIds) + 5;  // no id of the table
  ids[46] = ids[47] = 3;                       // nothing but the skipped one
  std::vector<float> weights(kIds);
  for (float& weight : weights) weight = float(random() % 1000) / 500;
  const u32 n_items = u32(starts.size() - 1);
  for (TableNumber number : {TableNumber::kFloat32, TableNumber::kFloat16, TableNumber::kBfloat16, TableNumber::kInt8})
    for (u32 width : {1u, 7u, 16u, 64u, 100u, 128u, 256u, 300u, 512u}) {
      const Table table = make_table(number, width, random);
      for (bool mapped : {false, true})
        for (bool weighted : {false, true}) {
          std::vector<double> want(n_items * width), magnitude(n_items * width);
          for (u32 item = 0; item < n_items; item++) {
            u32 n = 0;
            for (i32 t = starts[item]; t < starts[item + 1]; t++) {
              if (ids[t] >= i32(kIds) || ids[t] == 3) continue;
              n++;
              const i32 row = mapped ? mapping[ids[t]] : ids[t];
              for (u32 i = 0; i < width; i++) {
                const double value = table.values[row * width + i] * (weighted ? weights[ids[t]] : 1);
                want[item * width + i] += value, magnitude[item * width + i] += std::abs(value);
              }
            }
            for (u32 i = 0; i < width; i++) want[item * width + i] /= std::max(1u, n);
          }
          for (const Kernels* level : cpu_ops_levels()) {
            std::vector<float> out(n_items * width, NAN);
            const Bags job{table.bytes.data() + 1,
                           mapped ? mapping.data() : nullptr,
                           weighted ? weights.data() : nullptr,
                           ids.data(),
                           starts.data(),
                           out.data(),
                           n_items,
                           width,
                           kIds,
                           3,
                           number};
            std::vector<float> scratch(scratch_floats(job), NAN);
            level->mean_bags(job, scratch.data());
            for (size_t i = 0; i < want.size(); i++)
              if (!(std::abs(out[i] - want[i]) <= 3e-6 * (1e-9 + magnitude[i]))) {
                std::fprintf(stderr, "%s: number %zu is %.9g, not %.9g\n", level->name, i, out[i], want[i]);
                CHECK(false);
              }
          }
        }
    }
}
