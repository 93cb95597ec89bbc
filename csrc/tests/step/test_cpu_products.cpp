// Products at every instruction set that this machine has: int8 sums against plain loops bit for bit, bf16 and fp32
// sums and what follows any against double precision. It needs nothing but the C++ library, so that it runs in an
// emulator, too.
#include <cstring>
#include <stdexcept>

#include "step/cpu/products/levels.h"
#include "tests/step/cpu_arrays.h"
#include "tests/step/emulated_tiles.h"

using namespace fastqps;
using namespace fastqps::step;
using fastqps::step::Activation;

namespace {

using Bytes = std::vector<u8>;
using Ints = std::vector<i32>;
using Floats = std::vector<float>;

constexpr std::pair<WeightType, Number> kTypes[] = {{WeightType::kInt8, Number::kFloat32},
                                                    {WeightType::kInt8, Number::kBfloat16},
                                                    {WeightType::kBf16, Number::kBfloat16},
                                                    {WeightType::kF32, Number::kFloat32}};

// Those of this machine, and the tiles of AMX in any case: their own instructions run where the CPU has them alone.
std::vector<const ProductLevel*> all_levels() {
  std::vector<const ProductLevel*> levels = product_levels();
  levels.insert(levels.begin(), &products_emulated::kLevel);
  return levels;
}

struct Shape {
  u32 rows, outputs, inputs;
};

// Everything that a product reads, and what it is multiplied to by plain loops.
struct Problem {
  Shape shape;
  WeightType type;
  Array x, residual, weights;  // weights of int8 are whole numbers
  Floats scales, bias, row_scales;
  std::mt19937 random;

  Problem(Shape s, WeightType weight_type, Number number, u32 seed)
      : shape(s),
        type(weight_type),
        x(number, size_t(s.rows) * s.inputs),
        residual(number, size_t(s.rows) * s.outputs, seed + 1),
        weights(weight_type == WeightType::kF32 ? Number::kFloat32 : Number::kBfloat16, size_t(s.outputs) * s.inputs,
                seed + 2),
        scales(padded_outputs(s.outputs), 1),
        bias(padded_outputs(s.outputs)),
        row_scales(s.rows, 1),
        random(seed) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < x.floats.size(); i++) x.set(i, normal(random) * (1.0f + float(i / s.inputs)));
    for (float& b : bias) b = normal(random);
    if (type != WeightType::kInt8) return;
    for (size_t i = 0; i < weights.floats.size(); i++) weights.set(i, float(i32(random() % 255) - 127));
    for (float& scale : scales) scale = 0.02f / std::sqrt(float(s.inputs)) * std::abs(normal(random));
  }

  const void* values(std::vector<i8>& bytes) {
    if (type != WeightType::kInt8) return weights.data();
    for (float weight : weights.floats) bytes.push_back(i8(weight));
    return bytes.data();
  }

  // The rows as they are multiplied: of int8, whole numbers and the row's scale.
  Floats prepared() {
    Floats out = x.floats;
    for (size_t r = 0; type == WeightType::kInt8 && r < shape.rows; r++) {
      float largest = 0;
      for (size_t k = 0; k < shape.inputs; k++) largest = std::max(largest, std::abs(float(x[r * shape.inputs + k])));
      const float by = 127.0f / std::max(largest, 1e-30f);
      for (size_t k = 0; k < shape.inputs; k++) {
        volatile float scaled =
            float(x[r * shape.inputs + k]) * by;  // volatile: rounded, before it is rounded to an integer
        out[r * shape.inputs + k] = std::nearbyint(scaled);
      }
      row_scales[r] = largest / 127.0f;
    }
    return out;
  }

  // [rows, outputs, padded]; `size`: the same of the factors' magnitudes.
  Doubles sums(Doubles* size = nullptr) {
    const Floats rows = prepared();
    const u64 padded = padded_outputs(shape.outputs);
    Doubles out(shape.rows * padded);
    if (size) size->assign(out.size(), 0);
    for (size_t r = 0; r < shape.rows; r++)
      for (size_t o = 0; o < shape.outputs; o++)
        for (size_t k = 0; k < shape.inputs; k++) {
          const double product = double(rows[r * shape.inputs + k]) * weights[o * shape.inputs + k];
          out[r * padded + o] += product;
          if (size) (*size)[r * padded + o] += std::abs(product);
        }
    return out;
  }
};

// A product of `problem` as `level` wants it.
struct Prepared {
  Bytes panels;
  Ints starts;
  Product job;
  const ProductKernels& kernels;
  Scratch memory{0};

  Prepared(Problem& problem, const ProductLevel& level)
      : starts(padded_outputs(problem.shape.outputs)), kernels(level.kernels(problem.type)) {
    const auto [rows, outputs, inputs] = problem.shape;
    Weight weight{problem.type, nullptr, starts.data(), problem.scales.data(), problem.bias.data(), outputs, inputs};
    panels.resize(panel_bytes(weight));
    weight.panels = panels.data();
    std::vector<i8> bytes;
    pack(level, weight, panels.data(), problem.type == WeightType::kInt8 ? starts.data() : nullptr,
         problem.values(bytes));
    job = {weight, problem.x.data(), nullptr, nullptr, rows, problem.x.number, Activation::kNone, false};
    memory = Scratch(scratch_floats(job, kernels));
  }
  void multiply(const Product& product, Part part) { kernels.multiply(product, part, memory.data()); }
  void multiply() { multiply(job, {0, job.n_rows, 0, job.columns()}); }
};

void check_sums(Problem& problem, const Doubles& want, const Doubles& size) {
  CHECK_EQ(std::string(product_levels().back()->name), "baseline");
  for (const ProductLevel* level : all_levels()) {
    Prepared prepared(problem, *level);
    Ints got(want.size(), 77);
    prepared.kernels.sums(prepared.job, got.data(), prepared.memory.data());
    for (size_t i = 0; i < want.size(); i++) {
      const bool exact = problem.type == WeightType::kInt8;
      const double sum = exact ? got[i] : std::bit_cast<float>(got[i]);
      if (std::abs(sum - want[i]) <= (exact ? 0 : 1e-6 * size[i])) continue;
      std::fprintf(stderr, "%s, %u x %u x %u: sum %zu is %.9g, not %.9g\n", level->name, problem.shape.rows,
                   problem.shape.outputs, problem.shape.inputs, i, sum, want[i]);
      CHECK(false);
    }
  }
}

double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return NAN;
}

// out = activation(product + bias) + residual, or gated.
void check_product(Shape shape, WeightType type, Number number, Activation activation, bool gated, bool with_residual,
                   bool with_bias) {
  Problem problem(shape, type, number, shape.rows * 7 + shape.outputs);
  Doubles terms;
  const Doubles sums = problem.sums(&terms);
  const u32 columns = shape.outputs / (gated ? 2 : 1);
  const auto plain = [&](size_t r, size_t o) {
    const double product =
        double(sums[r * padded_outputs(shape.outputs) + o]) * problem.row_scales[r] * problem.scales[o];
    return product + (with_bias ? problem.bias[o] : 0.0f);
  };
  const auto size_of = [&](size_t r, size_t o) {
    const bool rounds = type != WeightType::kInt8;
    return 1 + std::abs(plain(r, o)) + rounds * terms[r * padded_outputs(shape.outputs) + o];
  };
  for (const ProductLevel* level : all_levels()) {
    Prepared prepared(problem, *level);
    Array out(number, size_t(shape.rows) * columns);
    prepared.job.activation = activation, prepared.job.gated = gated, prepared.job.out = out.data();
    if (!with_bias) prepared.job.weight.bias = nullptr;
    if (with_residual) prepared.job.residual = problem.residual.data();
    // In parts, as threads compute it.
    const u32 row = shape.rows / 3, output = columns / 32 * 16;
    for (const Part part :
         {Part{0, row, 0, columns}, Part{row, shape.rows, 0, output}, Part{row, shape.rows, output, columns}})
      prepared.multiply(prepared.job, part);
    for (size_t r = 0; r < shape.rows; r++)
      for (size_t o = 0; o < columns; o++) {
        double want = activated(activation, plain(r, o));
        double size = size_of(r, o);
        if (gated) want *= plain(r, columns + o), size *= size_of(r, columns + o);
        const size_t i = r * columns + o;
        if (with_residual) want += problem.residual[i];
        const double allowed = 1e-6 * size + (number == Number::kBfloat16) * std::abs(want) / 256;
        if (!(std::abs(out[i] - want) <= allowed)) {
          std::fprintf(stderr, "%s: row %zu, output %zu is %.9g, not %.9g\n", level->name, r, o, out[i], want);
          CHECK(false);
        }
      }
  }
}

}  // namespace

TEST(sums_are_exact_for_all_sizes_of_tiles) {
  for (const auto& [type, number] : kTypes)
    for (const u32 rows : {1, 2, 3, 4, 5, 6, 7, 13, 49})
      for (const u32 outputs : {1, 16, 30, 48, 64, 80, 144})
        for (const u32 inputs : {1, 16, 47, 64, 400}) {
          Problem problem({rows, outputs, inputs}, type, number, rows + outputs + inputs);
          Doubles size;
          const Doubles want = problem.sums(&size);
          check_sums(problem, want, size);
        }
}

// Plain loops in the order of a tile: 32 inputs at a time, even and odd ones apart.
TEST(tiles_of_bf16_equal_plain_loops) {
  for (const u32 rows : {1, 15, 16, 17, 33, 47, 48, 49})
    for (const u32 outputs : {16, 48, 80})
      for (const u32 inputs : {32, 70, 96}) {
        Problem problem({rows, outputs, inputs}, WeightType::kBf16, Number::kBfloat16, rows);
        Prepared prepared(problem, products_emulated::kLevel);
        Floats got(size_t(rows) * outputs);
        prepared.kernels.sums(prepared.job, got.data(), prepared.memory.data());
        for (size_t r = 0; r < rows; r++)
          for (size_t o = 0; o < outputs; o++) {
            float sum = 0;
            for (size_t step = 0; step < inputs; step += 32) {
              float halves[2] = {0, 0};
              for (size_t k = step; k < std::min<size_t>(step + 32, inputs); k++)
                halves[k % 2] =
                    std::fma(float(problem.x[r * inputs + k]), float(problem.weights[o * inputs + k]), halves[k % 2]);
              sum += halves[0] + halves[1];
            }
            CHECK_EQ(got[r * outputs + o], sum);
          }
      }
}

TEST(tile_registers_are_released) {
  if (std::string(product_levels().front()->name) != "amx")
    std::puts("  AMX's own instructions are not tested: this machine has none, or its kernel refuses them");
  using Tiles = products_emulated::Tiles;
  Problem problem({49, 48, 64}, WeightType::kInt8, Number::kFloat32, 4);
  Prepared prepared(problem, products_emulated::kLevel);
  Floats out(49 * 48);
  prepared.job.out = out.data();
  prepared.multiply();
  CHECK(!Tiles::configured);
  try {
    const products_emulated::Tiling<products_emulated::Int8Words> tiling(20);
    CHECK(Tiles::configured);
    throw std::runtime_error("in a step");
  } catch (const std::runtime_error&) {}
  CHECK(!Tiles::configured);
}

// Pairs of such products overflow 16 bits, and a row's sum of them nearly 31.
TEST(the_largest_numbers_do_not_overflow) {
  for (const i32 sign : {1, -1}) {
    Problem problem({2, 16, kInt8InputsMax}, WeightType::kInt8, Number::kFloat32, 3);
    for (size_t i = 0; i < problem.x.floats.size(); i++) problem.x.set(i, i < kInt8InputsMax ? 2.5f : -2.5f);
    for (size_t i = 0; i < problem.weights.floats.size(); i++) problem.weights.set(i, float(127 * sign));
    const i32 most = 127 * 127 * i32(kInt8InputsMax) * sign;
    Doubles want(32, most);
    std::fill(want.begin() + 16, want.end(), -most);
    check_sums(problem, want, {});
  }
}

TEST(a_row_is_rounded_to_nearest_and_ties_to_even) {
  Problem problem({1, 16, 16}, WeightType::kInt8, Number::kFloat32, 1);
  const Floats numbers = {127,    -127,   0.5f,   1.5f,    2.5f, -0.5f, -1.5f, -2.5f,
                          0.499f, 0.501f, 126.5f, -126.5f, 0,    1,     -1,    64};
  for (size_t k = 0; k < 16; k++) {
    problem.x.set(k, numbers[k]);
    for (size_t o = 0; o < 16; o++) problem.weights.set(o * 16 + k, o == k);
  }
  check_sums(problem, {127, -127, 0, 2, 2, 0, -2, -2, 0, 1, 126, -126, 0, 1, -1, 64}, {});
}

TEST(products_with_all_that_follows_them) {
  for (const auto& [type, number] : kTypes)
    for (const Activation activation :
         {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
      check_product({53, 96, 64}, type, number, activation, false, false, true);
      check_product({53, 96, 64}, type, number, activation, true, false, true);
      check_product({5, 160, 48}, type, number, activation, true, true, false);
      check_product({5, 77, 43}, type, number, activation, false, true, true);
    }
}

// Activations far out, where an exponential is 0 or its reciprocal infinite.
TEST(activations_of_large_numbers) {
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
    Problem problem({1, 16, 16}, WeightType::kInt8, Number::kFloat32, 1);
    for (size_t o = 0; o < 16; o++) {
      problem.scales[o] = 0;
      problem.bias[o] = (o % 2 ? -1.0f : 1.0f) * std::pow(10.0f, float(o / 2) - 2);
    }
    for (const ProductLevel* level : all_levels()) {
      Prepared prepared(problem, *level);
      Floats out(16);
      prepared.job.activation = activation, prepared.job.out = out.data();
      prepared.multiply();
      for (size_t o = 0; o < 16; o++) {
        const double want = activated(activation, problem.bias[o]);
        CHECK(std::abs(out[o] - want) <= 1e-6 * (1 + std::abs(want)));
      }
    }
  }
}

TEST(a_row_is_the_same_in_any_company) {
  for (const auto& [type, number] : kTypes)
    for (const bool gated : {false, true}) {
      Problem problem({61, 160, 80}, type, number, 5);
      for (const ProductLevel* level : all_levels()) {
        Prepared prepared(problem, *level);
        const u32 columns = gated ? 80 : 160;
        Array together(number, 61 * columns), alone(number, columns);
        prepared.job.activation = Activation::kGelu, prepared.job.gated = gated;
        prepared.job.out = together.data();
        prepared.multiply();
        Product one = prepared.job;
        const size_t bytes = bytes_of(number);
        for (u32 row = 0; row < 61; row++) {
          one.x = static_cast<const char*>(prepared.job.x) + row * 80 * bytes;
          one.n_rows = 1, one.out = alone.data();
          prepared.multiply(one, {0, 1, 0, 16});
          prepared.multiply(one, {0, 1, 16, columns});
          CHECK(
              !std::memcmp(alone.data(), static_cast<char*>(together.data()) + row * columns * bytes, columns * bytes));
        }
      }
    }
}

TEST(the_largest_products_are_computed_again) {
  constexpr size_t kLargest = 16;
  for (const Number number : kNumbers)
    for (const u32 outputs : {5, 16, 130, 1000}) {
      const u32 rows = 3, inputs = 43;
      Problem problem({rows, outputs, inputs}, WeightType::kInt8, number, outputs);
      Array exact(number, size_t(outputs) * inputs, 8);
      for (const ProductLevel* level : all_levels()) {
        Prepared prepared(problem, *level);
        Array first(number, rows * outputs), out(number, rows * outputs);
        prepared.job.out = first.data();
        prepared.multiply();
        prepared.job.out = out.data(), prepared.job.weight.exact = exact.data();
        prepared.multiply();
        level->refine(prepared.job, 0, 1);
        level->refine(prepared.job, 1, rows);
        for (size_t r = 0; r < rows; r++) {
          std::vector<u32> order(outputs);
          for (u32 o = 0; o < outputs; o++) order[o] = o;
          std::stable_sort(order.begin(), order.end(),
                           [&](u32 a, u32 b) { return first[r * outputs + a] > first[r * outputs + b]; });
          for (size_t i = 0; i < outputs; i++) {
            const size_t o = order[i];
            double want = problem.bias[o], size = 1 + std::abs(want);
            for (size_t k = 0; i < kLargest && k < inputs; k++) {
              const double product = problem.x[r * inputs + k] * exact[o * inputs + k];
              want += product, size += std::abs(product);
            }
            if (i >= kLargest)
              CHECK_EQ(out[r * outputs + o], first[r * outputs + o]);
            else
              CHECK(std::abs(out[r * outputs + o] - want) <=
                    1e-6 * size + (number == Number::kBfloat16) * std::abs(want) / 256);
          }
        }
      }
    }
}

TEST(zeros_and_numbers_that_are_none_stay_in_their_rows) {
  for (const auto& [type, number] : kTypes) {
    Problem problem({4, 16, 30}, type, number, 9);
    for (size_t k = 0; k < 30; k++) problem.x.set(k, 0.0f);
    problem.x.set(1 * 30 + 7, NAN);
    problem.x.set(2 * 30 + 9, INFINITY);
    for (const ProductLevel* level : all_levels()) {
      Prepared prepared(problem, *level);
      Array out(number, 64);
      prepared.job.out = out.data();
      prepared.multiply();
      for (size_t o = 0; o < 16; o++) {
        CHECK(std::abs(out[o] - problem.bias[o]) <= std::abs(problem.bias[o]) / 256);
        CHECK(std::isnan(out[16 + o]));
        CHECK(!std::isfinite(out[32 + o]));
        CHECK(std::isfinite(out[48 + o]));
      }
    }
  }
}
