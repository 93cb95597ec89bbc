// Which of the best paths of Unigram is taken. That its ids are those of the `tokenizers` package is for
// tests/tokenizers/test_sentencepiece.py.
#include "tests/check.h"
#include "text/unigram/unigram.h"

using namespace fastqps;
using namespace fastqps::text;

TEST(of_equal_paths_the_one_with_the_longest_last_piece_is_taken) {
  const PieceTable table({{"a", 0}, {"aa", 1}}, {0.0, 0.0}, 0);
  BestPath path(table);
  const u8 text[] = {'a', 'a', 'a'};
  const auto& found = path.find(text, 3);
  CHECK_EQ(found.size(), 3u);
  CHECK_EQ(found[0].id, 0u);
  CHECK_EQ(found[1].id, 1u);
  CHECK_EQ(found[1].begin, 1u);
}
