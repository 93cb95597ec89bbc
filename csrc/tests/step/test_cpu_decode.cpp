// The decoder's CPU kernels, at every instruction set that this machine has, against plain loops in double precision.
#include "tests/step/cpu_arrays.h"

using namespace fastqps;
using namespace fastqps::step;

namespace {

using Ints = std::vector<i32>;

// ---- attention

struct Shape {
  u32 heads, kv_heads, size;
};

// One sequence as plain numbers: what its rows' keys and values are, in the order of their positions.
struct Sequence {
  std::vector<Doubles> keys, values;  // by position; each [kv_heads, size]
};

// A model layer's cache and weights, sequences in cache slots, and steps over them: by the kernel and by plain loops.
struct World {
  static constexpr u32 kPositions = 192;  // of a sequence, prefix included
  Shape shape;
  Number number;
  bool norms, turned;
  u32 window = 0;
  float cap = 0;
  u32 n_slots, max_len;
  Array cache, prefix;
  Sequence shared;  // the prefix
  std::vector<float> rotary, q_norm, k_norm;
  std::vector<Sequence> slots;
  std::mt19937 random{7};

  World(Shape s, Number kind, bool with_norms, bool with_rotary, u32 n, u32 len)
      : shape(s),
        number(kind),
        norms(with_norms),
        turned(with_rotary),
        n_slots(n),
        max_len(len),
        cache(kind, size_t(2) * n * s.kv_heads * len * s.size, 3),
        prefix(kind, 0, 0),
        slots(n) {
    for (size_t i = 0; i < cache.floats.size(); i++) cache.set(i, NAN);
    for (u32 p = 0; p < kPositions; p++)
      for (u32 part = 0; part < 2; part++)
        for (u32 d = 0; d < s.size / 2; d++) {
          const float angle = float(p) / float(d + 1);
          rotary.push_back(part ? std::sin(angle) : std::cos(angle));
        }
    for (u32 d = 0; d < s.size; d++) q_norm.push_back(0.5f + float(d % 3)), k_norm.push_back(1.5f - float(d % 2));
  }

  u32 prefix_len() const { return u32(shared.keys.size()); }

  // A query or key as it is when it meets others.
  Doubles prepared(Doubles row, const std::vector<float>& weights, u32 position) const {
    const u32 half = shape.size / 2;
    double square = 0;
    for (double x : row) square += x * x / shape.size;
    if (norms)
      for (u32 d = 0; d < shape.size; d++) row[d] *= weights[d] / std::sqrt(square + 1e-6);
    Doubles out = row;
    for (u32 d = 0; turned && d < half; d++) {
      const double c = rotary[position * shape.size + d], s = rotary[position * shape.size + half + d];
      out[d] = row[d] * c - row[d + half] * s;
      out[d + half] = row[d + half] * c + row[d] * s;
    }
    return out;
  }

  Doubles head(const Array& qkv, size_t row, u32 index) const {
    const size_t base = (row * (shape.heads + 2 * shape.kv_heads) + index) * shape.size;
    Doubles out;
    for (u32 d = 0; d < shape.size; d++) out.push_back(qkv[base + d]);
    return out;
  }

  // What row `row` of qkv has to give; its key and value are added to its sequence.
  Doubles attended(const Array& qkv, size_t row, u32 slot, u32 position) {
    Sequence& own = slots[slot];
    own.keys.emplace_back(), own.values.emplace_back();
    for (u32 kv = 0; kv < shape.kv_heads; kv++) {
      const Doubles key = prepared(head(qkv, row, shape.heads + kv), k_norm, position);
      const Doubles value = head(qkv, row, shape.heads + shape.kv_heads + kv);
      own.keys.back().insert(own.keys.back().end(), key.begin(), key.end());
      own.values.back().insert(own.values.back().end(), value.begin(), value.end());
    }
    Doubles out;
    for (u32 h = 0; h < shape.heads; h++) {
      const Doubles query = prepared(head(qkv, row, h), q_norm, position);
      const size_t at = size_t(h / (shape.heads / shape.kv_heads)) * shape.size;
      Doubles sum(shape.size);
      double total = 0;
      const auto see = [&](const Sequence& s, size_t p) {
        if (window && (&s == &own ? prefix_len() : 0) + p + window < position) return;
        double score = 0;
        for (u32 d = 0; d < shape.size; d++) score += 0.25 * query[d] * s.keys[p][at + d];
        const double weight = std::exp(cap ? cap * std::tanh(score / cap) : score);
        total += weight;
        for (u32 d = 0; d < shape.size; d++) sum[d] += weight * s.values[p][at + d];
      };
      for (u32 p = 0; p < prefix_len(); p++) see(shared, p);
      for (size_t p = 0; p < own.keys.size(); p++) see(own, p);
      for (double x : sum) out.push_back(x / total);
    }
    return out;
  }

  // One step: `lengths[i]` rows more for the sequence in slot `ids[i]`. The runs are computed in two ranges, as two
  // threads would.
  void step(const Ints& ids, const Ints& lengths, bool last_rows_only) {
    Ints starts{0}, positions, kv_slots;
    for (size_t i = 0; i < ids.size(); i++) {
      for (i32 n = 0; n < lengths[i]; n++) {
        positions.push_back(i32(prefix_len() + slots[size_t(ids[i])].keys.size()) + n);
        kv_slots.push_back(ids[i]);
      }
      starts.push_back(i32(positions.size()));
    }
    const u32 width = shape.heads * shape.size;
    Array qkv(number, positions.size() * (shape.heads + 2 * shape.kv_heads) * shape.size, random());
    Doubles want;
    for (size_t i = 0; i < ids.size(); i++)
      for (i32 row = starts[i]; row < starts[i + 1]; row++) {
        const Doubles rows = attended(qkv, size_t(row), u32(ids[i]), u32(positions[size_t(row)]));
        if (!last_rows_only || row + 1 == starts[i + 1]) want.insert(want.end(), rows.begin(), rows.end());
      }
    SlotAttention job{};
    job.qkv = qkv.data(), job.positions = positions.data(), job.kv_slots = kv_slots.data();
    job.rotary = turned ? rotary.data() : nullptr;
    job.q_norm = norms ? q_norm.data() : nullptr, job.k_norm = norms ? k_norm.data() : nullptr;
    job.eps = 1e-6f, job.scale = 0.25f, job.window = window, job.cap = cap;
    job.heads = shape.heads, job.kv_heads = shape.kv_heads, job.head_dim = shape.size;
    job.n_slots = n_slots, job.max_len = max_len, job.prefix_len = prefix_len(), job.number = number;
    job.last_rows_only = last_rows_only, job.cache = cache.data(), job.prefix = prefix_len() ? prefix.data() : nullptr;
    const Array before = cache;
    const u32 middle = u32(ids.size() / 2);
    for (const Kernels* level : cpu_ops_levels()) {
      cache = before;
      Array out(number, want.size(), 1);
      for (auto [first, last] : {std::pair{0u, middle}, {middle, u32(ids.size())}}) {
        job.starts = starts.data() + first, job.n_runs = last - first;
        const size_t skipped = last_rows_only ? first * width : 0;
        job.out =
            number == Number::kFloat32 ? static_cast<void*>(out.floats.data() + skipped) : out.halves.data() + skipped;
        level->attend_slots(job, Scratch(scratch_floats(job)).data());
      }
      // Keys rounded to bf16 move scores of a few units, and with them the weights of values of about 1.
      check_close(out, want, level->name, 1.0 / 32, 5e-6);
    }
  }

  // Every number of the cache that no row was written to must be NaN as it was.
  void check_untouched() const {
    for (u32 part = 0; part < 2; part++)
      for (u32 slot = 0; slot < n_slots; slot++)
        for (u32 kv = 0; kv < shape.kv_heads; kv++)
          for (u32 p = u32(slots[slot].keys.size()); p < max_len; p++)
            for (u32 d = 0; d < shape.size; d++) {
              const size_t at =
                  (((size_t(part) * n_slots + slot) * shape.kv_heads + kv) * max_len + p) * shape.size + d;
              CHECK(std::isnan(cache[at]));
            }
  }
};

void check_attention(Shape shape, Number number, u32 prefix, bool norms, bool rotary, u32 window = 0, float cap = 0) {
  World world(shape, number, norms, rotary, 4, 64);  // the last slot: padding
  world.window = window, world.cap = cap;
  if (prefix) {  // a sequence that fills a cache of one slot
    World alone(shape, number, norms, rotary, 1, prefix);
    alone.window = window, alone.cap = cap;
    alone.step({0}, {i32(prefix)}, false);
    world.prefix = alone.cache, world.shared = alone.slots[0];
  }
  world.step({0, 2, 1}, {50, 1, 3}, false);        // prompts
  world.step({1, 0, 2}, {1, 1, 1}, false);         // a decode row each
  world.step({2, 1, 0}, {17, 1, 2}, true);         // more of a prompt; the last layer's way
  world.step({0, 3, 1, 2}, {1, 33, 1, 5}, false);  // new beside running ones, and the padding's slot
  world.check_untouched();
}

}  // namespace

TEST(attention_over_slots) {
  constexpr Shape kShapes[] = {{5, 5, 64}, {6, 2, 32}, {7, 1, 16},  {3, 3, 6},
                               {4, 2, 24}, {9, 3, 8},  {8, 1, 128}, {6, 1, 96}};
  for (Number number : kNumbers)
    for (Shape shape : kShapes)
      for (u32 prefix : {0u, 1u, 16u, 37u, 100u}) check_attention(shape, number, prefix, false, true);
}

TEST(attention_with_normalised_queries_and_keys) {
  for (Number number : kNumbers)
    for (Shape shape : {Shape{4, 2, 32}, {3, 1, 6}})
      for (bool rotary : {true, false}) check_attention(shape, number, 5, true, rotary);
}

TEST(attention_over_a_window_and_with_capped_scores) {
  for (Number number : kNumbers)
    for (Shape shape : {Shape{6, 2, 32}, {3, 1, 6}, {5, 5, 64}})
      for (u32 window : {0u, 1u, 5u, 16u, 40u, 111u})
        for (u32 prefix : {0u, 1u, 37u}) check_attention(shape, number, prefix, false, true, window, window % 2 * 2.5f);
}

TEST(rows_do_not_depend_on_their_company) {
  // A decode row alone and the same one in a step of others: the same bits.
  constexpr u32 kSize = 32, kWidth = 3 * kSize, kLen = 40, kSlots = 6;
  Array cache(Number::kBfloat16, size_t(2) * kSlots * kLen * kSize, 5), qkv(Number::kBfloat16, 4 * kWidth, 6);
  Ints starts{0, 1, 2, 3, 4}, positions{30, 7, 0, 15}, kv_slots{2, 0, 1, 3};
  SlotAttention job{};
  job.qkv = qkv.data(), job.cache = cache.data(), job.starts = starts.data(), job.positions = positions.data();
  job.kv_slots = kv_slots.data(), job.scale = 0.2f, job.n_runs = 4, job.heads = job.kv_heads = 1;
  job.head_dim = kSize, job.n_slots = kSlots, job.max_len = kLen, job.number = Number::kBfloat16;
  Array together(Number::kBfloat16, 4 * kSize, 0), alone = together;
  job.out = together.data();
  attend_slots(job, 1);
  for (u32 i = 0; i < 4; i++) {
    job.starts = starts.data() + i, job.n_runs = 1, job.out = alone.data();
    attend_slots(job, 1);
  }
  CHECK(together.halves == alone.halves);
}

TEST(runs_of_one_slot_see_those_before_them) {
  // Rows of a script in one step, on several threads, and one step after the other: the same bits.
  constexpr u32 kSize = 32, kWidth = 3 * kSize, kLen = 64, kSlots = 3, kRows = 40;
  Array qkv(Number::kBfloat16, kRows * kWidth, 6);
  Ints starts, positions, kv_slots;
  for (u32 i = 0; i < kRows; i++) {
    starts.push_back(i32(i)), kv_slots.push_back(i < 30 ? 1 : i < 35 ? 0 : 2);
    positions.push_back(i32(i < 30 ? 4 + i : i < 35 ? i : i + 10));
  }
  starts.push_back(kRows);
  const auto compute = [&](u32 together, u32 threads) {
    Array cache(Number::kBfloat16, size_t(2) * kSlots * kLen * kSize, 5), out(Number::kBfloat16, kRows * kSize, 0);
    for (u32 i = 0; i < kRows; i += together) {
      SlotAttention job{};
      job.qkv = qkv.data(), job.cache = cache.data(), job.starts = starts.data() + i;
      job.positions = positions.data(), job.kv_slots = kv_slots.data(), job.out = out.data();
      job.scale = 0.2f, job.n_runs = together, job.heads = job.kv_heads = 1;
      job.head_dim = kSize, job.n_slots = kSlots, job.max_len = kLen, job.number = Number::kBfloat16;
      attend_slots(job, threads);
    }
    return out.halves;
  };
  const auto alone = compute(1, 1);
  for (u32 threads : {1u, 2u, 4u}) CHECK(compute(kRows, threads) == alone);
}

// ---- rows

// Of whole rows, and of some columns of them.
TEST(rms_norms) {
  constexpr struct {
    u32 width, stride, first;
  } kCases[] = {{320, 320, 0}, {100, 100, 0}, {16, 16, 0}, {3, 3, 0}, {21, 50, 8}};
  for (Number number : kNumbers)
    for (const auto& [width, stride, first] : kCases) {
      constexpr u32 kRows = 3;
      Array in(number, kRows * stride, width), weight(Number::kFloat32, width, 1);
      Doubles want;
      for (u32 r = 0; r < kRows; r++) {
        double square = 0;
        const auto x = [&, r](u32 i) { return in[r * stride + i]; };
        for (u32 i = first; i < first + width; i++) square += x(i) * x(i) / width;
        for (u32 i = 0; i < stride; i++)
          want.push_back(i < first || i >= first + width ? x(i) : x(i) / std::sqrt(square + 1e-5) * weight[i - first]);
      }
      RmsNorm job{weight.floats.data(), nullptr, nullptr, kRows, width, 1e-5f, number, stride == width ? 0 : stride};
      at_every_level(scratch_floats(job), [&](const Kernels& level, float* scratch) {
        Array out = in;
        job.in = job.out = (char*)out.data() + first * bytes_of(number);
        level.rms_norm(job, scratch);
        check_close(out, want, level.name, 0, 5e-6);
      });
    }
}

TEST(gated_activations) {
  const struct {
    step::Activation activation;
    double (*of)(double);
  } kCases[] = {{step::Activation::kNone, [](double x) { return x; }},
                {step::Activation::kGelu, [](double x) { return x * (1 + std::erf(x / std::sqrt(2))) / 2; }},
                {step::Activation::kGeluTanh,
                 [](double x) { return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2; }},
                {step::Activation::kRelu, [](double x) { return x > 0 ? x : 0; }},
                {step::Activation::kSilu, [](double x) { return x / (1 + std::exp(-x)); }}};
  for (const auto& [activation, of] : kCases)
    for (Number number : kNumbers)
      for (u32 inner : {864, 33, 1}) {
        constexpr u32 kRows = 2;
        Array in(number, kRows * 2 * inner, inner), out(number, kRows * inner, 0);
        in.set(0, 90), in.set(2 * inner, -90);
        Doubles want;
        for (u32 r = 0; r < kRows; r++)
          for (u32 i = 0; i < inner; i++) {
            const u32 at = r * 2 * inner + i;
            want.push_back(of(in[at]) * in[at + inner]);
          }
        at_every_level(0, [&](const Kernels& level, float*) {
          level.gate({in.data(), out.data(), kRows, inner, number, activation});
          check_close(out, want, level.name, 0, 5e-6);
        });
      }
}

TEST(caps) {
  for (Number number : kNumbers)
    for (u32 width : {320, 33, 1}) {
      constexpr u32 kRows = 2;
      Array in(number, kRows * width, width);
      in.set(0, 900), in.set(width, -900);
      Doubles want;
      for (u32 i = 0; i < kRows * width; i++) want.push_back(1.5 * std::tanh(in[i] / 1.5));
      at_every_level(0, [&](const Kernels& level, float*) {
        Array out = in;
        level.cap({out.data(), kRows, width, 1.5f, number});
        check_close(out, want, level.name, 0, 5e-6);
      });
    }
}

TEST(token_rows) {
  for (Number number : kNumbers) {
    constexpr u32 kWidth = 7;
    Array table(number, 11 * kWidth, 1), out(number, 4 * kWidth, 2);
    const Ints ids{3, -1, 10, -1}, kv_slots{0, 2, 1, 0}, last_token{5, 6, 7};
    embed_tokens({ids.data(), kv_slots.data(), last_token.data(), table.data(), out.data(), 4, kWidth, number});
    const u32 rows[] = {3, 7, 10, 5};
    for (u32 t = 0; t < 4; t++)
      for (u32 i = 0; i < kWidth; i++) CHECK_EQ(out[t * kWidth + i], table[rows[t] * kWidth + i]);
  }
}

TEST(words_at_places) {
  for (Number number : kNumbers)
    for (u32 width : {7u, 16u, 83u})
      for (bool placed : {false, true}) {
        Array words(number, 3 * width, 1), places(number, 5 * width, 2), out(number, 3 * width, 3);
        const Ints positions{4, 0, 3};
        TokenEmbedding job{};
        job.out = out.data(), job.n_tokens = 3, job.width = width, job.number = number;
        job.positions = positions.data(), job.scale = 1.7f, job.places = placed ? places.data() : nullptr;
        Doubles want;
        for (u32 t = 0; t < 3; t++)
          for (u32 i = 0; i < width; i++)
            want.push_back(words[t * width + i] * 1.7 + (placed ? places[u32(positions[t]) * width + i] : 0));
        at_every_level(2 * width, [&](const Kernels& level, float* scratch) {
          for (u32 i = 0; i < 3 * width; i++) out.set(i, words[i]);
          level.place_rows(job, scratch);
          check_close(out, want, level.name, 0, 5e-6);
        });
      }
}

// ---- sampling

TEST(philox_known_answers) {
  // Random123's known answers for philox4x32, 10 rounds.
  using Words = std::array<u32, 4>;
  CHECK((philox({0, 0, 0, 0}, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr u32 kOnes = 0xffffffff;
  CHECK((philox({kOnes, kOnes, kOnes, kOnes}, kOnes, kOnes) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  CHECK((philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
         Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  CHECK_EQ(uniform(0, 0, 0), float(0x6627e8) / float(1 << 24));
}

namespace {

struct Asked {
  float temperature = 0, top_p = 1;
  u32 top_k = 0, max_tokens = 1000;
  u8 flags = kLogprobs;
  u64 seed = 0;
  IdList stops{};
  u32 top_logprobs = 0;
};

// Runs over one vocabulary, sampled by the kernel.
struct Samples {
  u32 vocab;
  Array logits;
  Ints starts{0}, kv_slots, made, params, eos_ids, tokens, finish, last_token, top;
  std::vector<float> logprobs;

  Samples(Number number, u32 n_runs, u32 size, u32 seed)
      : vocab(size), logits(number, size_t(n_runs) * size, seed), made(n_runs), params(n_runs * kAdmittedWords) {
    for (u32 r = 0; r < n_runs; r++) {
      starts.push_back(starts.back() + 1 + i32(r % 3));
      kv_slots.resize(size_t(starts.back()), i32(n_runs - 1 - r));
    }
    top.resize(n_runs * kTopWords, -7);
    tokens.resize(n_runs), finish.resize(n_runs), last_token.resize(n_runs), logprobs.resize(n_runs);
  }
  void ask(u32 run, const Asked& a) {
    const Sampling sampling{.seed = a.seed,
                            .temperature = a.temperature,
                            .top_p = a.top_p,
                            .top_k = a.top_k,
                            .max_tokens = a.max_tokens,
                            .stop_ids = a.stops,
                            .top_logprobs = a.top_logprobs};
    Ints record(kAdmittedWords);
    fill_params(record.data(), u32(kv_slots[size_t(starts[run])]), sampling, a.flags, 0);
    admit(params.data(), record.data(), 1);
  }
  void run(const Kernels& level) {
    Draw job{logits.data(),    starts.data(), kv_slots.data(),     made.data(),   params.data(),
             eos_ids.data(),   tokens.data(), logprobs.data(),     finish.data(), last_token.data(),
             u32(made.size()), vocab,         u32(eos_ids.size()), logits.number};
    job.top = top.data();
    level.sample(job, Scratch(scratch_floats(job)).data());
  }
  double logit(u32 run, i32 token) const { return logits[size_t(run) * vocab + size_t(token)]; }
};

// (token, cumulative share before it, after it) for each token that may be drawn, in the order of drawing.
struct Share {
  i32 token;
  double from, to;
};
std::vector<Share> shares(const Samples& s, u32 run, const Asked& a) {
  Ints order(s.vocab);
  for (u32 i = 0; i < s.vocab; i++) order[i] = i32(i);
  const bool all = !a.top_k && a.top_p >= 1;
  if (!all) {
    std::stable_sort(order.begin(), order.end(), [&](i32 x, i32 y) { return s.logit(run, x) > s.logit(run, y); });
    if (a.top_k) order.resize(std::min<size_t>(s.vocab, size_t(a.top_k)));
  }
  double most = -1e300, sum = 0, kept = 0;
  for (i32 t : order) most = std::max(most, s.logit(run, t));
  const auto weight = [&](i32 t) { return std::exp((s.logit(run, t) - most) / double(a.temperature)); };
  for (i32 t : order) sum += weight(t);
  std::vector<Share> out;
  for (i32 t : order) {
    if (!all && !out.empty() && kept >= double(a.top_p) * sum) break;
    out.push_back({t, kept, kept + weight(t)});
    kept += weight(t);
  }
  for (Share& x : out) x.from /= kept, x.to /= kept;
  return out;
}

}  // namespace

TEST(sampling_draws_what_the_definition_says) {
  const Asked kinds[] = {{.temperature = 1},
                         {.temperature = 0.7f, .top_k = 5},
                         {.temperature = 1.5f, .top_p = 0.8f},
                         {.temperature = 9, .top_p = 0.99f},
                         {.temperature = 1e6f, .top_p = 0.5f},
                         {.temperature = 1, .top_p = 0.3f, .top_k = 64},
                         {.temperature = 0.01f},
                         {.temperature = 3, .top_k = 1},
                         {.temperature = 2, .top_p = 1e-6f}};
  for (Number number : kNumbers)
    for (u32 vocab : {4096u, 1000u, 67u, 33u, 3u, 1u}) {
      constexpr u32 kRuns = 40;
      Samples s(number, kRuns, vocab, vocab);
      for (u32 r = 0; r < kRuns; r++) {
        Asked a = kinds[r % std::size(kinds)];
        a.seed = 0x123456789abcdefull * (r + 1), s.made[r] = i32(r / 3);
        s.ask(r, a);
      }
      Samples wide = s;  // the same logits in float32: options of one request have all of its step so
      wide.logits.number = Number::kFloat32;
      for (const Kernels* level : cpu_ops_levels()) {
        s.run(*level);
        wide.run(*level);
        CHECK(s.tokens == wide.tokens && s.logprobs == wide.logprobs);
        for (u32 r = 0; r < kRuns; r++) {
          const Asked& a = kinds[r % std::size(kinds)];
          const u64 seed = 0x123456789abcdefull * (r + 1);
          const double u = uniform(u32(seed), u32(seed >> 32), u32(s.made[r]));
          const i32 token = s.tokens[r];
          double log_sum = 0;
          for (u32 t = 0; t < vocab; t++) log_sum += std::exp(s.logit(r, i32(t)));
          CHECK(std::abs(s.logprobs[r] - (s.logit(r, token) - std::log(log_sum))) < 2e-5);
          CHECK_EQ(s.last_token[size_t(s.kv_slots[size_t(s.starts[r])])], token);
          CHECK_EQ(s.finish[r], i32(Finish::kNot));
          bool drawn = false;  // rounding may move a border by a little
          for (const Share& x : shares(s, r, a)) drawn |= x.token == token && x.from - 1e-5 <= u && u <= x.to + 1e-5;
          CHECK(drawn);
        }
      }
    }
}

TEST(greedy_takes_the_first_of_the_likeliest) {
  for (Number number : kNumbers)
    for (u32 vocab : {4096u, 130u, 64u, 5u}) {
      Samples s(number, 4, vocab, vocab);
      for (u32 r = 0; r < 4; r++) s.ask(r, {.flags = 0});
      const u32 places[] = {0, vocab / 2, vocab - 1, vocab / 3};
      for (u32 r = 0; r < 4; r++)
        for (u32 i : {places[r], vocab - 1}) s.logits.set(size_t(r) * vocab + i, 9);
      for (const Kernels* level : cpu_ops_levels()) {
        s.run(*level);
        for (u32 r = 0; r < 4; r++) CHECK_EQ(s.tokens[r], i32(places[r]));
        CHECK_EQ(s.logprobs[0], 0.0f);
      }
    }
}

// Likeliest first, of equals the lower id; tokens that cannot be chosen are none of them; nothing more is written.
TEST(likeliest_tokens_are_sorted) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const u32 asked[] = {0, 1, 7, kTopLogprobsMax};
  for (Number number : kNumbers)
    for (u32 vocab : {4096u, 130u, 64u, 19u, 3u}) {
      Samples s(number, 4, vocab, vocab);
      for (u32 r = 0; r < 4; r++) {
        s.ask(r, {.temperature = r % 2 ? 1.0f : 0, .top_logprobs = asked[r]});
        for (u32 i : {vocab - 1, vocab / 2, vocab / 3}) s.logits.set(size_t(r) * vocab + i, 5);
        for (u32 i = 1; r == 3 && i < vocab && i + 12 > vocab / 2; i++) s.logits.set(size_t(r) * vocab + i, -kInfinity);
      }
      for (const Kernels* level : cpu_ops_levels()) {
        std::fill(s.top.begin(), s.top.end(), -7);
        s.run(*level);
        for (u32 r = 0; r < 4; r++) {
          Ints order;
          double sum = 0;
          for (u32 i = 0; i < vocab; i++) {
            if (s.logit(r, i32(i)) > -1e30) order.push_back(i32(i));
            sum += std::exp(s.logit(r, i32(i)));
          }
          std::stable_sort(order.begin(), order.end(), [&](i32 x, i32 y) { return s.logit(r, x) > s.logit(r, y); });
          const i32* top = s.top.data() + r * kTopWords;
          for (u32 i = 0; i < kTopLogprobsMax; i++) {
            const float found = std::bit_cast<float>(top[kTopLogprobsMax + i]);
            if (i >= asked[r]) {
              CHECK(top[i] == -7 && top[kTopLogprobsMax + i] == -7);
            } else if (i >= order.size()) {
              CHECK(top[i] == 0 && found == -kInfinity);
            } else {
              CHECK_EQ(top[i], order[i]);
              CHECK(std::abs(found - (s.logit(r, order[i]) - std::log(sum))) < 2e-5);
            }
          }
        }
      }
    }
}

TEST(ends_of_sequences) {
  struct Case {
    Asked asked;
    i32 made;
    Finish finish;
  };
  const Case cases[] = {{{}, 0, Finish::kNot},
                        {{.max_tokens = 5}, 3, Finish::kNot},
                        {{.max_tokens = 5}, 4, Finish::kLength},
                        {{.max_tokens = 1}, 0, Finish::kLength},
                        {{.stops = {2, {9, 2}}}, 0, Finish::kStop},
                        {{.max_tokens = 1, .stops = {1, {2}}}, 0, Finish::kStop},
                        {{.flags = kIgnoreEos, .stops = {8, {1, 3, 4, 5, 6, 7, 8, 2}}}, 0, Finish::kStop}};
  Samples s(Number::kFloat32, std::size(cases), 20, 1);
  for (u32 r = 0; r < std::size(cases); r++) {
    s.logits.set(r * 20 + 2, 50), s.made[r] = cases[r].made;
    s.ask(r, cases[r].asked);
  }
  for (const Kernels* level : cpu_ops_levels()) {
    s.eos_ids = {};
    s.run(*level);
    for (u32 r = 0; r < std::size(cases); r++) CHECK_EQ(s.finish[r], i32(cases[r].finish));
    s.eos_ids = {7, 2};
    s.run(*level);
    for (u32 r = 0; r < std::size(cases); r++) CHECK_EQ(s.finish[r], i32(Finish::kStop));
  }
  s.ask(0, {.flags = kIgnoreEos});
  s.run(*cpu_ops_levels().front());
  CHECK_EQ(s.finish[0], i32(Finish::kNot));
}

TEST(logits_that_are_not_numbers) {
  for (Number number : kNumbers)
    for (u32 vocab : {200u, 64u, 3u}) {
      const Asked kinds[] = {{}, {.temperature = 1}, {.temperature = 1, .top_k = 3}, {.temperature = 1, .top_p = 0.5f}};
      Samples s(number, 12, vocab, 1);
      for (u32 r = 0; r < 12; r++) {
        s.ask(r, kinds[r % 4]);
        const float all = r < 4 ? NAN : r < 8 ? -INFINITY : INFINITY;
        for (u32 i = 0; i < vocab; i++) s.logits.set(size_t(r) * vocab + i, all);
        if (r >= 8) s.logits.set(size_t(r) * vocab, NAN);
      }
      for (const Kernels* level : cpu_ops_levels()) {
        s.run(*level);
        for (u32 r = 0; r < 4; r++) CHECK_EQ(s.tokens[r], 0);
        for (u32 r = 4; r < 12; r++) CHECK(s.tokens[r] >= 0 && u32(s.tokens[r]) < vocab);
        for (u32 r = 8; r < 12; r++) CHECK(s.tokens[r] > 0);
      }
    }
}
