// The AMX level of the products with tile registers of plain memory, which follow Intel's manual: for CPUs without AMX.
#pragma once
#include <bit>
#include <cmath>
#include <cstring>

#include "step/cpu/products/levels.h"
#include "tests/check.h"

namespace fastqps::step::products_emulated {

constexpr u32 kLanes = 16;
constexpr const char* kName = "amx, emulated";
#define FASTQPS_TILES

struct Tiles {
  struct Register {
    u32 rows, row_bytes;
    u8 bytes[16][64];
    template <class T>
    T at(u32 row, u32 i) const {
      T out;
      std::memcpy(&out, bytes[row] + i * sizeof(T), sizeof(T));
      return out;
    }
  };
  static inline thread_local Register registers[8]{};
  static inline thread_local bool configured = false;

  template <class Config>
  static void configure(const Config& config) {
    u8 bytes[64];
    static_assert(sizeof config == 64);
    std::memcpy(bytes, &config, 64);
    CHECK_EQ(u32(bytes[0]), 1u);  // the palette; what follows must be zeros, other tiles' sizes too
    for (u32 i = 1; i < 16; i++) CHECK_EQ(u32(bytes[i]), 0u);
    for (u32 tile = 0; tile < 8; tile++) {
      registers[tile] = {};
      std::memcpy(&registers[tile].row_bytes, bytes + 16 + 2 * tile, 2);
      registers[tile].rows = bytes[48 + tile];
      CHECK(registers[tile].row_bytes <= 64 && registers[tile].rows <= 16);
    }
    for (u32 i = 8; i < 16; i++) CHECK(!bytes[16 + 2 * i] && !bytes[17 + 2 * i] && !bytes[48 + i]);
    configured = true;
  }
  static void release() {
    for (Register& tile : registers) tile = {};
    configured = false;
  }
  static Register& used(u32 tile) {
    CHECK(configured && registers[tile].rows && registers[tile].row_bytes);
    return registers[tile];
  }
  template <u32 kTile>
  static void zero() {
    std::memset(used(kTile).bytes, 0, sizeof(Register::bytes));
  }
  template <u32 kTile>
  static void load(const void* rows, u64 stride) {
    Register& tile = used(kTile);
    std::memset(tile.bytes, 0, sizeof tile.bytes);
    for (u32 r = 0; r < tile.rows; r++)
      std::memcpy(tile.bytes[r], static_cast<const u8*>(rows) + r * stride, tile.row_bytes);
  }
  template <u32 kTile>
  static void store(void* rows, u64 stride) {
    const Register& tile = used(kTile);
    for (u32 r = 0; r < tile.rows; r++) std::memcpy(static_cast<u8*>(rows) + r * stride, tile.bytes[r], tile.row_bytes);
  }
  template <bool kInt8, u32 kSums, u32 kRows, u32 kWeights>
  static void grow() {
    Register& sums = used(kSums);
    const Register &rows = used(kRows), &weights = used(kWeights);
    CHECK(sums.rows == rows.rows && sums.row_bytes == weights.row_bytes && rows.row_bytes == 4 * weights.rows);
    const u32 outputs = sums.row_bytes / 4;
    for (u32 r = 0; r < sums.rows; r++)
      for (u32 o = 0; o < outputs; o++) {
        const u32 grown = kInt8 ? int8_sum(sums, rows, weights, r, o) : bf16_sum(sums, rows, weights, r, o);
        std::memcpy(sums.bytes[r] + 4 * o, &grown, 4);
      }
    std::memset(sums.bytes[0] + 64 * sums.rows, 0, 64 * (16 - sums.rows));
  }

 private:
  static u32 int8_sum(const Register& sums, const Register& rows, const Register& weights, u32 r, u32 o) {
    i32 sum = sums.at<i32>(r, o);
    for (u32 word = 0; word < rows.row_bytes / 4; word++)
      for (u32 i = 0; i < 4; i++) sum += rows.at<i8>(r, 4 * word + i) * weights.at<i8>(word, 4 * o + i);
    return u32(sum);
  }
  // Even and odd numbers are added up apart, and then both to the sum.
  static u32 bf16_sum(const Register& sums, const Register& rows, const Register& weights, u32 r, u32 o) {
    float halves[2] = {0, 0};
    for (u32 word = 0; word < rows.row_bytes / 4; word++)
      for (u32 i = 0; i < 2; i++)
        halves[i] = std::fma(widen(rows.at<u16>(r, 2 * word + i)), widen(weights.at<u16>(word, 2 * o + i)), halves[i]);
    return std::bit_cast<u32>(sums.at<float>(r, o) + (halves[0] + halves[1]));
  }
};

#include "step/cpu/products/kernels.h"
#undef FASTQPS_TILES

}  // namespace fastqps::step::products_emulated
