// A test harness of one screen. Checks are always on, whatever the build type. All tests of a folder are one program.
//
//   TEST(ring_wraps) { CHECK(x == y); CHECK_EQ(a, b); }
#pragma once
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace fastqps {
namespace edge {}
namespace h2client {}
namespace protocols {}
namespace service {}
namespace transport {}
namespace upstream {}
}  // namespace fastqps

namespace fastqps::test {

// Tests see every floor.
using namespace edge;
using namespace h2client;
using namespace protocols;
using namespace service;
using namespace transport;
using namespace upstream;

// The end of a wait for what will come, on a machine that is slow or stands still: no measure of anything.
inline constexpr std::chrono::seconds kPatience{60};
inline constexpr unsigned long long kPatienceNs = std::chrono::nanoseconds(kPatience).count();

struct Case {
  std::string name;  // "test_core.ring_wraps": the file and the case
  void (*run)();
};
inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
struct Register {
  Register(std::string file, const char* name, void (*run)()) {
    file.erase(0, file.rfind('/') + 1);
    cases().push_back({file.substr(0, file.rfind('.')) + '.' + name, run});
  }
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
}  // namespace fastqps::test

#define TEST(name)                                                             \
  static void name();                                                          \
  static const fastqps::test::Register register_##name(__FILE__, #name, name); \
  static void name()
#define CHECK(x)                                           \
  do {                                                     \
    if (!(x)) fastqps::test::fail(__FILE__, __LINE__, #x); \
  } while (0)
#define CHECK_EQ(a, b) fastqps::test::check_eq((a), (b), #a " == " #b, __FILE__, __LINE__)
