// The order of merges, hostile bytes, and edges of the native byte-level BPE. That its words, normal forms, special
// tokens and ids are those of the `tokenizers` package is for tests/tokenizers/test_bpe.py.
#include <time.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/text/tokenizing.h"
#include "text/byte_tokens.h"
#include "text/words/word_split.h"

using namespace fastqps;
using namespace fastqps::text;

namespace {

std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return '"' + out + '"';
}

const char* const kGpt2 = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})";
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
