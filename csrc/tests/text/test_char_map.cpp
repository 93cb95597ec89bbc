// SentencePiece's character maps: literal replacements, and maps that lead out of themselves.
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/text/tokenizing.h"
#include "text/spaced/char_map.h"

using namespace fastqps;
using namespace fastqps::text;

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;
constexpr u32 kBlock = 256;

// The double array with a block of its own for each node.
struct Units {
  std::vector<u32> units = std::vector<u32>(kBlock);
  std::string strings = std::string(1, '\0');

  void add(u32 place, u32 byte, const Pairs& pairs, std::size_t depth) {
    const u32 base = static_cast<u32>(units.size()) | byte;
    units.resize(units.size() + kBlock);
    u32 has_value = 0;
    for (const auto& [key, value] : pairs)
      if (key.size() == depth) {
        has_value = 1u << 8;
        units[base] = 1u << 31 | (value.empty() ? 0 : static_cast<u32>(strings.size()));
        if (!value.empty()) strings += value + '\0';
      }
    units[place] = byte | (place ^ base) << 10 | has_value;
    for (u32 next = 1; next < 256; ++next) {
      Pairs below;
      for (const auto& pair : pairs)
        if (pair.first.size() > depth && static_cast<u8>(pair.first[depth]) == next) below.push_back(pair);
      if (!below.empty()) add(base ^ next, next, below, depth + 1);
    }
  }
  std::string bytes() const {
    const u32 n = static_cast<u32>(units.size() * sizeof(u32));
    std::string out(reinterpret_cast<const char*>(&n), sizeof n);
    return out.append(reinterpret_cast<const char*>(units.data()), n) + strings;
  }
};

Units units_of(const Pairs& pairs) {
  Units out;
  out.add(0, 0, pairs, 0);
  return out;
}

CharMap map_of(const Pairs& pairs) {
  std::string why;
  auto map = CharMap::read(units_of(pairs).bytes(), &why);
  if (!map) test::fail(__FILE__, __LINE__, why);
  return *map;
}

}  // namespace

TEST(literal_replacements) {
  const CharMap map = map_of({{"ﬁ", "fi"},
                              {"Ａ", "A"},
                              {"\u00AD", ""},
                              {"e", "E"},
                              {"o\u0308", "ö"},
                              {"o\u0308\u0304", "ȫ"},
                              {"\t", " "},
                              {"\r\n", "\n"}});
  const struct {
    const char* text;
    const char* normal;
    std::vector<i32> changes;
  } kRows[] = {
      {"", "", {}},
      {"abc", "abc", {1, 1, 1}},
      {"ﬁn", "fin", {1, 0, 1}},
      {"xＡ", "xA", {1, 1}},
      {"a\tb", "a b", {1, 1, 1}},
      {"a\u00ADb", "ab", {2, 1}},                                    // the character before stands for what is gone
      {"\u00ADb", "b", {1}},                                         // and nothing does at the beginning
      {"no\u0308n", "nön", {1, 2, 1}},                               // two characters that are one
      {"e\u0308t", "Et", {2, 1}},                                    // what follows a key in its cluster is gone
      {"o\u0308\u0304", "ö", {3}},                                   // by the shortest key
      {"e\u0308\u0308\u0308", "E\u0308\u0308\u0308", {1, 1, 1, 1}},  // six bytes and more go by characters
      {"o\u0308\u0308\u0308", "o\u0308\u0308\u0308", {1, 1, 1, 1}},
      {"a\r\nb", "a\nb", {1, 2, 1}},
      {"a\rb\n", "a\rb\n", {1, 1, 1, 1}},
      {"語e😀", "語E😀", {1, 1, 1}},
  };
  for (const auto& row : kRows) {
    std::string out = "before", without;
    std::vector<i32> changes;
    map.run(row.text, out, &changes);
    map.run(row.text, without, nullptr);
    CHECK_EQ(out, std::string("before") + row.normal);
    CHECK_EQ(without, row.normal);
    if (changes != row.changes) test::fail(__FILE__, __LINE__, std::string("changes of ") + row.text);
  }
  for (const u8 kept : {'a', 'E', ' ', '\n'}) CHECK(map.keeps(kept));
  for (const u8 changed : {'e', '\t', '\r'}) CHECK(!map.keeps(changed));
}

TEST(refused_maps) {
  const Units good = units_of({{"e", "é"}, {"ab", "x"}});
  const auto refused = [](const std::string& bytes, const char* reason) {
    std::string why;
    CHECK(!CharMap::read(bytes, &why));
    check_reason(why, reason);
  };
  const std::string bytes = good.bytes();
  refused("", "cut off");
  refused(bytes.substr(0, 3), "cut off");
  refused(std::string(8, '\0'), "cut off");
  refused(bytes.substr(0, 4 + good.units.size() * sizeof(u32) - 1), "cut off");
  const auto with = [&](auto change) {
    Units changed = good;
    change(changed);
    return changed.bytes();
  };
  refused(with([](Units& u) { u.strings += "\xC3"; }), "not UTF-8");
  refused(with([](Units& u) { u.units[0] = 0x1FFFFFu << 10; }), "out of itself");
  const auto value = [&](u32 position) {
    return with([&](Units& u) {
      for (u32& unit : u.units)
        if (unit >> 31) unit = 1u << 31 | position;
    });
  };
  refused(value(static_cast<u32>(good.strings.size()) + 1), "out of itself");
  refused(value(static_cast<u32>(good.strings.find("é")) + 1), "out of itself");  // within a character
}

// Whatever is in a map that is read, no text leads out of it: for the sanitizers.
TEST(random_maps_are_refused_or_safe) {
  std::mt19937 random(3);
  const Units good = units_of({{"ﬁ", "fi"}, {"e", "é"}, {"\u00AD", ""}, {"ab", "x"}});
  u32 n_read = 0;
  for (int round = 0; round < 3000; ++round) {
    Units changed = good;
    for (u32 i = 0, n = 1 + random() % 3; i < n; ++i) {
      u32& unit = changed.units[random() % changed.units.size()];
      unit = random() % 2 ? static_cast<u32>(random()) : unit ^ 1u << random() % 32;
    }
    std::string why, out;
    const auto map = CharMap::read(changed.bytes(), &why);
    CHECK_EQ(bool(map), why.empty());
    if (!map) continue;
    ++n_read;
    map->run("ﬁ abe\u0308 e\u00AD語ab\r\n\x7f", out, nullptr);
  }
  CHECK(n_read > 0 && n_read < 3000);
}
