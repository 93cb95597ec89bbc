#include <atomic>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/check.h"
#include "transport/http/json_writer.h"

using namespace fastqps;

namespace {

std::string_view written(float value, u8* room) {
  transport::JsonWriter out(room);
  out.number(value);
  return {reinterpret_cast<const char*>(room), size_t(out.end() - room)};
}

// Without the sign, the point, the exponent and zeros around them.
std::string digits_of(std::string_view text) {
  std::string digits;
  for (const char c : text.substr(0, text.find('e')))
    if (c >= '0' && c <= '9' && (c != '0' || !digits.empty())) digits += c;
  while (digits.ends_with('0')) digits.pop_back();
  return digits;
}

bool is_json(std::string_view text) {
  const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  const size_t first = text.starts_with('-'), point = text.find('.');
  return digit(first) && !(text[first] == '0' && digit(first + 1)) && (point == text.npos || digit(point + 1));
}

bool right(float value) {
  u8 room[transport::JsonWriter::kFloatBytes];
  const std::string_view text = written(value, room);
  float back = 0;
  const auto [end, fault] = std::from_chars(text.begin(), text.end(), back);
  char shortest[32];
  const char* const shortest_end =
      std::to_chars(shortest, std::end(shortest), value, std::chars_format::scientific).ptr;
  return fault == std::errc() && end == text.end() && std::bit_cast<u32>(back) == std::bit_cast<u32>(value) &&
         is_json(text) && digits_of(text) == digits_of({shortest, shortest_end});
}

}  // namespace

// One in so many of all floats; at night each of them.
TEST(floats_have_the_digits_of_the_standard_library_and_read_back) {
  const char* const given = std::getenv("FASTQPS_FLOATS_EVERY");
  const u64 every = given ? std::strtoull(given, nullptr, 10) : 40'009, n = std::thread::hardware_concurrency();
  std::atomic<u64> compared = 0, wrong = 0;
  std::vector<std::jthread> shards;
  for (u64 shard = 0; shard < n; shard++)
    shards.emplace_back([&, shard] {
      u64 mine = 0, mine_wrong = 0;
      for (u64 bits = shard * every; bits >> 32 == 0; bits += n * every) {
        const float value = std::bit_cast<float>(u32(bits));
        if (!std::isfinite(value)) continue;
        mine++;
        mine_wrong += !right(value);
      }
      compared += mine, wrong += mine_wrong;
    });
  shards.clear();
  CHECK(compared > (u64(1) << 32) / every * 99 / 100);
  CHECK_EQ(wrong.load(), 0u);
}
