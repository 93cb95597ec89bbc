// The common part of the native families: special tokens around a text or a pair, and the cut to a number of tokens.
#pragma once
#include <vector>

#include "text/tokenizer.h"

namespace fastqps::text {

// The special tokens around a text and around a pair: head A tail, and head A middle B tail.
struct Template {
  std::vector<u32> single_head, single_tail;
  std::vector<u32> pair_head, pair_middle, pair_tail;
  u32 n_middle_first = 0;  // ids of the middle that still have type id 0
  u32 second_type_id = 0;

  void keep(SpecialTokens which);
  u32 largest_id() const;
};

// The parameters of every tokenizer's common part.
struct Surround {
  Template special;
  std::optional<FileTruncation> truncation;
  bool cut_left = false;  // a text that is too long keeps its end
};

class TemplateTokenizer : public Tokenizer {
 public:
  Encoded encode(std::string_view text, u32* out, u32 max_tokens, Cut cut) final;
  Encoded encode_pair(std::string_view first, std::string_view second, u32* out, u32 max_tokens, Cut cut) final;
  Encoded encode_spans(std::string_view text, u32* out, u32 max_tokens, std::vector<TokenSpan>& spans, Cut cut) final;
  bool finds_spans(u32) const override { return false; }
  Encoded encode_fixed(std::string_view text, std::span<const FixedToken> fixed, u32* out, u32 max_tokens,
                       Cut cut) final;
  bool encodes_fixed() const override { return false; }
  u32 n_special(bool pair) const final;
  u32 n_leading() const final { return static_cast<u32>(around_.special.single_head.size()); }
  u32 second_type_id() const final { return around_.special.second_type_id; }
  std::optional<FileTruncation> file_truncation() const final { return around_.truncation; }

 protected:
  // `around` lives as long as the tokenizer.
  explicit TemplateTokenizer(const Surround& around) : around_(around) {}

  // Keeps the first `room` ids, or the last ones as a ring, and counts them, up to enough() at least.
  struct Ids {
    u32* out;
    u32 room;
    bool keep_last;
    u32 counted;  // more than these need not be counted
    u32 n = 0;
    bool enough() const { return n > counted; }
    void put(u32 id) {
      if (n < room) {
        out[n] = id;
      } else if (keep_last && room) {
        out[n % room] = id;
      }
      ++n;
    }
  };
  // The text's own ids, until they are enough(); what is put behind those has no meaning.
  virtual void run(std::string_view text, Ids& ids) = 0;
  // The same, and appends their spans. Only if finds_spans().
  virtual void run_spans(std::string_view, Ids&, std::vector<TokenSpan>&) {}
  // The ids of a part of a text in which no special token is looked for. first: nothing is in front of it. Only if
  // encodes_fixed().
  virtual void run_part(std::string_view, bool /*first*/, Ids&) {}

 private:
  Encoded encode_with(std::string_view text, u32* out, u32 max_tokens, std::vector<TokenSpan>* spans, Cut cut);
  struct Lengths {
    u32 first, second;
  };
  static void settle(Ids& ids);
  // Their ids to out and to second_, of each as many as `room` holds; how many each has.
  Lengths count_pair(std::string_view first, std::string_view second, u32* out, u32 room, Cut cut);
  // most: that are counted, unless the last ones are kept.
  u32 count(std::string_view text, u32* out, u32 room, u32 most, std::vector<TokenSpan>* spans = nullptr);
  static Lengths cut_pair(Lengths whole, u32 room, Cut cut);

  const Surround& around_;
  std::vector<u32> second_;  // a pair's second text
};

}  // namespace fastqps::text
