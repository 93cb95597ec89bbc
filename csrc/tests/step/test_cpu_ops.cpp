// The CPU kernels, at every instruction set that this machine has, against plain loops in double precision.
#include "tests/step/cpu_arrays.h"

using namespace fastqps;
using namespace fastqps::step;

namespace {

const std::vector<i32> kStarts = {0, 1, 3, 10, 25, 41, 58, 90, 123, 187};  // lengths 1 to 64, around the lanes' numbers

constexpr u32 kReach = 64;

// Tables by distance in the order of `Attention::relative`, and their numbers.
struct Tables {
  static constexpr u32 kStride = 2 * kReach + 16;
  Array numbers;
  u32 heads, columns;
  Tables(Number number, u32 n_heads, u32 size)
      : numbers(number, size_t(2) * n_heads * ((size + 15) / 16 * 16) * kStride, size),
        heads(n_heads),
        columns((size + 15) / 16 * 16) {}
  double at(u32 which, u32 head, u32 d, i32 distance) const {
    const u64 row = (u64(which) * heads + head) * columns, column = u64(i32(kReach) + distance);
    if (numbers.number == Number::kFloat32) return numbers[(row + d) * kStride + column];
    return numbers[((row + d) / 2 * kStride + column) * 2 + d % 2];
  }
};

Doubles attended(const Array& qkv, const Attention& job, const Tables* tables) {
  const u32 size = job.head_dim, width = job.heads * size, group = job.heads / job.kv_heads();
  Doubles out(size_t(kStarts.back()) * width);
  auto at = [&](i32 token, u32 part, u32 head, u32 d) {
    const u32 row = part ? job.heads + (part - 1) * job.kv_heads() + head / group : head;
    const size_t base = size_t(token) * job.row() + row * size;
    const float* norm = part == 0 ? job.q_norm : part == 1 ? job.k_norm : nullptr;
    double square = 0;
    for (u32 i = 0; i < size; i++) square += double(qkv[base + i]) * qkv[base + i] / size;
    auto normed = [&](u32 i) { return qkv[base + i] * (norm ? norm[i] / std::sqrt(square + job.eps) : 1.0); };
    if (!job.rotary || part == 2) return normed(d);
    const u32 half = size / 2, angle = d % half;
    const float* table = job.rotary + size_t(job.positions[token]) * size;
    const double other = normed((d + half) % size);
    return normed(d) * table[angle] + (d < half ? -other : other) * table[half + angle];
  };
  for (size_t item = 0; item + 1 < kStarts.size(); item++)
    for (u32 head = 0; head < job.heads; head++)
      for (i32 q = kStarts[item]; q < kStarts[item + 1]; q++) {
        Doubles sum(size);
        double total = 0;
        for (i32 k = kStarts[item]; k < kStarts[item + 1]; k++) {
          if ((job.window && u32(std::abs(q - k)) > job.window) || (job.causal && k > q)) continue;
          double score = 0;
          for (u32 d = 0; d < size; d++) score += at(q, 0, head, d) * at(k, 1, head, d);
          if (tables)
            for (u32 d = 0; d < size; d++)
              score +=
                  at(q, 0, head, d) * tables->at(0, head, d, q - k) + at(k, 1, head, d) * tables->at(1, head, d, q - k);
          const float* biases = biases_of(job, head);
          const double weight = std::exp(score / std::sqrt(double(size)) + (biases ? biases[q - k] : 0.0f));
          total += weight;
          for (u32 d = 0; d < size; d++) sum[d] += weight * at(k, 2, head, d);
        }
        for (u32 d = 0; d < size; d++) out[size_t(q) * width + head * size + d] = sum[d] / total;
      }
  return out;
}

enum class By { kNothing, kRotary, kBias, kTables };
struct Grouped {
  u32 kv_heads = 0;
  bool causal = false, normed = false;
};

void check_attention(Number number, u32 heads, u32 size, u32 window, By by, Grouped grouped = {}) {
  const auto tokens = size_t(kStarts.back());
  const u32 rows = heads + 2 * (grouped.kv_heads ? grouped.kv_heads : heads);
  Array qkv(number, tokens * rows * size, heads * size + window);
  std::vector<i32> positions(tokens);
  for (size_t i = 0; i < tokens; i++) positions[i] = i32(i % 64);
  std::vector<float> table(64 * size);
  for (u32 p = 0; p < 64; p++)
    for (u32 d = 0; d < size / 2; d++) {
      table[p * size + d] = std::cos(float(p) / float(d + 1));
      table[p * size + size / 2 + d] = std::sin(float(p) / float(d + 1));
    }
  std::vector<float> biases(heads * (2 * kReach + 1));
  for (size_t i = 0; i < biases.size(); i++) biases[i] = std::sin(float(i) * 0.7f) * 2;
  Tables tables(number, heads, size);
  Attention job{qkv.data(),
                nullptr,
                kStarts.data(),
                positions.data(),
                by == By::kRotary ? table.data() : nullptr,
                by == By::kBias ? biases.data() : nullptr,
                by == By::kTables ? tables.numbers.data() : nullptr,
                u32(kStarts.size() - 1),
                heads,
                size,
                kReach,
                window,
                number,
                grouped.kv_heads,
                grouped.causal};
  const Array q_norm(Number::kFloat32, size, 7), k_norm(Number::kFloat32, size, 8);
  if (grouped.normed) job.q_norm = q_norm.floats.data(), job.k_norm = k_norm.floats.data(), job.eps = 1e-5f;
  const Doubles want = attended(qkv, job, by == By::kTables ? &tables : nullptr);
  at_every_level(scratch_floats(job), [&](const Kernels& level, float* scratch) {
    Array out(number, tokens * heads * size, 0);
    job.out = out.data();
    level.attend(job, scratch);
    // Weights rounded to bf16 move a mean of values of about 1 by half a unit in bf16's last place at the very most.
    check_close(out, want, level.name, 1.0 / 256);
  });
}

// Items of which some begin with an opening, against the same items in full.
void check_opening(Number number, u32 heads, u32 kv_heads, u32 size, u32 window, bool turned) {
  constexpr u32 kOpening = 21;
  const std::vector<std::pair<u32, u32>> items = {{21, 5}, {0, 33}, {1, 1}, {10, 17}, {21, 1}};  // of it, and behind it
  const u32 row = (heads + 2 * kv_heads) * size, width = heads * size;
  const Array common(number, kOpening * row, 5);
  std::vector<float> table(64 * size);
  for (u32 p = 0; p < 64; p++)
    for (u32 d = 0; d < size / 2; d++) {
      table[p * size + d] = std::cos(float(p) / float(d + 1));
      table[p * size + size / 2 + d] = std::sin(float(p) / float(d + 1));
    }
  Array opening(number, 2 * kv_heads * kOpening * size);
  for (u32 kv = 0; kv < kv_heads; kv++)
    for (u32 i = 0; i < kOpening; i++)
      for (u32 d = 0; d < size; d++) {
        const size_t key = size_t(i) * row + (heads + kv) * size, half = size / 2, angle = d % half;
        const float cosine = turned ? table[i * size + angle] : 1, sine = turned ? table[i * size + half + angle] : 0;
        const double other = common[key + (d + half) % size];
        opening.set((kv * kOpening + i) * size + d,
                    float(common[key + d] * cosine + (d < half ? -other : other) * sine));
        opening.set(((kv_heads + kv) * kOpening + i) * size + d, float(common[key + kv_heads * size + d]));
      }
  u32 n_own = 0, n_whole = 0;
  for (auto [front, length] : items) n_own += length, n_whole += front + length;
  Array own(number, n_own * row, 6), whole(number, n_whole * row);
  std::vector<i32> own_starts = {0}, whole_starts = {0}, own_positions, whole_positions;
  for (auto [front, length] : items) {
    const size_t first = size_t(whole_starts.back()), first_own = size_t(own_starts.back());
    for (u32 i = 0; i < front * row; i++) whole.set(first * row + i, float(common[i]));
    for (u32 i = 0; i < length * row; i++) whole.set((first + front) * row + i, float(own[first_own * row + i]));
    for (u32 i = 0; i < front + length; i++) whole_positions.push_back(i32(i));
    for (u32 i = 0; i < length; i++) own_positions.push_back(i32(front + i));
    whole_starts.push_back(i32(first + front + length)), own_starts.push_back(i32(first_own + length));
  }
  Attention job{};
  job.n_items = u32(items.size()), job.heads = heads, job.stated_kv_heads = kv_heads, job.head_dim = size;
  job.window = window, job.number = number, job.causal = true, job.rotary = turned ? table.data() : nullptr;
  Attention full = job;
  full.qkv = whole.data(), full.starts = whole_starts.data(), full.positions = whole_positions.data();
  job.qkv = own.data(), job.starts = own_starts.data(), job.positions = own_positions.data();
  job.opening = opening.data(), job.n_opening = kOpening;
  at_every_level(std::max(scratch_floats(job), scratch_floats(full)), [&](const Kernels& level, float* scratch) {
    Array want(number, n_whole * width), out(number, n_own * width);
    full.out = want.data(), job.out = out.data();
    level.attend(full, scratch);
    level.attend(job, Scratch(scratch_floats(job)).data());
    Doubles wanted;
    for (size_t i = 0; i < items.size(); i++)
      for (size_t n = size_t(whole_starts[i] + i32(items[i].first)) * width; n < size_t(whole_starts[i + 1]) * width;
           n++)
        wanted.push_back(want[n]);
    check_close(out, wanted, level.name, 1.0 / 64);  // a key of bf16 is rounded once more
  });
}

Doubles normalized(const Doubles& row, const Norm& norm) {
  double mean = 0, square = 0;
  for (double x : row) mean += x / norm.width;
  for (double x : row) square += (x - mean) * (x - mean) / norm.width;
  Doubles out;
  for (u32 i = 0; i < norm.width; i++)
    out.push_back((row[i] - mean) / std::sqrt(square + norm.eps) * norm.weight[i] + (norm.bias ? norm.bias[i] : 0));
  return out;
}

}  // namespace

TEST(attention) {
  for (Number number : kNumbers)
    for (u32 window : {0, 1, 7, 40})
      for (auto [heads, size] : {std::pair{3u, 32u}, {1u, 64u}, {2u, 8u}, {1u, 24u}, {2u, 6u}})
        check_attention(number, heads, size, window, By::kNothing);
}

TEST(attention_behind_an_opening) {
  for (Number number : kNumbers)
    for (u32 window : {0, 7, 25})
      for (bool turned : {true, false}) {
        check_opening(number, 4, 2, 16, window, turned);
        check_opening(number, 3, 1, 24, window, turned);
      }
}

TEST(attention_with_rotary_positions) {
  for (Number number : kNumbers)
    for (u32 size : {32, 8}) check_attention(number, 2, size, 5, By::kRotary);
}

TEST(attention_with_a_bias_by_distance) {
  for (Number number : kNumbers)
    for (auto [heads, size] : {std::pair{3u, 32u}, {2u, 8u}}) check_attention(number, heads, size, 0, By::kBias);
}

TEST(attention_with_tables_by_distance) {
  for (Number number : kNumbers)
    for (auto [heads, size] : {std::pair{3u, 32u}, {1u, 64u}, {2u, 6u}, {2u, 24u}})
      check_attention(number, heads, size, 0, By::kTables);
}

TEST(attention_of_decoders) {
  for (Number number : kNumbers)
    for (u32 window : {0, 1, 7})
      for (Grouped grouped : {Grouped{1, true, true}, {2, true, false}, {2, false, true}, {0, true, false}}) {
        check_attention(number, 4, 32, window, By::kRotary, grouped);
        check_attention(number, 2, 8, window, By::kNothing, grouped);
      }
}

TEST(scores_far_apart) {
  // exp() of anything must neither overflow nor give NaN: one key outweighs all, or all are equally far below zero.
  std::vector<float> qkv(3 * 3 * 16), want(3 * 16);
  for (u32 t = 0; t < 3; t++)
    for (u32 d = 0; d < 16; d++) {
      qkv[t * 48 + d] = 1000, qkv[t * 48 + 16 + d] = t == 1 ? 1000 : -1000, qkv[t * 48 + 32 + d] = float(t);
      want[t * 16 + d] = 1;
    }
  const std::vector<i32> starts = {0, 3};
  std::vector<float> out(want.size());
  Attention job{qkv.data(), out.data(), starts.data(),   nullptr, nullptr, nullptr, nullptr, 1, 1, 16,
                0,          0,          Number::kFloat32};
  at_every_level(scratch_floats(job), [&](const Kernels& level, float* scratch) {
    level.attend(job, scratch);
    CHECK(out == want);
  });
}

TEST(bf16_is_rounded_to_nearest_and_keeps_nan) {
  const auto value = [](u32 half) {  // of finite numbers, by their sign, exponent and fraction
    const i32 exponent = i32(half >> 7 & 0xff), fraction = i32(half & 0x7f);
    const double size = std::ldexp(exponent ? 128 + fraction : fraction, std::max(exponent, 1) - 134);
    return half >> 15 ? -size : size;
  };
  for (u32 half = 0; half < 1 << 16; half++) {
    const float x = widen(u16(half));
    const u32 size = half & 0x7fff;
    if (size > 0x7f80) {
      for (u32 payload : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu})
        CHECK_EQ(u32(narrow(std::bit_cast<float>(half << 16 | payload))), half | 0x40);
    } else if (size == 0x7f80) {
      CHECK(std::isinf(x) && std::signbit(x) == (half >> 15 != 0) && narrow(x) == half);
    } else {
      CHECK(double(x) == value(half) && std::signbit(x) == (half >> 15 != 0) && narrow(x) == half);
      const float between = std::bit_cast<float>(half << 16 | 0x8000);  // this number and the next larger one
      CHECK_EQ(u32(narrow(between)), half + half % 2);
      CHECK_EQ(u32(narrow(std::nextafter(between, 0.0f))), half);
      CHECK_EQ(u32(narrow(std::nextafter(between, between * 2))), half + 1);
    }
  }
  // Rows of full vectors and the numbers behind them. Some instructions take numbers below the normal ones for zeros.
  constexpr u32 kWidth = (1 << 16) + 5;
  std::vector<float> given(kWidth, 1);
  for (u32 i = 0; i < kWidth; i++) {
    const u32 bits = i << 16 | (i * 40503u & 0xffff);
    if ((bits & 0x7f800000) || !(bits & 0x7fffffff)) given[i] = std::bit_cast<float>(bits);
  }
  given[kWidth - 1] = std::bit_cast<float>(0x7fffffff);
  for (const Kernels* level : cpu_ops_levels()) {
    Array rows(Number::kBfloat16, kWidth), out(Number::kBfloat16, kWidth);
    for (u32 i = 0; i < kWidth; i++) rows.set(i, 1);
    std::vector<float> scratch(kWidth);
    level->rms_norm({given.data(), rows.data(), out.data(), 1, kWidth, 0, Number::kBfloat16}, scratch.data());
    for (u32 i = 0; i < kWidth; i++) CHECK_EQ(u32(out.halves[i]), u32(narrow(given[i])));
  }
}

TEST(normalize_and_embed) {
  for (Number number : kNumbers)
    for (u32 width : {384, 100, 16, 3})
      for (bool extras : {true, false}) {
        const u32 tokens = 5;
        Array weight(Number::kFloat32, width, 1), bias(Number::kFloat32, width, 2);
        Array words(number, 9 * width, 3), places(number, 8 * width, 4), kinds(number, 2 * width, 5);
        const Norm norm{weight.floats.data(), extras ? bias.floats.data() : nullptr, width, 1e-5f};
        const std::vector<i32> ids = {8, 0, 3, 3, 7}, positions = {0, 1, 2, 0, 7}, types = {0, 0, 1, 0, 1};
        Doubles sums, plain, rows;
        for (u32 t = 0; t < tokens; t++) {
          Doubles sum, row;
          for (u32 i = 0; i < width; i++) {
            row.push_back(words[t * width + i]), rows.push_back(words[u32(ids[t]) * width + i]);
            sum.push_back(words[u32(ids[t]) * width + i]);
            if (extras) sum[i] += places[u32(positions[t]) * width + i] + kinds[u32(types[t]) * width + i];
          }
          for (double x : normalized(sum, norm)) sums.push_back(x);
          for (double x : normalized(row, norm)) plain.push_back(x);
        }
        at_every_level(scratch_floats(norm), [&](const Kernels& level, float* scratch) {
          Array out(number, tokens * width, 0);
          level.embed({norm, ids.data(), positions.data(), types.data(), words.data(), extras ? places.data() : nullptr,
                       extras ? kinds.data() : nullptr, out.data(), tokens, number},
                      scratch);
          check_close(out, sums, level.name);
          level.embed({{nullptr, nullptr, width, 0},
                       ids.data(),
                       nullptr,
                       nullptr,
                       words.data(),
                       nullptr,
                       nullptr,
                       out.data(),
                       tokens,
                       number},
                      scratch);
          check_close(out, rows, level.name);
          level.normalize({norm, words.data(), out.data(), tokens, number}, scratch);
          check_close(out, plain, level.name);
        });
      }
}

TEST(means_and_maxima_of_items) {
  for (Number number : kNumbers)
    for (u32 width : {384, 20, 1}) {
      Array rows(number, size_t(kStarts.back()) * width, 6), out(Number::kFloat32, (kStarts.size() - 1) * width, 0);
      Doubles want, largest;
      for (size_t item = 0; item + 1 < kStarts.size(); item++)
        for (u32 i = 0; i < width; i++) {
          double sum = 0, most = rows[size_t(kStarts[item]) * width + i];
          for (i32 t = kStarts[item]; t < kStarts[item + 1]; t++) {
            sum += rows[size_t(t) * width + i];
            most = std::max(most, double(rows[size_t(t) * width + i]));
          }
          largest.push_back(most);
          want.push_back(sum / (kStarts[item + 1] - kStarts[item]));
        }
      at_every_level(width, [&](const Kernels& level, float* scratch) {
        const ItemRows job{rows.data(), out.floats.data(), kStarts.data(), u32(kStarts.size() - 1), width, number};
        level.means(job, scratch);
        check_close(out, want, level.name);
        level.maxima(job, scratch);
        check_close(out, largest, level.name);
      });
    }
}

TEST(projections_of_rows_as_if_alone) {
  for (u32 inputs : {96, 20, 1536})
    for (u32 outputs : {1, 17, 96}) {
      const u32 rows = 11, padded = (outputs + 15) / 16 * 16;
      Array in(Number::kFloat32, size_t(rows) * inputs, 7), bias(Number::kFloat32, outputs, 8);
      Array weight(Number::kFloat32, size_t(padded) * inputs, 9), out(Number::kFloat32, size_t(rows) * outputs, 0);
      for (float& number : weight.floats) number /= float(inputs);
      Doubles want;
      for (u32 r = 0; r < rows; r++)
        for (u32 o = 0; o < outputs; o++) {
          double sum = bias[o];
          for (u32 i = 0; i < inputs; i++)
            sum += in[size_t(r) * inputs + i] * weight[(size_t(o / 16) * inputs + i) * 16 + o % 16];
          want.push_back(sum);
        }
      at_every_level(1, [&](const Kernels& level, float*) {
        const Projection all{
            in.floats.data(), weight.floats.data(), bias.floats.data(), out.floats.data(), rows, inputs, outputs};
        level.project(all);
        check_close(out, want, level.name);
        std::vector<float> alone(outputs);
        for (u32 r = 0; r < rows; r++) {
          Projection one = all;
          one.rows += size_t(r) * inputs, one.out = alone.data(), one.n_rows = 1;
          level.project(one);
          CHECK(std::equal(alone.begin(), alone.end(), out.floats.begin() + size_t(r) * outputs));
        }
      });
    }
}
