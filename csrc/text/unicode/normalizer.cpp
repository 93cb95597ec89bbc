#include "text/unicode/normalizer.h"

#include "contract/utf8.h"

namespace fastqps::text {

std::string normalize_text(const CharTable& table, std::string_view text) {
  std::string out;
  TextSink sink{out};
  Normalizer normalizer(table);
  const u8* p = utf8_bytes(text);
  for (const u8* end = p + text.size(); p < end;) {
    const Decoded c = decode(p, end);
    normalizer.feed(c.point, sink);
    p += c.n_bytes;
  }
  normalizer.flush(sink);
  return out;
}

}  // namespace fastqps::text
