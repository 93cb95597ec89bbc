#include "core/script.h"

#include <algorithm>

namespace fastqps {
namespace {

constexpr u32 kRowWords = sizeof(ScriptRow) / sizeof(u32);

}  // namespace

Script script_of_prompt(std::span<const u32> ids) {
  Script script;
  const u32 n = u32(ids.size());
  for (u32 i = 0; i < n; i++) script.rows.push_back({ids[i], i, i, i + 1 < n ? 1u : 0u});
  script.targets.assign(ids.begin() + 1, ids.end());
  return script;
}

std::vector<u32> script_words(const Script& script) {
  std::vector<u32> words{u32(script.rows.size())};
  for (const ScriptRow& row : script.rows) words.insert(words.end(), {row.token, row.offset, row.first, row.n});
  words.insert(words.end(), script.targets.begin(), script.targets.end());
  return words;
}

std::optional<Script> read_script(std::span<const u32> words, u32 vocab_size, u32 offsets) {
  if (words.empty() || !words[0] || words[0] > (words.size() - 1) / kRowWords) return {};
  const std::span<const u32> rows = words.subspan(1, words[0] * kRowWords), targets = words.subspan(1 + rows.size());
  Script script{{}, {targets.begin(), targets.end()}};
  for (u32 at = 0; at < rows.size(); at += kRowWords)
    script.rows.push_back({rows[at], rows[at + 1], rows[at + 2], rows[at + 3]});
  u32 next = 0;
  const auto sound = [&](const ScriptRow& row) {
    if (row.offset > next) return false;
    next = row.offset + 1;
    return row.token < vocab_size && row.offset < offsets && row.n && row.n <= kTargetsMax &&
           u64(row.first) + row.n <= targets.size();
  };
  const bool all = std::all_of(script.rows.begin(), script.rows.end(), sound) &&
                   std::all_of(targets.begin(), targets.end(), [&](u32 id) { return id < vocab_size; });
  return all ? std::optional(script) : std::nullopt;
}

}  // namespace fastqps
