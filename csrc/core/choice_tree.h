// The choices of a request as a tree of tokens: choices that begin alike share what they have in common, so that each
// row of a script asks for all tokens that may follow.
#pragma once
#include <span>
#include <vector>

#include "core/script.h"

namespace fastqps {

// The log-probabilities of a script's targets, as a generator's answer has them.
struct TargetLogprobs {
  std::span<const float> firsts;  // [rows]: of each row's first target
  std::span<const float> all;     // [rows, targets_max]: of all of them, of rows with more than one
};

class ChoiceTree {
 public:
  // choices: token ids, at least one each, no two alike.
  explicit ChoiceTree(std::span<const std::vector<u32>> choices);

  // The script of any prompt. Branches are computed one after the other, each in the place of the one before.
  Script script() const;
  u32 rows() const { return rows_; }
  u32 targets_max() const { return targets_max_; }  // of a row

  // The tokens of a choice.
  std::vector<u32> tokens(u32 choice) const;
  // Their log-probabilities.
  std::vector<float> logprobs(u32 choice, const TargetLogprobs& found) const;
  // The log-probability of each choice.
  std::vector<double> sums(const TargetLogprobs& found) const;

 private:
  static constexpr u32 kNone = ~u32(0);

  struct Node {
    u32 token, depth, parent;
    u32 place = 0;  // among its parent's children
    std::vector<u32> children = {};
    u32 row = 0;  // the first one that asks for its children
  };

  u32 child_of(u32 node, u32 token);
  void place_rows();
  std::vector<u32> path(u32 choice) const;
  float logprob(const Node& node, const TargetLogprobs& found) const;

  std::vector<Node> nodes_;  // the prompt is the first; children stand behind their parents
  std::vector<u32> order_;   // nodes with children, as their rows are computed
  std::vector<u32> ends_;    // node of each choice's last token
  u32 rows_ = 0, targets_max_ = 0;
};

// The probability of each choice among them, from the logarithms.
std::vector<float> shares(std::span<const double> logprobs);
// The likeliest choice, of equals the first; with a temperature one that is drawn by the probabilities.
u32 choose_text(std::span<const double> logprobs, float temperature, u64 seed);

}  // namespace fastqps
