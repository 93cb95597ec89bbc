// Literal splits and ids, hostile bytes, and edges of the native byte-level BPE. That its ids are those of the
// `tokenizers` package is for tests/tokenizers/test_bpe.py.
#include <time.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/text/tokenizing.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/merges.h"
#include "text/unicode/normal_form.h"
#include "text/words/word_split.h"

using namespace fastqps;
using namespace fastqps::text;

namespace {

template <WordRule kRule>
std::string words(std::string_view text) {
  const u8* at = reinterpret_cast<const u8*>(text.data());
  const u8* const end = at + text.size();
  WordSplit<kRule> split(at, end);
  std::string out;
  while (at < end) {
    const u8* next = split.next(at);
    CHECK(next > at && next <= end);
    out +=
        (out.empty() ? "" : "|") + std::string(reinterpret_cast<const char*>(at), static_cast<std::size_t>(next - at));
    at = next;
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return '"' + out + '"';
}

const char* const kGpt2 = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
const char* const kTemplate =
    R"({"type":"Sequence","processors":[{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":false},)"
    R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],)"
    R"("pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
    R"({"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[300],"tokens":["<s>"]}}}]})";

struct File {
  std::vector<std::pair<std::string, std::string>> merges;
  std::string pre_tokenizer = kGpt2;
  std::string post_processor = "null";
  std::string normalizer = "null";
  std::string model;  // more of the model's keys
  std::string added;  // more added tokens

  // The 256 bytes have their own numbers as ids, what is merged the next, <s> has 300.
  std::string content() const {
    std::string vocab, list;
    u32 id = 256;
    for (u32 byte = 0; byte < 256; ++byte) {
      vocab += (byte ? "," : "") + quoted(token_of_byte(static_cast<u8>(byte))) + ":" + std::to_string(byte);
    }
    std::map<std::string, bool> seen;
    for (const auto& [left, right] : merges) {
      if (!seen.emplace(left + right, true).second) continue;
      vocab += "," + quoted(left + right) + ":" + std::to_string(id++);
    }
    for (const auto& [left, right] : merges) {
      list += (list.empty() ? "[" : ",[") + quoted(left) + "," + quoted(right) + "]";
    }
    vocab += R"(,"<s>":300)";
    return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[{"id":300,"content":"<s>",)"
           R"("single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true})" +
           added + R"(],"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
           R"(,"post_processor":)" + post_processor + R"(,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE",)" +
           model + R"("vocab":{)" + vocab + R"(},"merges":[)" + list + "]}}";
  }
};

std::unique_ptr<Tokenizer> load(const File& file, SpecialTokens special = SpecialTokens::kAll) {
  return loaded(file.content(), special);
}

Ids ids_of(Tokenizer& tokenizer, std::string_view text) {
  Ids out(text.size() * 4 + tokenizer.n_special(false));
  const Encoded done = tokenizer.encode(text, out.data(), static_cast<u32>(out.size()));
  CHECK(!done.truncated);
  CHECK_EQ(done.n_tokens, done.n_total);
  out.resize(done.n_tokens);
  return out;
}

// Processor time of this thread: what else runs on the machine does not count.
double spent_s() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

TEST(gpt2_words) {
  const struct {
    const char *text, *split;
  } table[] = {
      {"", ""},
      {"Hello, world!", "Hello|,| world|!"},
      {"it's we'll WE'LL 'tis", "it|'s| we|'ll| WE|'|LL| '|tis"},
      {"a  b   ", "a| | b|   "},
      {"a\n\n b\t\tc", "a|\n\n| b|\t|\t|c"},
      {"x=1234;y", "x|=|1234|;|y"},
      {" 12 ab3", " 12| ab|3"},
      {"日本語。 é\xC2\xA0x", "日本語|。| é|\xC2\xA0|x"},
      {"½Ⅳ²", "½Ⅳ²"},
      {"'", "'"},
      {" ", " "},
      {"!'s", "!'|s"},
  };
  for (const auto& row : table) CHECK_EQ(words<WordRule::kGpt2>(row.text), std::string(row.split));
  CHECK_EQ(words<WordRule::kGpt2Digits>("a  12 b3  "), std::string("a|  |1|2| b|3|  "));
  CHECK_EQ(words<WordRule::kGpt2Digits>("½ x"), std::string("½| x"));
}

TEST(llama3_and_qwen_words) {
  const struct {
    const char *text, *llama3, *qwen;
  } table[] = {
      {"Hello, world!", "Hello|,| world|!", nullptr},
      {"12345 67", "123|45| |67", "1|2|3|4|5| |6|7"},
      {"WE'LL it'S'ſx", "WE|'LL| it|'S|'ſ|x", nullptr},
      {"a!\n\nb", "a|!\n\n|b", nullptr},
      {"a \n \n  b", "a| \n \n| | b", nullptr},
      {"\tx \xE3\x80\x80y $x", "\tx| |\xE3\x80\x80y| $|x", nullptr},
      {"#include <a>\r\n", "#include| <|a|>\r\n", nullptr},
      {"  !", " | !", nullptr},
      {"\t!", "\t|!", nullptr},
      {"  ", "  ", nullptr},
      {"'re're", "'re|'re", nullptr},
      {"'tx", "'t|x", nullptr},
      {"\r\n\r\nx", "\r\n\r\n|x", nullptr},
  };
  for (const auto& row : table) {
    CHECK_EQ(words<WordRule::kLlama3>(row.text), std::string(row.llama3));
    CHECK_EQ(words<WordRule::kQwen>(row.text), std::string(row.qwen ? row.qwen : row.llama3));
  }
}

TEST(nfc) {
  const struct {
    const char *text, *normal;
    bool quick;
  } table[] = {
      {"abc é ſ 日本語 각", "abc é ſ 日本語 각", true},
      {"e\xCC\x81", "é", false},
      {"q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87", false},  // marks in canonical order
      {"a\xCC\xA3\xCC\x82", "ậ", false},
      {"\xE2\x84\xAB", "Å", false},                         // the Angstrom sign
      {"\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC", false},  // excluded from composition
      {"\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "한", false},
      {"하\xE1\x86\xAB\xE1\x86\xAB", "한\xE1\x86\xAB", false},
      {"\xCC\x81"
       "e",
       "\xCC\x81"
       "e",
       false},
      {"e\xCC\xB4\xCC\x81", "\xC3\xA9\xCC\xB4", false},
      {"e\xE2\x80\x8D\xCC\x81", "e\xE2\x80\x8D\xCC\x81", false},  // a character of class 0 blocks
  };
  NormalForm::Scratch scratch;
  std::string out;
  for (const auto& row : table) {
    NormalForm::c().normalize(row.text, scratch, out);
    CHECK_EQ(out, std::string(row.normal));
    CHECK_EQ(NormalForm::c().surely_normal(row.text), row.quick);
  }
}

TEST(merges_go_by_rank) {
  File file;
  file.merges = {{"b", "c"}, {"a", "b"}, {"a", "bc"}, {"Ġ", "a"}, {"bc", "bc"}, {"ab", "c"}};
  const auto tokenizer = load(file);
  const u32 bc = 256, ab = 257, abc = 258, space_a = 259, bcbc = 260;
  const struct {
    const char* text;
    Ids ids;
  } table[] = {
      {"abc", {abc}},
      {" abc", {' ', abc}},  // " a" has a lower rank than "abc", but "bc" comes first and "a bc" before " a"
      {" ab", {' ', ab}},
      {" a", {space_a}},
      {"abbcbc", {ab, bcbc}},
      {"bcbcbc", {bcbc, bc}},  // leftmost first
      {"é", {0xC3, 0xA9}},
      {"<s>abc<s", {300, abc, '<', 's'}},
  };
  for (int round = 0; round < 2; round++)  // the second time from the cache
    for (const auto& row : table) CHECK_EQ(show(ids_of(*tokenizer, row.text)), show(row.ids));
}

TEST(long_words_merge_as_short_ones_do) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<Merge> merges;
    std::map<std::pair<u32, u32>, u32> made;  // ids made of four letters, distinct for distinct texts of pairs
    u32 next = 4;
    for (u32 i = 0; i < 40; ++i) {
      const std::pair<u32, u32> pair{random() % next, random() % next};
      if (made.emplace(pair, next).second) merges.push_back({pair.first, pair.second, next++});
    }
    const MergeTable table(merges);
    Merger merger(table);
    Ids ids(2 + random() % 300);
    for (u32& id : ids) id = random() % 4;
    Ids slow = ids;
    for (;;) {  // the definition
      u32 best_rank = MergeTable::kNone, best = 0;
      for (u32 i = 0; i + 1 < slow.size(); ++i) {
        const auto at = std::find_if(merges.begin(), merges.end(),
                                     [&](const Merge& m) { return m.left == slow[i] && m.right == slow[i + 1]; });
        const u32 rank = at == merges.end() ? MergeTable::kNone : static_cast<u32>(at - merges.begin());
        if (rank < best_rank) best_rank = rank, best = i;
      }
      if (best_rank == MergeTable::kNone) break;
      slow[best] = merges[best_rank].id;
      slow.erase(slow.begin() + best + 1);
    }
    ids.resize(merger.merge(ids));
    CHECK_EQ(show(ids), show(slow));
  }
}

TEST(special_tokens_around) {
  File file;
  file.post_processor = kTemplate;
  const auto with = load(file), without = load(file, SpecialTokens::kNone);
  CHECK_EQ(show(ids_of(*with, "ab")), std::string("300 97 98 "));
  CHECK_EQ(show(ids_of(*without, "ab")), std::string("97 98 "));
  CHECK_EQ(show(ids_of(*without, "<s>a")), std::string("300 97 "));
  CHECK_EQ(show(ids_of(*with, "")), std::string("300 "));
  CHECK_EQ(without->n_special(false) + without->n_special(true), 0u);
  CHECK_EQ(with->n_special(true), 1u);
  u32 out[3];
  Encoded done = with->encode("abcdef", out, 3);
  CHECK_EQ(show({out, out + done.n_tokens}), std::string("300 97 98 "));
  CHECK(done.truncated && done.n_total == 7);
  done = without->encode_pair("ab", "cd", out, 3);
  CHECK_EQ(show({out, out + done.n_tokens}), std::string("97 99 100 "));
  CHECK_EQ(done.first_len, 1u);
  CHECK_EQ(with->vocab_size(), 301u);
  CHECK_EQ(with->family(), std::string("bpe"));
}

// What stands behind a text stays, and counts; what stands in front of it does not.
TEST(trailing_special_tokens) {
  File file;
  file.post_processor =
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
      R"({"SpecialToken":{"id":"e","type_id":0}},{"SpecialToken":{"id":"f","type_id":0}}],)"
      R"("pair":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
      R"({"SpecialToken":{"id":"e","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"f","type_id":1}}],)"
      R"("special_tokens":{"<s>":{"id":"<s>","ids":[300,300],"tokens":["<s>","<s>"]},)"
      R"("e":{"id":"e","ids":[101],"tokens":["e"]},"f":{"id":"f","ids":[102],"tokens":["f"]}}})";
  const auto all = load(file), none = load(file, SpecialTokens::kNone), trailing = load(file, SpecialTokens::kTrailing);
  CHECK_EQ(show(ids_of(*all, "ab")), std::string("300 300 97 98 101 102 "));
  CHECK_EQ(show(ids_of(*none, "ab")), std::string("97 98 "));
  CHECK_EQ(show(ids_of(*trailing, "ab")), std::string("97 98 101 102 "));
  CHECK_EQ(show(ids_of(*trailing, "<s>a")), std::string("300 97 101 102 "));
  CHECK_EQ(show(ids_of(*trailing, "")), std::string("101 102 "));
  CHECK_EQ(show(ids_of(*trailing->clone(), "a")), std::string("97 101 102 "));
  CHECK(trailing->n_special(false) == 2 && trailing->n_special(true) == 2 && all->n_special(true) == 4);
  u32 out[5];
  Encoded done = trailing->encode("abcdef", out, 4);
  CHECK_EQ(show({out, out + done.n_tokens}), std::string("97 98 101 102 "));
  CHECK(done.truncated && done.n_total == 8 && done.first_len == 4);
  done = trailing->encode("ab", out, 1);
  CHECK(done.n_tokens == 0 && done.truncated && done.n_total == 4);
  done = trailing->encode_pair("ab", "cd", out, 5);
  CHECK_EQ(show({out, out + done.n_tokens}), std::string("97 101 99 100 102 "));
  CHECK(done.first_len == 2 && done.n_total == 6);
}

TEST(names_of_special_tokens) {
  CHECK(special_tokens_named("all") == SpecialTokens::kAll);
  CHECK(special_tokens_named("none") == SpecialTokens::kNone);
  CHECK(special_tokens_named("trailing") == SpecialTokens::kTrailing);
  CHECK(!special_tokens_named("") && !special_tokens_named("ALL"));
}

TEST(invalid_utf8_counts_as_replacement) {
  File file;
  file.merges = {{"ï", "¿"}, {"ï¿", "½"}};
  const auto tokenizer = load(file);
  const u32 bad = 257;
  CHECK_EQ(show(ids_of(*tokenizer,
                       "a\xFF"
                       "b")),
           show({'a', bad, 'b'}));
  CHECK_EQ(show(ids_of(*tokenizer, "\xE3\x81")), show(ids_of(*tokenizer, "\xEF\xBF\xBD\xEF\xBF\xBD")));
  CHECK_EQ(show(ids_of(*tokenizer, "\xED\xA0\x80<s>\x80")),
           show(ids_of(*tokenizer, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD<s>\xEF\xBF\xBD")));
}

TEST(a_nul_is_a_byte_like_others) {
  const auto tokenizer = load({});
  for (int round = 0; round < 2; ++round) {
    CHECK_EQ(show(ids_of(*tokenizer, std::string_view("!\0!", 3))), std::string("33 0 33 "));
    CHECK_EQ(show(ids_of(*tokenizer, std::string_view("!\0", 2))), std::string("33 0 "));
    CHECK_EQ(show(ids_of(*tokenizer, "!")), std::string("33 "));
    CHECK_EQ(show(ids_of(*tokenizer, std::string_view("\0", 1))), std::string("0 "));
  }
}

TEST(no_byte_outside_is_read) {
  Fenced memory;
  std::mt19937 random(4);
  const char* const parts[] = {"a",    "'",  "'l",       "'r", " ",  "\n", "é",
                               "\xC3", "日", "\xE6\x97", "12", "<s", "!",  "\xF0\x9F\x98"};
  File prefix, llama;
  prefix.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
  prefix.normalizer = R"({"type":"NFC"})";
  llama.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)" +
                        quoted(std::string(kLlama3Pattern)) +
                        R"(},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,)"
                        R"("trim_offsets":true,"use_regex":false}]})";
  for (const File& file : {File{}, prefix, llama}) {
    const auto tokenizer = load(file);
    for (int i = 0; i < 20000; ++i) {
      std::string text;
      for (u64 n = random() % 6; n; --n) text += parts[random() % std::size(parts)];
      const Ids first = ids_of(*tokenizer, memory.put_first(text));
      CHECK_EQ(show(ids_of(*tokenizer, memory.put(text))), show(first));
    }
  }
}

TEST(a_long_word_is_not_quadratic) {
  File file;
  file.merges = {{"a", "b"}, {"ab", "ab"}, {"abab", "abab"}, {"b", "b"}, {"a", "a"}};
  const auto tokenizer = load(file);
  const auto seconds = [&](std::size_t size) {
    std::mt19937 random(2);
    std::string text(size, 'a');
    for (char& c : text) c = random() % 3 ? 'a' : 'b';
    Ids out(text.size());
    const double start = spent_s();
    CHECK(tokenizer->encode(text, out.data(), static_cast<u32>(out.size())).n_tokens > 0);
    return spent_s() - start;
  };
  seconds(10'000);
  const double small = std::min({seconds(20'000), seconds(20'000), seconds(20'000)});
  CHECK(seconds(400'000) < small * 200);  // quadratic: 400 times
  const std::string spaces(400'000, ' '), lines(400'000, '\n');
  ids_of(*tokenizer, spaces + "x" + lines);
}

TEST(refusals_have_a_reason) {
  const auto with = [](auto change) {
    File file;
    change(file);
    return file.content();
  };
  const std::string split =
      R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+"},"behavior":"Isolated",)"
      R"("invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}]})";
  const struct {
    std::string content;
    const char* reason;
  } table[] = {
      {with([](File& f) { f.pre_tokenizer = R"({"type":"Whitespace"})"; }), "pre_tokenizer: only ByteLevel"},
      {with([](File& f) { f.pre_tokenizer = "null"; }), "pre_tokenizer: only ByteLevel"},
      {with([&](File& f) { f.pre_tokenizer = split; }), "regular expressions of Llama 3 and Qwen 2"},
      {with([](File& f) { f.normalizer = R"({"type":"NFKC"})"; }), "only NFC"},
      {with([](File& f) { f.normalizer = R"({"type":"NFC","form":1})"; }), "unknown key form"},
      {with([](File& f) { f.model = R"("dropout":0.1,)"; }), "dropout"},
      {with([](File& f) { f.model = R"("end_of_word_suffix":"</w>",)"; }), "end_of_word_suffix"},
      {with([](File& f) { f.model = R"("more":1,)"; }), "unknown key more"},
      {with([](File& f) { f.post_processor = R"({"type":"Other"})"; }), "post_processor"},
      {with([](File& f) {
         f.added = R"(,{"id":302,"content":" x","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,)"
                   R"("special":false})";
       }),
       "another id"},
      {with([](File& f) {
         f.added = R"(,{"id":301,"content":" x","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,)"
                   R"("special":false})";
       }),
       "rstrip"},
  };
  for (const auto& row : table) check_refused(row.content, row.reason);
}
