#include "text/unicode/code_classes.h"

#include <map>
#include <string>

#include "text/unicode/unicode_tables.h"

namespace fastqps::text {

const CodeClasses& CodeClasses::get() {
  static const CodeClasses classes;
  return classes;
}

CodeClasses::CodeClasses() : blocks_(kCodePoints >> 8) {
  std::vector<u8> all(kCodePoints);
  const auto mark = [&](std::span<const unicode::Range> ranges, u8 bit) {
    for (const auto& range : ranges)
      for (u32 point = range.first; point <= range.last; ++point) all[point] |= bit;
  };
  mark(unicode::letters(), kLetter);
  mark(unicode::numbers(), kNumber);
  mark(unicode::spaces(), kSpace);
  mark(unicode::numeric(), kNumeric);
  for (u32 byte = 0; byte < 256; ++byte) first_[byte] = byte < 0x80 ? all[byte] : u8{kLong};

  std::map<std::string, u16> known;
  for (u32 block = 0; block < blocks_.size(); ++block) {
    const auto begin = all.begin() + block * 256;
    const auto [at, fresh] = known.try_emplace({begin, begin + 256}, static_cast<u16>(bits_.size() >> 8));
    if (fresh) bits_.insert(bits_.end(), begin, begin + 256);
    blocks_[block] = at->second;
  }
}

}  // namespace fastqps::text
