// Compressed messages, right and damaged, into rooms that are large enough, or not: what comes out of a right one is
// what went in, and nothing is written behind the room.
#include "tests/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/transport/compressed.h"
#include "transport/framing/inflate.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

void run(fuzz::Random& random) {
  static Inflater inflater;
  const bool gzip = random.one_in(2);
  std::string text = random.bytes(2000);
  if (random.one_in(4)) text = std::string(random.below(100'000), 'a') + text;
  std::string packed = fuzz::compressed(text, gzip, int(random.below(10)));
  const bool right = random.one_in(3);
  if (!right) packed = random.one_in(8) ? random.bytes(300) : fuzz::mutated(random, std::move(packed));
  const u32 room = 1 + u32(random.one_in(3) ? random.below(text.size() + 1) : text.size() + random.below(100));
  const std::vector<u8> exact(packed.begin(), packed.end());
  std::vector<u8> out(room);
  u32 bytes_out = 0;
  const Encoding encoding = gzip ? Encoding::kGzip : Encoding::kDeflate;
  const InflateResult result = inflater.inflate(encoding, exact.data(), u32(exact.size()), out.data(), room, bytes_out);
  if (result == InflateResult::kDone) CHECK(bytes_out <= room);
  if (!right) return;
  CHECK(result == (text.size() <= room ? InflateResult::kDone : InflateResult::kTooLarge));
  if (result == InflateResult::kDone) CHECK(std::string(out.begin(), out.begin() + bytes_out) == text);
}

}  // namespace

int main(int argc, char** argv) { return fuzz::run_all(argc, argv, run); }
