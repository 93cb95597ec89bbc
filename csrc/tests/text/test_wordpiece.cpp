// Literal ids, hostile bytes, and edges of the native WordPiece. That its ids are those of the `tokenizers` package is
// for tests/tokenizers/test_tokenizer.py, and where texts are cut for test_cuts.py.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "contract/utf8.h"
#include "tests/text/tokenizing.h"
#include "text/trie.h"
#include "text/words/word_cache.h"

using namespace fastqps;
using namespace fastqps::text;

namespace {

// [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4, then these from 5 on.
const char* const kWords[] = {"hello", "world", "##s", "un", "##aff", "##able", ",",   "!",    "[",  "]",
                              "中",    "cafe",  "i",   "ss", "##ss",  "a",      "##a", "mask", "ᄒ", "##ᅡ"};
constexpr u32 kHello = 5, kWorld = 6, kS = 7, kUn = 8, kAff = 9, kAble = 10, kComma = 11, kBang = 12, kOpen = 13,
              kClose = 14, kChina = 15, kCafe = 16, kI = 17, kA = 20, kMoreA = 21, kMask = 22, kHieuh = 23, kVowel = 24;

std::string file(const std::string& extra_token = "", const std::string& truncation = "null",
                 const std::string& clean = "true") {
  std::string vocab = R"("[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"[MASK]":4)";
  u32 id = 5;
  for (const char* word : kWords) vocab += ",\"" + std::string(word) + "\":" + std::to_string(id++);
  std::string added;
  const char* const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (u32 i = 0; i < 5; ++i) {
    added += (i ? "," : "") + std::string(R"({"id":)") + std::to_string(i) + R"(,"content":")" + special[i] +
             R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})";
  }
  return R"({"version":"1.0","truncation":)" + truncation + R"(,"padding":null,"added_tokens":[)" + added +
         extra_token + R"(],"normalizer":{"type":"BertNormalizer","clean_text":)" + clean +
         R"(,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},)" +
         R"("pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing",)" +
         R"("sep":["[SEP]",3],"cls":["[CLS]",2]},"decoder":null,"model":{"type":"WordPiece","unk_token":"[UNK]",)" +
         R"("continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{)" + vocab + "}}}";
}

std::unique_ptr<Tokenizer> load(const std::string& content = file()) { return loaded(content); }

// Without the special tokens.
Ids ids_of(Tokenizer& tokenizer, std::string_view text) {
  Ids out(text.size() * 4 + 2);
  const Encoded done = tokenizer.encode(text, out.data(), static_cast<u32>(out.size()));
  CHECK(!done.truncated);
  CHECK_EQ(done.n_tokens, done.n_total);
  CHECK_EQ(done.first_len, done.n_tokens);
  CHECK_EQ(out[0], 2u);
  CHECK_EQ(out[done.n_tokens - 1], 3u);
  return Ids(out.begin() + 1, out.begin() + done.n_tokens - 1);
}

}  // namespace

TEST(literal_ids) {
  const struct {
    const char* text;
    Ids ids;
  } table[] = {
      {"", {}},
      {"   \t\n", {}},
      {"hello world", {kHello, kWorld}},
      {"Hello, WORLDS!", {kHello, kComma, kWorld, kS, kBang}},
      {"unaffable unaffablex", {kUn, kAff, kAble, 1}},
      {"caf\u00e9 cafe\u0301 CAF\u00c9", {kCafe, kCafe, kCafe}},
      {"hello\u4e2dhello", {kHello, kChina, kHello}},
      {"\u0130 I i", {kI, kI, kI}},
      {"a[MASK]a", {kA, 4, kA}},
      {"a[mask]a", {kA, kOpen, kMask, kClose, kA}},
      {"[[MASK]]", {kOpen, 4, kClose}},
      {"[MAS [MASK", {kOpen, 1, kOpen, kMask}},
      {"he\x01llo he\u200bllo \ufeffhello", {kHello, kHello, kHello}},
      {"hello\u00a0world\u3000world\u2028a", {kHello, kWorld, kWorld, kA}},
      {"\ud558 \u1112\u1161", {kHieuh, kVowel, kHieuh, kVowel}},
      {"\u1112\u1161\u11ab", {1}},
  };
  const auto tokenizer = load();
  for (int round = 0; round < 2; ++round) {  // the second time from the cache
    for (const auto& row : table) CHECK_EQ(show(ids_of(*tokenizer, row.text)), show(row.ids));
  }
}

TEST(a_word_of_a_hundred_characters_is_the_longest) {
  const auto tokenizer = load();
  Ids hundred(100, kMoreA);
  hundred[0] = kA;
  CHECK_EQ(show(ids_of(*tokenizer, std::string(100, 'a'))), show(hundred));
  CHECK_EQ(show(ids_of(*tokenizer, std::string(101, 'a'))), show({1}));
  CHECK_EQ(show(ids_of(*tokenizer, std::string(100000, 'a') + " a")), show({1, kA}));
  std::string accented;
  for (int i = 0; i < 100; ++i) accented += "\u00e1";
  CHECK_EQ(show(ids_of(*tokenizer, accented)), show(hundred));
  CHECK_EQ(show(ids_of(*tokenizer, accented + "\u0301\u0301")), show(hundred));  // removed marks do not count
  CHECK_EQ(show(ids_of(*tokenizer, accented + "a")), show({1}));
}

TEST(every_length_up_to_past_the_window) {
  const auto tokenizer = load();
  for (std::size_t spaces = 1000; spaces < 1050; ++spaces) {  // words across the edge of 1,024 bytes
    const std::string text = std::string(spaces, ' ') + "hello, unaffable!" + std::string(spaces, ' ') + "worlds";
    CHECK_EQ(show(ids_of(*tokenizer, text)), show({kHello, kComma, kUn, kAff, kAble, kBang, kWorld, kS}));
  }
  for (std::size_t n = 1; n < 300; ++n) {
    std::string text;
    Ids expected;
    for (std::size_t i = 0; i < n; ++i) {
      text += i % 3 ? "hello " : i % 2 ? "a," : "\u00e1 ";
      expected.push_back(i % 3 ? kHello : kA);
      if (i % 3 == 0 && i % 2) expected.push_back(kComma);
    }
    CHECK_EQ(show(ids_of(*tokenizer, text)), show(expected));
  }
}

TEST(single_word_tokens) {
  const u32 solo = 25;  // the first id after the vocabulary
  const auto tokenizer =
      load(file(R"(,{"id":25,"content":"solo","single_word":true,"lstrip":false,"rstrip":false,"normalized":false,)"
                R"("special":false})"));
  CHECK_EQ(tokenizer->vocab_size(), solo + 1);
  CHECK_EQ(show(ids_of(*tokenizer, "solo solo, Solo (solo)")), show({solo, solo, kComma, 1, 1, solo, 1}));
  CHECK_EQ(show(ids_of(*tokenizer, "soloa \u00e9solo solo\u00e9 solo_")), show({1, 1, 1, 1, 1}));
  CHECK_EQ(show(ids_of(*tokenizer, "asolo")), show({1}));
  CHECK_EQ(show(ids_of(*tokenizer, "solosolo \u4e2dsolo \u2014solo")), show({1, kChina, 1, 1, solo}));
}

TEST(pairs_are_cut_longest_first) {
  const struct {
    u32 first, second, max_tokens, kept_first, kept_second;
  } table[] = {
      {3, 2, 8, 3, 2},   {3, 2, 7, 2, 2},   {5, 1, 6, 2, 1},   {1, 5, 6, 1, 2},   {5, 5, 8, 2, 3},
      {6, 5, 8, 3, 2},   {5, 6, 8, 2, 3},   {5, 5, 9, 3, 3},   {0, 9, 8, 0, 5},   {9, 0, 8, 5, 0},
      {50, 50, 3, 0, 0}, {50, 50, 4, 0, 1}, {51, 50, 4, 1, 0}, {2, 99, 10, 2, 5}, {0, 0, 3, 0, 0},
  };
  const auto tokenizer = load();
  CHECK_EQ(tokenizer->second_type_id(), 1u);
  CHECK_EQ(tokenizer->n_special(true), 3u);
  for (const auto& row : table) {
    std::string first, second;
    for (u32 i = 0; i < row.first; ++i) first += "hello ";
    for (u32 i = 0; i < row.second; ++i) second += "world ";
    Ids expected{2};
    expected.insert(expected.end(), row.kept_first, kHello);
    expected.push_back(3);
    expected.insert(expected.end(), row.kept_second, kWorld);
    expected.push_back(3);
    Ids out(row.max_tokens + 1, 77);
    const Encoded done = tokenizer->encode_pair(first, second, out.data(), row.max_tokens);
    CHECK_EQ(done.n_total, row.first + row.second + 3);
    CHECK_EQ(done.first_len, row.kept_first + 2);
    CHECK_EQ(done.truncated, done.n_tokens < done.n_total);
    CHECK_EQ(out[row.max_tokens], 77u);
    out.resize(done.n_tokens);
    CHECK_EQ(show(out), show(expected));
  }
  u32 none = 77;
  const Encoded done = tokenizer->encode_pair("hello", "world", &none, 0);
  CHECK(done.n_tokens == 0 && done.truncated && done.n_total == 5 && none == 77);
}

TEST(nothing_outside_of_the_text_is_read) {
  const auto tokenizer = load();
  Fenced memory;
  const std::string whole =
      "Hello [MASK] caf\u00e9, \u4e2d\u6587 \U0001F600 unaffable worlds! \u0130\u0301\u302e [MAS and more of the same, "
      "until some blocks of sixty-four bytes are full [SEP]";
  u32 out[256];
  for (std::size_t n = 0; n <= whole.size(); ++n) {  // also in the middle of code points
    const Encoded fenced = tokenizer->encode(memory.put(whole.substr(0, n)), out, 256);
    const Ids found(out, out + fenced.n_tokens);
    const Encoded plain = tokenizer->encode(whole.substr(0, n), out, 256);
    CHECK_EQ(show(found), show(Ids(out, out + plain.n_tokens)));
    tokenizer->encode(memory.put(whole.substr(n)), out, 256);
    tokenizer->encode_pair(memory.put(whole.substr(n)), "a", out, 256);
  }
}

TEST(random_bytes_are_harmless) {
  const std::string normalized =
      R"(,{"id":25,"content":"caf","single_word":true,"lstrip":true,"rstrip":true,"normalized":true,"special":false})";
  const std::unique_ptr<Tokenizer> all[] = {load(), load(file("", "null", "false")), load(file(normalized))};
  std::mt19937 random(5);
  Fenced memory;
  u32 out[64 + 1];
  for (int round = 0; round < 30000; ++round) {
    std::string text(random() % 200, ' ');
    const u32 kind = random() % 3;
    for (char& c : text)
      c = static_cast<char>(kind == 0   ? random()
                            : kind == 1 ? 0x20 + random() % 0x60
                                        : "[MASK]\xc3\xa9\xed "[random() % 10]);
    const u32 room = random() % 65;
    Tokenizer& tokenizer = *all[round % 3];
    out[room] = 77;
    const Encoded done = tokenizer.encode(memory.put(text), out, room);
    CHECK(done.n_tokens <= room && out[room] == 77);
    CHECK(done.n_total <= text.size() + 2);
    for (u32 i = 0; i < done.n_tokens; ++i) CHECK(out[i] < tokenizer.vocab_size());
    const Encoded pair = tokenizer.encode_pair(memory.put(text), text, out, room);
    CHECK(pair.n_tokens <= room && out[room] == 77);
  }
}

TEST(a_long_run_of_marks_is_sorted_and_bounded) {
  const auto tokenizer = load();
  std::string marks = "a";
  for (int i = 0; i < 200000; ++i) marks += i % 2 ? "\u302e" : "\U0001D165";
  CHECK_EQ(show(ids_of(*tokenizer, marks + " a")), show({1, kA}));
}

TEST(nul_is_a_letter_where_text_is_not_cleaned) {
  const auto tokenizer = load(file("", "null", "false"));
  const std::string text("a a\0 a", 6);
  for (int round = 0; round < 2; ++round) CHECK_EQ(show(ids_of(*tokenizer, text)), show({kA, 1, kA}));
}

TEST(clones_share_nothing_that_changes) {
  const auto tokenizer = load(file("", R"({"max_length":128,"strategy":"LongestFirst","stride":0})"));
  const auto other = tokenizer->clone();
  CHECK_EQ(show(ids_of(*other, "hello worlds")), show(ids_of(*tokenizer, "hello worlds")));
  CHECK_EQ(other->file_truncation()->max_tokens, 128u);
  CHECK_EQ(other->family(), "wordpiece");
}

TEST(the_cache_forgets_and_stays_right) {
  const auto tokenizer = load();
  for (int i = 0; i < 300000; ++i) ids_of(*tokenizer, "x" + std::to_string(i));  // more words than it has places
  CHECK_EQ(show(ids_of(*tokenizer, "unaffable hello")), show({kUn, kAff, kAble, kHello}));
}

TEST(the_cache_never_gives_another_words_ids) {
  WordCache cache;
  std::mt19937_64 random(9);
  for (int i = 0; i < 200000; ++i) {
    const u64 r = random();
    const WordKey key{1 + r % 3, r % 3 == 0 ? 0 : r >> 45};  // few low halves, many high halves
    const u32 ids[] = {static_cast<u32>(key.low), static_cast<u32>(key.high), 7};
    if (const WordCache::Entry* found = cache.find(key)) {
      CHECK(found->n_ids == 3 && std::memcmp(found->ids, ids, sizeof(ids)) == 0);
    } else {
      cache.insert(key, ids, 3);
      CHECK(cache.find(key));
    }
  }
}

TEST(refusals_have_a_reason) {
  check_refused("/no/such/file", "cannot read");
  check_refused("{", "not a JSON object");
  check_refused("{}", "no model");
  check_refused(R"({"model":{"type":"BPE"},"pre_tokenizer":null})", "no vocab");
}

TEST(trie_finds_every_key_and_no_other) {
  std::mt19937 random(3);
  std::vector<std::pair<std::string, u32>> keys;
  std::map<std::string, u32> oracle;
  while (oracle.size() < 20000) {
    std::string key(1 + random() % 6, 0);
    for (char& c : key) c = static_cast<char>(random() % (random() % 2 ? 256 : 8));
    if (oracle.emplace(key, oracle.size()).second) keys.emplace_back(key, oracle[key]);
  }
  const Trie trie(keys);
  const auto find = [&](const std::string& key) {
    u32 node = Trie::kRoot;
    for (char c : key) {
      node = trie.step(node, static_cast<u8>(c));
      if (node == Trie::kNone) return node;
    }
    return trie.value(node);
  };
  for (const auto& [key, value] : oracle) CHECK_EQ(find(key), value);
  for (int i = 0; i < 100000; ++i) {
    std::string key(1 + random() % 7, 0);
    for (char& c : key) c = static_cast<char>(random() % (random() % 2 ? 256 : 8));
    const auto known = oracle.find(key);
    CHECK_EQ(find(key), known == oracle.end() ? Trie::kNone : known->second);
  }
}

TEST(decoding_agrees_with_encoding) {
  for (u32 point = 0; point < kCodePoints; ++point) {
    u8 bytes[4];
    const u32 n = encode_utf8(point, bytes);
    const bool surrogate = point >= 0xD800 && point < 0xE000;
    const Decoded found = decode(bytes, bytes + n);
    CHECK_EQ(found.point, surrogate ? kReplacement : point);
    CHECK_EQ(found.n_bytes, surrogate ? 1u : n);
    CHECK_EQ(decode_before(bytes, bytes + n), surrogate ? kReplacement : point);
    CHECK_EQ(text::valid_utf8({reinterpret_cast<const char*>(bytes), n}), !surrogate);
    if (n > 1) CHECK(!text::valid_utf8({reinterpret_cast<const char*>(bytes), n - 1}));
  }
}
