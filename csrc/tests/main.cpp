// The program of a folder's tests. It runs every case, or those whose name contains argv[1], and prints a line for
// each.
#include "tests/check.h"

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "";
  int ran = 0;
  for (const fastqps::test::Case& one : fastqps::test::cases()) {
    if (one.name.find(wanted) == std::string::npos) continue;
    std::printf("%s\n", one.name.c_str());
    std::fflush(stdout);
    one.run();
    ran++;
  }
  std::printf("%d passed, 0 failed\n", ran);
  return ran ? 0 : 1;
}
