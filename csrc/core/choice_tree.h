// The choices of a request as a tree of tokens: choices that begin alike share what they have in common, so that each
// row of a script asks for all tokens that may follow.
#pragma once
#include <span>
#include <vector>

#include "core/script.h"

namespace fastqps {

class ChoiceTree {
 public:
  // choices: token ids, at least one each, no two alike.
  explicit ChoiceTree(std::span<const std::vector<u32>> choices);

  // The script of any prompt. Branches are computed one after the other, each in the place of the one before.
  Script script() const;
  u32 rows() const { return rows_; }
  u32 targets_max() const { return targets_max_; }  // of a row
  u32 depth() const { return depth_; }              // tokens of the longest choice

  // The log-probability of each choice, from those of the targets: targets_max() for each row.
  std::vector<double> score(std::span<const float> logprobs) const;

 private:
  static constexpr u32 kNone = ~u32(0);

  struct Node {
    u32 token, depth, parent;
    std::vector<u32> children = {};
    u32 row = 0;  // the first one that asks for its children
  };

  u32 child_of(u32 node, u32 token);
  void place(u32 node);

  std::vector<Node> nodes_;  // the prompt is the first; children stand behind their parents
  std::vector<u32> order_;   // nodes with children, as their rows are computed
  std::vector<u32> ends_;    // node of each choice's last token
  u32 rows_ = 0, targets_max_ = 0, depth_ = 0;
};

}  // namespace fastqps
