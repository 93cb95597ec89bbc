// The int8 product at every instruction set that this machine has: its sums against plain loops bit for bit, what
// follows them against double precision. It needs nothing but the C++ library, so that it runs in an emulator, too.
#include <cstring>

#include "step/cpu/int8/levels.h"
#include "tests/step/cpu_arrays.h"

using namespace fastqps;
using namespace fastqps::step;
using fastqps::step::Activation;

namespace {

using Bytes = std::vector<i8>;
using Ints = std::vector<i32>;
using Floats = std::vector<float>;

struct Shape {
  u32 rows, outputs, inputs;
};

// Everything that a product reads, and what it is multiplied to by plain loops.
struct Problem {
  Shape shape;
  Array x, residual;
  Bytes values;
  Floats scales, bias;
  std::mt19937 random;

  Problem(Shape s, Number number, u32 seed)
      : shape(s),
        x(number, size_t(s.rows) * s.inputs),
        residual(number, size_t(s.rows) * s.outputs, seed + 1),
        values(size_t(s.outputs) * s.inputs),
        scales(s.outputs),
        bias(s.outputs),
        random(seed) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < x.floats.size(); i++) x.set(i, normal(random) * (1.0f + float(i / s.inputs)));
    for (i8& value : values) value = i8(i32(random() % 255) - 127);
    for (float& scale : scales) scale = 0.02f / std::sqrt(float(s.inputs)) * std::abs(normal(random));
    for (float& b : bias) b = normal(random);
  }

  // The quantised rows, and each row's scale.
  Ints quantised(Floats& row_scales) const {
    Ints out(x.floats.size());
    row_scales.assign(shape.rows, 0);
    for (size_t r = 0; r < shape.rows; r++) {
      float largest = 0;
      for (size_t k = 0; k < shape.inputs; k++) largest = std::max(largest, std::abs(float(x[r * shape.inputs + k])));
      const float by = 127.0f / std::max(largest, 1e-30f);
      for (size_t k = 0; k < shape.inputs; k++) {
        volatile float scaled =
            float(x[r * shape.inputs + k]) * by;  // volatile: rounded, before it is rounded to an integer
        out[r * shape.inputs + k] = i32(std::nearbyint(scaled));
      }
      row_scales[r] = largest / 127.0f;
    }
    return out;
  }

  Ints sums(const Ints& rows) const {
    Ints out(size_t(shape.rows) * shape.outputs);
    for (size_t r = 0; r < shape.rows; r++)
      for (size_t o = 0; o < shape.outputs; o++)
        for (size_t k = 0; k < shape.inputs; k++)
          out[r * shape.outputs + o] += rows[r * shape.inputs + k] * values[o * shape.inputs + k];
    return out;
  }
};

// A product of `problem` as `level` wants it.
struct Prepared {
  Bytes panels;
  Ints starts;
  Int8Product job;
  Scratch memory{0};

  Prepared(Problem& problem, const Int8Kernels& level) : panels(problem.values.size()), starts(problem.shape.outputs) {
    const auto [rows, outputs, inputs] = problem.shape;
    pack_int8(level, panels.data(), starts.data(), problem.values.data(), outputs, inputs);
    job = {{panels.data(), starts.data(), problem.scales.data(), problem.bias.data(), outputs, inputs},
           problem.x.data(),
           nullptr,
           nullptr,
           rows,
           problem.x.number,
           Activation::kNone,
           false};
    memory = Scratch(scratch_floats(job));
  }
  float* scratch() { return memory.data(); }
};

void check_sums(Problem& problem, const Ints& want) {
  CHECK_EQ(std::string(int8_levels().back()->name), "baseline");
  for (const Int8Kernels* level : int8_levels()) {
    Prepared prepared(problem, *level);
    Ints got(want.size(), 77);
    level->sums(prepared.job, got.data(), prepared.scratch());
    for (size_t i = 0; i < want.size(); i++)
      if (got[i] != want[i]) {
        std::fprintf(stderr, "%s, %u x %u x %u: sum %zu is %d, not %d\n", level->name, problem.shape.rows,
                     problem.shape.outputs, problem.shape.inputs, i, got[i], want[i]);
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
void check_product(Shape shape, Number number, Activation activation, bool gated, bool with_residual, bool with_bias) {
  Problem problem(shape, number, shape.rows * 7 + shape.outputs);
  Floats row_scales;
  const Ints sums = problem.sums(problem.quantised(row_scales));
  const u32 columns = shape.outputs / (gated ? 2 : 1);
  const auto plain = [&](size_t r, size_t o) {
    const double product = double(sums[r * shape.outputs + o]) * row_scales[r] * problem.scales[o];
    return product + (with_bias ? problem.bias[o] : 0.0f);
  };
  for (const Int8Kernels* level : int8_levels()) {
    Prepared prepared(problem, *level);
    Array out(number, size_t(shape.rows) * columns);
    prepared.job.activation = activation, prepared.job.gated = gated, prepared.job.out = out.data();
    if (!with_bias) prepared.job.weight.bias = nullptr;
    if (with_residual) prepared.job.residual = problem.residual.data();
    // In parts, as threads compute it.
    const u32 row = shape.rows / 3, output = columns / 32 * 16;
    for (const Part part :
         {Part{0, row, 0, columns}, Part{row, shape.rows, 0, output}, Part{row, shape.rows, output, columns}})
      level->multiply(prepared.job, part, prepared.scratch());
    for (size_t r = 0; r < shape.rows; r++)
      for (size_t o = 0; o < columns; o++) {
        double want = activated(activation, plain(r, o));
        double size = 1 + std::abs(plain(r, o));
        if (gated) want *= plain(r, columns + o), size *= 1 + std::abs(plain(r, columns + o));
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
  for (const Number number : kNumbers)
    for (const u32 rows : {1, 2, 3, 4, 5, 6, 7, 13, 49})
      for (const u32 outputs : {16, 32, 48, 64, 80, 144})
        for (const u32 inputs : {16, 48, 64, 400}) {
          Problem problem({rows, outputs, inputs}, number, rows + outputs + inputs);
          Floats row_scales;
          const Ints want = problem.sums(problem.quantised(row_scales));
          check_sums(problem, want);
        }
}

// Pairs of such products overflow 16 bits, and a row's sum of them nearly 31.
TEST(the_largest_numbers_do_not_overflow) {
  for (const i32 sign : {1, -1}) {
    Problem problem({2, 16, kInt8InputsMax}, Number::kFloat32, 3);
    for (size_t i = 0; i < problem.x.floats.size(); i++) problem.x.set(i, i < kInt8InputsMax ? 2.5f : -2.5f);
    std::fill(problem.values.begin(), problem.values.end(), i8(127 * sign));
    const i32 most = 127 * 127 * i32(kInt8InputsMax) * sign;
    Ints want(32, most);
    std::fill(want.begin() + 16, want.end(), -most);
    check_sums(problem, want);
  }
}

TEST(a_row_is_rounded_to_nearest_and_ties_to_even) {
  Problem problem({1, 16, 16}, Number::kFloat32, 1);
  const Floats numbers = {127,    -127,   0.5f,   1.5f,    2.5f, -0.5f, -1.5f, -2.5f,
                          0.499f, 0.501f, 126.5f, -126.5f, 0,    1,     -1,    64};
  for (size_t k = 0; k < 16; k++) {
    problem.x.set(k, numbers[k]);
    for (size_t o = 0; o < 16; o++) problem.values[o * 16 + k] = o == k;
  }
  check_sums(problem, {127, -127, 0, 2, 2, 0, -2, -2, 0, 1, 126, -126, 0, 1, -1, 64});
}

TEST(products_with_all_that_follows_them) {
  for (const Number number : kNumbers)
    for (const Activation activation :
         {Activation::kNone, Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kSilu}) {
      check_product({53, 96, 64}, number, activation, false, false, true);
      check_product({53, 96, 64}, number, activation, true, false, true);
      check_product({5, 160, 48}, number, activation, true, true, false);
      check_product({5, 80, 48}, number, activation, false, true, false);
    }
}

// Activations far out, where an exponential is 0 or its reciprocal infinite.
TEST(activations_of_large_numbers) {
  for (const Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu}) {
    Problem problem({1, 16, 16}, Number::kFloat32, 1);
    for (size_t k = 0; k < 16; k++) problem.x.set(k, k == 0 ? 127.0f : 0.0f);
    for (size_t o = 0; o < 16; o++) {
      for (size_t k = 0; k < 16; k++) problem.values[o * 16 + k] = k == 0;
      problem.scales[o] = 0;
      problem.bias[o] = (o % 2 ? -1.0f : 1.0f) * std::pow(10.0f, float(o / 2) - 2);
    }
    for (const Int8Kernels* level : int8_levels()) {
      Prepared prepared(problem, *level);
      Floats out(16);
      prepared.job.activation = activation, prepared.job.out = out.data();
      level->multiply(prepared.job, {0, 1, 0, 16}, prepared.scratch());
      for (size_t o = 0; o < 16; o++) {
        const double want = activated(activation, problem.bias[o]);
        CHECK(std::abs(out[o] - want) <= 1e-6 * (1 + std::abs(want)));
      }
    }
  }
}

TEST(a_row_is_the_same_in_any_company) {
  for (const Number number : kNumbers)
    for (const bool gated : {false, true}) {
      Problem problem({61, 160, 80}, number, 5);
      for (const Int8Kernels* level : int8_levels()) {
        Prepared prepared(problem, *level);
        const u32 columns = gated ? 80 : 160;
        Array together(number, 61 * columns), alone(number, columns);
        prepared.job.activation = Activation::kGelu, prepared.job.gated = gated;
        prepared.job.out = together.data();
        level->multiply(prepared.job, {0, 61, 0, columns}, prepared.scratch());
        Int8Product one = prepared.job;
        const size_t bytes = number == Number::kFloat32 ? 4 : 2;
        for (u32 row = 0; row < 61; row++) {
          one.x = static_cast<const char*>(prepared.job.x) + row * 80 * bytes;
          one.n_rows = 1, one.out = alone.data();
          level->multiply(one, {0, 1, 0, 16}, prepared.scratch());
          level->multiply(one, {0, 1, 16, columns}, prepared.scratch());
          CHECK(
              !std::memcmp(alone.data(), static_cast<char*>(together.data()) + row * columns * bytes, columns * bytes));
        }
      }
    }
}

TEST(zeros_and_numbers_that_are_none_stay_in_their_rows) {
  Problem problem({4, 16, 32}, Number::kFloat32, 9);
  for (size_t k = 0; k < 32; k++) problem.x.set(k, 0.0f);
  problem.x.set(1 * 32 + 7, NAN);
  problem.x.set(2 * 32 + 9, INFINITY);
  for (const Int8Kernels* level : int8_levels()) {
    Prepared prepared(problem, *level);
    Floats out(64);
    prepared.job.out = out.data();
    level->multiply(prepared.job, {0, 4, 0, 16}, prepared.scratch());
    for (size_t o = 0; o < 16; o++) {
      CHECK_EQ(out[o], problem.bias[o]);
      CHECK(std::isnan(out[16 + o]));
      CHECK(!std::isfinite(out[32 + o]));
      CHECK(std::isfinite(out[48 + o]));
    }
  }
}
