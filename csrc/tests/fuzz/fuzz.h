// Random inputs for the programs fuzz_*.cpp: each is made from its number, so one that fails can be made again.
//
//   fuzz_wire [COUNT [FIRST]]   runs inputs FIRST .. FIRST + COUNT - 1
#pragma once
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace fastqps::fuzz {

class Random {
 public:
  explicit Random(u64 seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  u64 next() {  // splitmix64
    u64 z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  u64 below(u64 n) { return next() % n; }
  bool one_in(u64 n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }
  // Mostly short.
  std::string bytes(size_t most) {
    std::string out(below(one_in(8) ? most + 1 : std::min<size_t>(most, 16) + 1), '\0');
    for (char& c : out) c = char(next());
    return out;
  }

 private:
  u64 state_;
};

// A few of the changes that break parsers: bits, lengths, repetitions, cuts.
inline std::string mutated(Random& random, std::string text) {
  static const std::vector<u8> kOdd = {0x00, 0x01, 0x7f, 0x80, 0xff, 0x0a, 0x12};
  for (u64 changes = 1 + random.below(4); changes; changes--) {
    const size_t at = random.below(text.size() + 1);
    switch (random.below(6)) {
      case 0:
        if (at < text.size()) text[at] = char(text[at] ^ (1 << random.below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = char(random.of(kOdd));
        break;
      case 2:
        text.insert(at, random.bytes(64));
        break;
      case 3:
        text.erase(at, random.below(text.size() - at + 1));
        break;
      case 4:
        text.insert(at, text.substr(random.below(text.size() + 1), random.below(64)));
        break;
      default:
        text.insert(at, 1 + random.below(12), char(random.of(kOdd)));
    }
  }
  return text;
}

inline volatile u64 current = 0;

inline void name_input() { std::fprintf(stderr, "\ninput %llu failed\n", static_cast<unsigned long long>(current)); }

// Calls run(random) for each input. Prints how many there were.
template <class Run>
int run_all(int argc, char** argv, Run run) {
  const u64 count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000;
  const u64 first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(name_input);
  std::signal(SIGABRT, [](int) { name_input(), std::signal(SIGABRT, SIG_DFL), std::raise(SIGABRT); });
  for (u64 i = first; i < first + count; i++) {
    current = i;
    Random random(i);
    run(random);
  }
  std::printf("%s: %llu inputs\n", argv[0], static_cast<unsigned long long>(count));
  return count ? 0 : 1;
}

}  // namespace fastqps::fuzz
