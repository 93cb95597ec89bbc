// BERT's normalizer as a stream: code points in, normalized characters out, each with its class.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "contract/utf8.h"
#include "text/unicode/char_table.h"

namespace fastqps::text {

// `Sink` has put(u32 point, CharClass). Marks that survive stripping wait here until the next character of combining
// class 0, because canonical order sorts a run of marks by class, keeping the order within a class.
class Normalizer {
 public:
  explicit Normalizer(const CharTable& table) : table_(table) {}

  template <class Sink>
  void feed(u32 point, Sink& sink) {
    const CharTable::Entry entry = table_[point];
    if (entry.kind() == CharTable::Kind::kOne) [[likely]] {
      flush(sink);
      sink.put(entry.one().point(), entry.one().char_class());
    } else if (entry.kind() == CharTable::Kind::kSequence) {
      const NormalChar* chars = table_.pool() + entry.begin();
      for (u32 i = 0; i < entry.length(); ++i) feed_part(chars[i], sink);
    } else if (entry.kind() == CharTable::Kind::kHangul) {
      flush(sink);
      feed_hangul(point - 0xAC00, sink);
    }
  }

  // To be called where the text ends.
  template <class Sink>
  void flush(Sink& sink) {
    if (!marks_.empty()) [[unlikely]]
      flush_marks(sink);
  }
  bool idle() const { return marks_.empty(); }

 private:
  template <class Sink>
  void feed_part(NormalChar part, Sink& sink) {
    if (part.ccc()) {
      marks_.push_back(static_cast<u64>(part.ccc()) << 56 | static_cast<u64>(marks_.size()) << 21 | part.point());
      return;
    }
    flush(sink);
    if (part.point() != NormalChar::kNothing) sink.put(part.point(), part.char_class());
  }

  // A syllable is taken apart by arithmetic (Unicode, section 3.12): 19 leads, 21 vowels, 27 tails or none.
  template <class Sink>
  void feed_hangul(u32 syllable, Sink& sink) {
    sink.put(0x1100 + syllable / 588, CharClass::kLetter);
    sink.put(0x1161 + syllable % 588 / 28, CharClass::kLetter);
    if (syllable % 28) sink.put(0x11A7 + syllable % 28, CharClass::kLetter);
  }

  template <class Sink>
  void flush_marks(Sink& sink) {
    std::sort(marks_.begin(), marks_.end());  // class first, then the order of arrival
    for (u64 mark : marks_) sink.put(static_cast<u32>(mark & 0x1FFFFF), CharClass::kLetter);
    marks_.clear();
    if (marks_.capacity() > kMarksKept) std::vector<u64>().swap(marks_);
  }

  static constexpr std::size_t kMarksKept = 4096;
  const CharTable& table_;
  std::vector<u64> marks_;
};

// Normalized characters to UTF-8.
struct TextSink {
  std::string& text;
  void put(u32 point, CharClass c) {
    u8 bytes[4];
    const u32 n_bytes = encode_utf8(point, bytes);
    if (c == CharClass::kChinese) text.push_back(' ');
    text.append(reinterpret_cast<const char*>(bytes), n_bytes);
    if (c == CharClass::kChinese) text.push_back(' ');
  }
};

// The whole normalized text, as UTF-8.
inline std::string normalize_text(const CharTable& table, std::string_view text) {
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
