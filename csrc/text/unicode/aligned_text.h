// BERT's normalizer once more, slower: it says of each character where in the text it comes from, as the `tokenizers`
// package does. Normalizer is the fast one.
#pragma once
#include <string_view>
#include <vector>

#include "text/unicode/char_table.h"

namespace fastqps::text {

class AlignedText {
 public:
  struct Char {
    u32 point;
    u32 source;  // the place of a character in the text that was normalized
    CharClass char_class;
  };

  // Fills chars() from `text`, whose own first character has the number `first`. They stand where the package
  // puts them: a character that is taken apart gives its place to its parts, and marks that are put in another order
  // take each other's places.
  void normalize(std::string_view text, u32 first, NormalizerFlags flags);
  const std::vector<Char>& chars() const { return chars_; }

 private:
  struct Part {
    u32 point, source, ccc;
    bool is_new;  // not the first of those that a character was taken apart into
  };
  void read(std::string_view text, u32 first, NormalizerFlags flags);
  void take_apart();
  void put_in_order();
  void place();
  void put(u32 point, u32 source, bool chinese, bool lowercase);

  std::vector<Part> parts_, apart_;
  std::vector<Char> chars_;
};

}  // namespace fastqps::text
