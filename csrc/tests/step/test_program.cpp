// Programs of a step, and what picks and changes the rows of answers, against plain loops.
#include <cmath>
#include <random>
#include <stdexcept>

#include "step/cpu/head_ops.h"
#include "step/cpu/program.h"
#include "tests/step/cpu_arrays.h"

using namespace fastqps;
using namespace fastqps::step;

TEST(counts_are_those_of_the_piece) {
  const Piece piece{.tokens = 40, .items = 5, .new_items = 3, .first_token = 200, .first_item = 20};
  const struct {
    i64 value;
    u32 rows, first;
  } kCases[] = {{Count::kTokens, 40, 200}, {Count::kItems, 5, 20}, {Count::kNewItems, 3, 20}, {0, 0, 20}, {7, 7, 20}};
  for (const auto& [value, rows, first] : kCases) {
    CHECK_EQ(Count(value).of(piece), rows);
    CHECK_EQ(Count(value).first(piece), first);
  }
}

TEST(counts_that_are_no_numbers_of_rows) {
  for (i64 value : {i64(-4), std::numeric_limits<i64>::min(), i64(1) << 32}) {
    bool thrown = false;
    try {
      Count{value};
    } catch (const std::invalid_argument&) { thrown = true; }
    CHECK(thrown);
  }
}

template <class Run>
constexpr bool kCanBeAdded = requires(Program program, Run run) {
  program.add(run);
};

TEST(an_operation_keeps_nothing_of_its_runs) {
  u32 runs = 0;
  const auto counts = [runs](const Piece&) mutable { runs++; };
  const auto reads = [runs](const Piece&) { return runs; };
  CHECK(!kCanBeAdded<decltype(counts)>);
  CHECK(kCanBeAdded<decltype(reads)>);
}

TEST(a_program_runs_its_operations_in_order_until_one_throws) {
  std::vector<u32> seen;
  bool fails = false;
  Program program;
  program.add([&](const Piece& piece) { seen.push_back(piece.tokens); });
  program.add([&](const Piece&) {
    if (fails) throw std::out_of_range("a row");
  });
  program.add([&](const Piece& piece) { seen.push_back(100 + piece.items); });
  CHECK_EQ(program.size(), 3u);
  CHECK(seen.empty());
  program.run({.tokens = 8, .items = 2});
  CHECK((seen == std::vector<u32>{8, 102}));
  fails = true;
  bool thrown = false;
  try {
    program.run({.tokens = 9, .items = 3});
  } catch (const std::out_of_range&) { thrown = true; }
  CHECK(thrown && seen.back() == 9u);
  Program now = Program::at_once(4);
  now.add([&](const Piece& piece) { seen.push_back(piece.threads); });
  CHECK(seen.back() == 4u && now.size() == 0);
}

// Whole items, each once and in order, in as many pieces as the tokens ask for.
TEST(pieces_cover_every_item_once) {
  std::mt19937 random(3);
  for (u32 round = 0; round < 300; round++) {
    const u32 n_items = 1 + random() % 40, piece_tokens = 1 + random() % 200;
    std::vector<i32> starts{i32(random() % 3)};
    for (u32 i = 0; i < n_items; i++) starts.push_back(starts.back() + 1 + i32(random() % (round % 2 ? 300 : 20)));
    std::vector<Piece> pieces;
    Program program;
    program.add([&](const Piece& piece) { pieces.push_back(piece); });
    program.run_pieces(starts.data(), n_items, piece_tokens, 3);
    const u32 n_tokens = u32(starts.back() - starts.front());
    u32 item = 0, most = 0;
    for (const Piece& piece : pieces) {
      CHECK(piece.items > 0 && piece.new_items == piece.items && piece.threads == 3);
      CHECK_EQ(piece.first_item, item);
      CHECK_EQ(piece.first_token, u32(starts[item]));
      item += piece.items;
      CHECK_EQ(piece.tokens, u32(starts[item] - starts[piece.first_item]));
      most = std::max(most, piece.tokens);
    }
    CHECK_EQ(item, n_items);
    CHECK(pieces.size() <= std::max(1u, (n_tokens + piece_tokens / 2) / piece_tokens));
    CHECK(most < 3 * piece_tokens / 2 + 1 + (round % 2 ? 300 : 20));
  }
}

TEST(rows_are_picked) {
  const std::vector<i32> starts{0, 3, 4, 9, 11}, ids{5, 7, 7, 7, 1, 2, 7, 3, 7, 7, 7};
  const struct {
    Pick pick;
    i32 skipped;
    std::vector<u32> rows;
  } kCases[] = {{Pick::kFirst, -1, {0, 3, 4, 9}},
                {Pick::kLast, -1, {2, 3, 8, 10}},
                {Pick::kLast, 7, {0, 3, 7, 9}},
                {Pick::kAll, -1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}};
  constexpr u32 kWidth = 19;
  for (const Number number : kNumbers)
    for (const Number out_number : {number, Number::kFloat32})
      for (const auto& [pick, skipped, rows] : kCases) {
        Array from(number, 11 * kWidth, 2), out(out_number, rows.size() * kWidth);
        pick_rows({from.data(), out.data(), starts.data(), ids.data(), u32(rows.size()), kWidth, number, out_number,
                   pick, skipped});
        for (u32 i = 0; i < rows.size(); i++)
          for (u32 k = 0; k < kWidth; k++) CHECK_EQ(out[i * kWidth + k], from[rows[i] * kWidth + k]);
      }
}

TEST(functions_and_sums_are_those_of_their_definitions) {
  const struct {
    Function function;
    double (*of)(double);
  } kCases[] = {{Function::kIdentity, [](double x) { return x; }},
                {Function::kTanh, [](double x) { return std::tanh(x); }},
                {Function::kRelu, [](double x) { return x > 0 ? x : 0; }},
                {Function::kGelu, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2))); }},
                {Function::kSilu, [](double x) { return x / (1 + std::exp(-x)); }},
                {Function::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }}};
  for (const auto& [function, of] : kCases) {
    std::vector<float> x;
    for (double v = -30; v <= 30; v += 0.37) x.push_back(float(v));
    const std::vector<float> before = x;
    apply(function, x.data(), x.size());
    for (size_t i = 0; i < x.size(); i++) CHECK(std::abs(x[i] - of(before[i])) <= 1e-6 * (1 + std::abs(before[i])));
    float nan = NAN;
    apply(function, &nan, 1);
    CHECK(std::isnan(nan));
  }
  for (const Number number : kNumbers) {
    Array sums(number, 50, 4), x(number, 50, 5);
    Doubles want(50);
    for (u32 i = 0; i < 50; i++) want[i] = sums[i] + x[i];
    add({sums.data(), x.data(), 50, number});
    check_close(sums, want, "add");
  }
}
