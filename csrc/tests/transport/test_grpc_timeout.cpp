#include "tests/check.h"
#include "transport/calls/request_head.h"

using namespace fastqps;
using namespace fastqps::test;

TEST(units) {
  CHECK_EQ(parse_grpc_timeout("1H"), u64(3600) * 1'000'000'000);
  CHECK_EQ(parse_grpc_timeout("2M"), u64(120) * 1'000'000'000);
  CHECK_EQ(parse_grpc_timeout("3S"), u64(3) * 1'000'000'000);
  CHECK_EQ(parse_grpc_timeout("4m"), u64(4'000'000));
  CHECK_EQ(parse_grpc_timeout("5u"), u64(5'000));
  CHECK_EQ(parse_grpc_timeout("6n"), u64(6));
}

TEST(digits) {
  CHECK_EQ(parse_grpc_timeout("0S"), u64(0));
  CHECK_EQ(parse_grpc_timeout("00000001m"), u64(1'000'000));
  CHECK_EQ(parse_grpc_timeout("99999999u"), u64(99'999'999) * 1000);
  CHECK_EQ(parse_grpc_timeout("99999999S"), u64(99'999'999) * 1'000'000'000);
}

TEST(beyond_ten_years_is_none) {
  CHECK_EQ(parse_grpc_timeout("87600H"), u64(87600) * 3600 * 1'000'000'000);
  CHECK_EQ(parse_grpc_timeout("87601H"), kTimeoutNone);
  CHECK_EQ(parse_grpc_timeout("99999999H"), kTimeoutNone);
  CHECK_EQ(parse_grpc_timeout("99999999M"), kTimeoutNone);
}

TEST(malformed) {
  for (const char* text :
       {"", "S", "1", "1Q", "123456789m", "-1S", "1.5S", "1s", "+1S", " 1S", "1 S", "1S ", "1SS", "0x1S", "H1"})
    if (parse_grpc_timeout(text) != kTimeoutMalformed) fastqps::test::fail(__FILE__, __LINE__, text);
}
