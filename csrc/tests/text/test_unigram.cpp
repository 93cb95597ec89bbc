// The best paths of Unigram against all ways to split a text, and literal ids of a whole tokenizer. That its ids are
// those of the `tokenizers` package is for tests/tokenizers/test_sentencepiece.py.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/check.h"
#include "text/tokenizer.h"
#include "text/unigram/unigram.h"

using namespace fastqps;
using namespace fastqps::text;

namespace {

struct Split {
  double score;
  std::vector<u32> lasts;  // where the pieces begin in the reversed order, the last piece first
  std::vector<u32> ids;
};

// A vocabulary as a plain map, and every split of a text in turn.
struct Pieces {
  std::map<std::string, u32> ids;
  std::vector<double> scores;
  double least = 0;

  void add(const std::string& piece, double score) {
    if (!ids.emplace(piece, static_cast<u32>(scores.size())).second) return;
    least = scores.empty() ? score : std::min(least, score);
    scores.push_back(score);
  }
  PieceTable table() const {
    return PieceTable(std::vector<std::pair<std::string, u32>>(ids.begin(), ids.end()), scores, least);
  }

  Split best(const std::vector<std::string>& chars) const {
    Split found;
    bool any = false;
    for (u32 cuts = 0; cuts < 1u << (chars.size() - 1); ++cuts) {  // bit i: a piece ends behind character i
      Split split{0, {}, {}};
      bool possible = true;
      u32 begin = 0, end = 0, n_chars = 0;
      std::string piece;
      for (u32 i = 0; i < chars.size() && possible; ++i) {
        piece += chars[i];
        end += static_cast<u32>(chars[i].size());
        ++n_chars;
        if (i + 1 < chars.size() && !(cuts >> i & 1)) continue;
        const auto at = ids.find(piece);
        possible = at != ids.end() || n_chars == 1;
        split.score += at != ids.end() ? scores[at->second] : least - 10;
        split.ids.push_back(at != ids.end() ? at->second : Trie::kNone);
        split.lasts.insert(split.lasts.begin(), begin);
        begin = end;
        n_chars = 0;
        piece.clear();
      }
      if (!possible) continue;
      if (any && (split.score < found.score || (split.score == found.score && split.lasts > found.lasts))) continue;
      found = split;
      any = true;
    }
    return found;
  }
};

void check_path(const Pieces& pieces, BestPath& path, const std::vector<std::string>& chars) {
  std::string text;
  for (const std::string& c : chars) text += c;
  const Split want = pieces.best(chars);
  const auto& found = path.find(reinterpret_cast<const u8*>(text.data()), static_cast<u32>(text.size()));
  CHECK_EQ(found.size(), want.ids.size() + 1);
  CHECK_EQ(found.back().begin, text.size());
  for (std::size_t i = 0; i < want.ids.size(); ++i) {
    CHECK_EQ(found[i].id, want.ids[i]);
    CHECK_EQ(found[i].begin, want.lasts[want.ids.size() - 1 - i]);
  }
}

std::string file(const char* byte_fallback) {
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":1,"content":"</s>",)"
         R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":null,)"
         R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true},)"
         R"("post_processor":null,"decoder":null,"model":{"type":"Unigram","unk_id":0,"byte_fallback":)" +
         std::string(byte_fallback) +
         R"(,"vocab":[["<unk>",0],["</s>",0],["▁",-3],["▁the",-2],["the",-4],["re",-3],["t",-5],["h",-5],["e",-5],)"
         R"(["r",-5],["▁there",-9],["<0xC3>",-8],["<0xA9>",-8],["▁th",-2.5],["er",-2]]}})";
}

std::vector<u32> ids_of(Tokenizer& tokenizer, std::string_view text) {
  std::vector<u32> ids(64);
  ids.resize(tokenizer.encode(text, ids.data(), 64).n_tokens);
  return ids;
}

}  // namespace

// Scores are quarters, so that sums are exact and splits of equal scores frequent.
TEST(best_paths_are_those_of_all_splits) {
  std::mt19937 random(11);
  const std::vector<std::string> alphabet = {"a", "b", "é", "語", "😀", " "};
  const auto draw = [&](u32 n) {
    std::vector<std::string> chars;
    for (u32 i = 0; i < n; ++i) chars.push_back(alphabet[random() % alphabet.size()]);
    return chars;
  };
  for (int round = 0; round < 60; ++round) {
    Pieces pieces;
    for (u32 i = 0, n = 1 + random() % 40; i < n; ++i) {
      std::string piece;
      for (const std::string& c : draw(1 + random() % 4)) piece += c;
      pieces.add(piece, (static_cast<int>(random() % 24) - 20) / 4.0);
    }
    const PieceTable table = pieces.table();
    BestPath path(table);
    for (int text = 0; text < 40; ++text) check_path(pieces, path, draw(1 + random() % 10));
  }
}

TEST(of_equal_paths_the_one_with_the_longest_last_piece_is_taken) {
  Pieces pieces;
  for (const char* piece : {"a", "aa"}) pieces.add(piece, 0);
  const PieceTable table = pieces.table();
  BestPath path(table);
  const u8 text[] = {'a', 'a', 'a'};
  const auto& found = path.find(text, 3);
  CHECK_EQ(found.size(), 3u);
  CHECK_EQ(found[0].id, 0u);
  CHECK_EQ(found[1].id, 1u);
  CHECK_EQ(found[1].begin, 1u);
}

TEST(literal_ids) {
  const struct {
    const char* text;
    std::vector<u32> ids, with_bytes;
  } kRows[] = {
      {"", {}, {}},
      {"the", {3}, {3}},
      {"there", {3, 5}, {3, 5}},     // -2 - 3, above ▁th er e: -2.5 - 2 - 5
      {"ther", {13, 14}, {13, 14}},  // -2.5 - 2, above ▁the r: -2 - 5
      {"the the", {3, 3}, {3, 3}},   //
      {" the", {3}, {3}},            // a space in front is the one that is put there
      {"e  t", {2, 8, 2, 2, 6}, {2, 8, 2, 2, 6}},
      {"é", {2, 0}, {2, 11, 12}},
      {"éé", {2, 0}, {2, 11, 12, 11, 12}},  // neighbours that are unknown are one
      {"éte", {2, 0, 6, 8}, {2, 11, 12, 6, 8}},
      {"ü", {2, 0}, {2, 0}},  // not all of its bytes are pieces
      {"the</s>the", {3, 1, 3}, {3, 1, 3}},
  };
  std::string why;
  const auto plain = load_native(file("false"), &why), bytes = load_native(file("true"), &why);
  if (!plain || !bytes) test::fail(__FILE__, __LINE__, why);
  for (const auto& row : kRows)
    for (int again = 0; again < 2; ++again) {  // from the cache
      if (ids_of(*plain, row.text) != row.ids || ids_of(*bytes, row.text) != row.with_bytes)
        test::fail(__FILE__, __LINE__, row.text);
    }
}
