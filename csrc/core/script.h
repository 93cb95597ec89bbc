// A script: the rows that a sequence computes with tokens that are given, before it chooses any itself. It asks for the
// log-probabilities of the tokens that may follow them: of a prompt's own tokens, or of the choices of a request.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "contract/types.h"

namespace fastqps {

inline constexpr u32 kTargetsMax = 20;  // of a row

// offset: its position, counted from the last one of the prompt, whose token is meant by 0. It may go back: what stands
// from there on is replaced.
struct ScriptRow {
  u32 token, offset;
  u32 first, n;  // its targets, the tokens whose log-probabilities are wanted. None: a token is chosen, as ever
};

// The first row is the last one of the sequence's prompt.
struct Script {
  std::vector<ScriptRow> rows;
  std::vector<u32> targets;

  std::span<const u32> targets_of(const ScriptRow& row) const { return std::span(targets).subspan(row.first, row.n); }
};

// The script of a prompt's first token that asks for the log-probability of each of the others.
Script script_of_prompt(std::span<const u32> ids);

// A script as it lies in shared memory: the number of its rows, the rows, the targets.
std::vector<u32> script_words(const Script& script);
// What another process has written: nothing unless all tokens are below `vocab_size`, all offsets below `offsets`, and
// each row has targets. The first one is at 0, and none leaves out a position: what stands there would be another's.
std::optional<Script> read_script(std::span<const u32> words, u32 vocab_size, u32 offsets);

}  // namespace fastqps
