// Literal texts of ids, and pieces against the whole. That the whole is what the `tokenizers` package decodes is for
// tests/tokenizers/test_bpe.py.
#include <random>

#include "tests/check.h"
#include "text/detokenizer.h"
#include "text/unicode/utf8.h"

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

// Each byte has its own id.
Detokenizer of_bytes() {
  std::vector<std::pair<u32, std::string>> tokens;
  for (u32 byte = 0; byte < 256; ++byte) tokens.emplace_back(byte, std::string(1, static_cast<char>(byte)));
  return Detokenizer(tokens);
}

std::vector<Ids> alone(const std::string& bytes) {
  std::vector<Ids> out;
  for (const char c : bytes) out.push_back({static_cast<u8>(c)});
  return out;
}

// By the definition (Unicode 3.9, U+FFFD for maximal subparts): a byte at a time, with what may still follow.
std::string lossy(const std::string& bytes) {
  const u8* p = reinterpret_cast<const u8*>(bytes.data());
  const u8* end = p + bytes.size();
  std::string out;
  while (p < end) {
    if (const int n = utf8_length(p, end)) {
      out.append(reinterpret_cast<const char*>(p), static_cast<std::size_t>(n));
      p += n;
      continue;
    }
    out += kBad;
    u32 longest = 1;
    for (u32 n = 2; n <= 3 && p + n <= end; ++n) {  // some continuation makes a character of the first n bytes
      bool may = false;
      for (u32 last = 0; last < 64 * 64 && !may; ++last) {
        u8 whole[5] = {p[0], p[1], n > 2 ? p[2] : static_cast<u8>(0x80 | last % 64), static_cast<u8>(0x80 | last / 64)};
        may = utf8_length(whole, whole + 4) > static_cast<int>(n);
      }
      if (!may) break;
      longest = n;
    }
    p += longest;
  }
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

TEST(invalid_bytes_are_replaced_as_they_come) {
  const Detokenizer of = of_bytes();
  const struct {
    std::string bytes, text;
  } table[] = {
      {"\x80", kBad},
      {"\xC0\xAF", kBad + kBad},
      {"\xE0\x80\x80", kBad + kBad + kBad},
      {"\xED\xA0\x80", kBad + kBad + kBad},
      {"\xE1\x80", kBad},
      {"\xF0\x90\x80"
       "a",
       kBad + "a"},
      {"\xF0\x8F\xBF\xBF", kBad + kBad + kBad + kBad},
      {"\xF4\x90\x80\x80", kBad + kBad + kBad + kBad},
      {"\xF5\x80", kBad + kBad},
      {"\xE1\x80\xC3\xA9", kBad + "é"},
      {"\xF1\x80\xE1\x80\xC2", kBad + kBad + kBad},
      {std::string("a\0b", 3), std::string("a\0b", 3)},
  };
  for (const auto& row : table) {
    CHECK_EQ(lossy(row.bytes), row.text);
    CHECK_EQ(decode(of, alone(row.bytes)), row.text);
    CHECK_EQ(decode(Detokenizer({{0, row.bytes}}), {{0}}), row.text);
  }
}

TEST(pieces_give_the_whole) {
  const Detokenizer of = of_bytes();
  std::mt19937 random(5);
  const u8 hard[] = {0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
                     0xED, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF, 0x00, 0x80, 0xA0, 0xBF};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    for (u32 n = static_cast<u32>(random()) % 9; n; --n) bytes += static_cast<char>(hard[random() % sizeof(hard)]);
    const std::string whole = lossy(bytes);
    CHECK_EQ(decode(of, alone(bytes)), whole);
    std::vector<std::pair<u32, std::string>> tokens;  // the same bytes in random pieces
    std::vector<Ids> ids;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t n = 1 + random() % 4;
      tokens.emplace_back(static_cast<u32>(tokens.size()), bytes.substr(at, n));
      ids.push_back({static_cast<u32>(tokens.size()) - 1});
      at += n;
    }
    const Detokenizer pieces(tokens);
    CHECK_EQ(decode(pieces, ids), whole);
    // What has been given out is always valid by itself.
    DetokenizerState state;
    for (const Ids& piece : ids) {
      std::string out;
      pieces.append(state, piece.data(), piece.size(), out);
      CHECK(valid_utf8(out));
    }
  }
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
