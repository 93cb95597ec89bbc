// Literal texts of ids in pieces. That any bytes in any pieces are what the `tokenizers` package decodes is for
// tests/tokenizers/test_bpe.py.
#include "tests/check.h"
#include "text/load/detokenizer.h"

using namespace fastqps;
using namespace fastqps::text;

namespace {

using Ids = std::vector<u32>;
const std::string kBad = "\xEF\xBF\xBD";

std::string decode(const Detokenizer& of, const std::vector<Ids>& pieces, const char* between = "") {
  DetokenizerState state;
  std::string out;
  for (const Ids& ids : pieces) {
    of.append(state, ids.data(), ids.size(), out);
    out += between;
  }
  of.finish(state, out);
  return out;
}

}  // namespace

TEST(characters_are_whole) {
  const Detokenizer of({{0, "caf\xC3"}, {1, "\xA9 "}, {2, "\xF0\x9F"}, {3, "\x98"}, {4, "\x80!"}, {7, "x"}});
  CHECK_EQ(decode(of, {{0}, {1}}, "|"), std::string("caf|é |"));
  CHECK_EQ(decode(of, {{2}, {3}, {4}}, "|"), std::string("||😀!|"));
  CHECK_EQ(decode(of, {{2, 7}, {3}}, "|"), kBad + "x|" + kBad + "|");
  CHECK_EQ(decode(of, {{2}, {2}, {3}, {4}}, "|"), "|" + kBad + "||😀!|");
  CHECK_EQ(decode(of, {{2, 3}}, "|"), "|" + kBad);
  CHECK_EQ(decode(of, {{0}, {}, {99, 5, 4000000000u}, {1}}, "|"), std::string("caf|||é |"));
  CHECK_EQ(of.n_ids(), 8u);
}

TEST(a_file) {
  const std::string head =
      R"({"version":"1.0","pre_tokenizer":null,"added_tokens":[{"id":5,"content":"<s>","single_word":false,)"
      R"("lstrip":false,"rstrip":false,"normalized":false,"special":true},{"id":6,"content":"é ","single_word":)"
      R"(false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}],)"
      R"("model":{"type":"BPE","vocab":{"Ġa":0,"Ã":1,"©":2,"é":3,"日本":4},"merges":[]},"decoder":)";
  std::string why;
  const auto of = load_detokenizer(head + R"({"type":"Sequence","decoders":[{"type":"ByteLevel"}]}})", &why);
  if (!of) test::fail(__FILE__, __LINE__, why);
  CHECK_EQ(decode(*of, {{0, 1, 2}}), std::string(" aé"));
  CHECK_EQ(decode(*of, {{5, 6, 4}}), std::string("é 日本"));  // special, and what is not of the alphabet
  CHECK_EQ(decode(*of, {{3, 0}}), kBad + " a");
  for (const char* decoder : {"null", R"({"type":"WordPiece"})", R"({"type":"Sequence","decoders":[]})",
                              R"({"type":"ByteLevel","more":1})"}) {
    CHECK(!load_detokenizer(head + decoder + "}", &why));
    CHECK(why.find("decoder") != std::string::npos);
  }
  CHECK(!load_detokenizer("/no/such/file", &why));
}
