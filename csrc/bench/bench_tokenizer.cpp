// Nanoseconds per text of the native tokenizer, for the texts of a file, one a line. bench_tokenizer.py makes the file
// and runs the `tokenizers` package on the same texts.
//
//   bench_tokenizer TOKENIZER_JSON TEXTS
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "text/tokenizer.h"

using namespace fastqps;

namespace {

constexpr u32 kMaxTokens = 512;
constexpr int kRounds = 25;

// Processor time of this thread: what else runs on the machine counts less.
u64 spent_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<u64>(t.tv_sec) * 1'000'000'000 + static_cast<u64>(t.tv_nsec);
}

// The median over rounds, each of about 20,000 texts.
double ns_per_text(text::Tokenizer& tokenizer, const std::vector<std::string>& texts, u64& n_ids) {
  u32 out[kMaxTokens];
  const std::size_t repeats = std::max<std::size_t>(1, 20000 / texts.size());
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const u64 start = spent_ns();
    n_ids = 0;
    for (std::size_t i = 0; i < repeats; ++i) {
      for (const std::string& text : texts) n_ids += tokenizer.encode(text, out, kMaxTokens).n_tokens;
    }
    rounds.push_back(static_cast<double>(spent_ns() - start) / static_cast<double>(repeats * texts.size()));
    n_ids /= repeats;
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

// Every text by a tokenizer whose cache has never seen anything.
double ns_uncached(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  u32 out[kMaxTokens];
  u64 spent = 0;
  const std::size_t n = std::min<std::size_t>(texts.size(), 200);
  for (std::size_t i = 0; i < n; ++i) {
    const auto fresh = tokenizer.clone();
    const u64 start = spent_ns();
    fresh->encode(texts[i], out, kMaxTokens);
    spent += spent_ns() - start;
  }
  return static_cast<double>(spent) / static_cast<double>(n);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: bench_tokenizer TOKENIZER_JSON TEXTS\n"), 2;
  std::string why;
  const auto tokenizer = text::load_native(argv[1], &why);
  if (!tokenizer) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  std::ifstream file(argv[2]);
  std::vector<std::string> texts;
  for (std::string line; std::getline(file, line);) texts.push_back(line);
  if (texts.empty()) return std::fprintf(stderr, "no texts\n"), 1;

  u64 n_ids = 0;
  const double one = ns_per_text(*tokenizer, {texts[0]}, n_ids);
  const double all = ns_per_text(*tokenizer, texts, n_ids);
  std::printf("{\"texts\": %zu, \"ids\": %llu, \"one_ns\": %.0f, \"distinct_ns\": %.0f, \"cold_ns\": %.0f}\n",
              texts.size(), static_cast<unsigned long long>(n_ids), one, all, ns_uncached(*tokenizer, texts));
}
