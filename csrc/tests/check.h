// A test harness of one screen. Checks are always on, whatever the build type.
//
//   TEST(ring_wraps) { CHECK(x == y); CHECK_EQ(a, b); }
//   TEST_MAIN
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace fastqps::test {

// The end of a wait for what will come, on a machine that is slow or stands still: no measure of anything.
inline constexpr std::chrono::seconds kPatience{60};
inline constexpr unsigned long long kPatienceNs = std::chrono::nanoseconds(kPatience).count();

struct Case {
  const char* name;
  void (*run)();
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
struct Register {
  Register(const char* name, void (*run)()) { cases().push_back({name, run}); }
};
[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what.c_str());
  std::abort();
}
template <class A, class B>
void check_eq(const A& a, const B& b, const char* text, const char* file, int line) {
  if (a == b) return;
  std::ostringstream out;
  out << text << "\n  left:  " << a << "\n  right: " << b;
  fail(file, line, out.str());
}
// Runs every case, or those whose name contains argv[1]. Prints one line a case and the closing count.
inline int run_all(int argc, char** argv) {
  int ran = 0;
  for (const Case& c : cases()) {
    if (argc > 1 && !std::strstr(c.name, argv[1])) continue;
    std::printf("%s\n", c.name);
    std::fflush(stdout);
    c.run();
    ran++;
  }
  std::printf("%d passed, 0 failed\n", ran);
  return ran ? 0 : 1;
}

}  // namespace fastqps::test

#define TEST(name)                                                   \
  static void name();                                                \
  static const fastqps::test::Register register_##name(#name, name); \
  static void name()
#define CHECK(x)                                           \
  do {                                                     \
    if (!(x)) fastqps::test::fail(__FILE__, __LINE__, #x); \
  } while (0)
#define CHECK_EQ(a, b) fastqps::test::check_eq((a), (b), #a " == " #b, __FILE__, __LINE__)
#define TEST_MAIN \
  int main(int argc, char** argv) { return fastqps::test::run_all(argc, argv); }
