// The stop-string matcher against a plain find on the whole text, whatever the pieces.
#include <algorithm>
#include <random>

#include "tests/check.h"
#include "text/stop_strings.h"

using namespace fastqps;
using namespace fastqps::text;

namespace {

struct Outcome {
  std::string given;  // with '|' after each piece's
  std::string text;
  bool matched = false;
  u32 index = 0;
};

using Strings = std::vector<std::string_view>;

Outcome feed(const Strings& strings, const std::vector<std::string_view>& pieces) {
  StopStrings stop;
  CHECK(stop.assign(strings));
  Outcome outcome;
  for (const std::string_view piece : pieces) {
    std::string out;
    stop.feed(piece, out);
    outcome.given += out + "|";
    outcome.text += out;
  }
  std::string rest;
  stop.finish(rest);
  outcome.given += rest;
  outcome.text += rest;
  outcome.matched = stop.matched();
  outcome.index = stop.index();
  return outcome;
}

// What the matcher must give for the whole text, by find alone.
Outcome expected(const Strings& strings, std::string_view text) {
  Outcome outcome{"", std::string(text)};
  std::size_t best_end = text.size() + 1, best_size = 0;
  for (u32 i = 0; i < strings.size(); ++i) {
    const std::size_t at = text.find(strings[i]);
    if (at == text.npos) continue;
    const std::size_t end = at + strings[i].size();
    if (end > best_end || (end == best_end && strings[i].size() <= best_size)) continue;
    best_end = end;
    best_size = strings[i].size();
    outcome = {"", std::string(text.substr(0, at)), true, i};
  }
  return outcome;
}

void check_same(const Strings& strings, const std::vector<std::string_view>& pieces, std::string_view text) {
  const Outcome found = feed(strings, pieces), wanted = expected(strings, text);
  CHECK_EQ(found.text, wanted.text);
  CHECK_EQ(found.matched, wanted.matched);
  if (found.matched) CHECK_EQ(found.index, wanted.index);
}

}  // namespace

TEST(literal_pieces) {
  const struct {
    Strings strings;
    std::vector<std::string_view> pieces;
    const char* given;
    bool matched;
  } table[] = {
      {{}, {"ab", "", "c"}, "ab||c|", false},
      {{"END"}, {"x", "E", "N", "D", "y"}, "x|||||", true},
      {{"END"}, {"xEN", "x"}, "x|ENx|", false},
      {{"END"}, {"EN"}, "|EN", false},
      {{"END"}, {"aENDb"}, "a|", true},
      {{"aab"}, {"a", "a", "a", "b"}, "||a||", true},
      {{"abc", "b"}, {"a", "b", "c"}, "|a||", true},  // "b" ends first
      {{"b", "ab"}, {"xa", "b"}, "x||", true},        // both end here: the longer
      {{"abcd", "bce"}, {"abc", "e"}, "|a|", true},   // falls back into the other one
      {{"\n\n"}, {"a\n", "b\n", "\n"}, "a|\nb||", true},
      {{"aXa"}, {"aX", "aX", "a"}, "|||", true},
      {{"é"}, {"caf\xC3", "\xA9"}, "caf||", true},
  };
  for (const auto& row : table) {
    const Outcome found = feed(row.strings, row.pieces);
    CHECK_EQ(found.given, std::string(row.given));
    CHECK_EQ(found.matched, row.matched);
  }
}

TEST(random_strings_in_random_pieces) {
  std::mt19937 random(2);
  const auto word = [&](u32 longest, u32 letters) {
    std::string out;
    for (u32 n = 1 + static_cast<u32>(random()) % longest; n; --n) out += static_cast<char>('a' + random() % letters);
    return out;
  };
  for (int round = 0; round < 20000; ++round) {
    const u32 letters = 1 + static_cast<u32>(random()) % 4;
    std::vector<std::string> owned;
    for (u64 n = 1 + random() % 16; n; --n) owned.push_back(word(random() % 8 ? 12 : 256, letters));
    const Strings strings(owned.begin(), owned.end());
    std::string text;
    while (random() % 6) {
      const std::string& stop = owned[random() % owned.size()];
      text += random() % 3 ? word(30, letters + 1) : stop.substr(0, random() % (stop.size() + 1));
    }
    std::vector<std::string_view> pieces;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(text.size() - at, random() % 9);
      pieces.push_back(std::string_view(text).substr(at, n));
      at += n;
    }
    check_same(strings, pieces, text);
  }
}

TEST(what_is_given_out_is_never_less_than_it_could_be) {
  // After each byte only what is the beginning of a stop string is held.
  std::mt19937 random(3);
  const Strings strings = {"abab", "bba", "caa"};
  for (int round = 0; round < 2000; ++round) {
    StopStrings stop;
    CHECK(stop.assign(strings));
    std::string text, out;
    for (int i = 0; i < 12; ++i) {
      text += "abc"[random() % 3];
      if (stop.feed(std::string_view(text).substr(text.size() - 1), out)) break;
      std::size_t held = 0;
      for (const std::string_view s : strings)
        for (std::size_t n = 1; n < s.size(); ++n)
          if (text.size() >= n && text.ends_with(s.substr(0, n))) held = std::max(held, n);
      CHECK_EQ(out, text.substr(0, text.size() - held));
    }
  }
}

TEST(restart_forgets_the_text) {
  StopStrings stop;
  CHECK(stop.assign(Strings{"end", "nd of"}));
  for (const char* text : {"an en", "the end", "", "en"}) {
    std::string out;
    stop.feed(text, out);
    stop.restart();
    CHECK(!stop.matched() && !stop.empty());
    CHECK(!stop.feed("d of", out));  // not the end of what was before
    out.clear();
    CHECK(stop.feed(" end", out));
    CHECK_EQ(out, std::string(" "));
    stop.restart();
  }
}

TEST(limits) {
  StopStrings stop;
  const std::string longest(256, 'x'), too_long(257, 'x');
  CHECK(stop.assign(Strings{longest}));
  CHECK(!stop.empty());
  CHECK(!stop.assign(Strings{too_long}));
  CHECK(!stop.assign(Strings{""}));
  CHECK(stop.assign(Strings(16, "a")));
  CHECK(!stop.assign(Strings(17, "a")));
  CHECK(stop.assign({}));
  CHECK(stop.empty());
}

TEST(a_copy_goes_on_by_itself) {
  StopStrings stop;
  CHECK(stop.assign(Strings{"end"}));
  std::string out;
  CHECK(!stop.feed("an en", out));
  StopStrings copy = stop;
  CHECK(stop.assign({}));
  CHECK(copy.feed("d.", out));
  CHECK_EQ(out, std::string("an "));
}

TEST(long_text_is_linear) {
  StopStrings stop;
  const std::string nearly(255, 'a');
  CHECK(stop.assign(Strings(16, nearly + "b")));
  std::string out;
  const std::string text(1 << 20, 'a');  // 16 MiB of steps; a find at each place would take 255 times as many
  CHECK(!stop.feed(text, out));
  stop.finish(out);
  CHECK_EQ(out.size(), text.size());
}
