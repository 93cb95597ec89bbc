#include "core/choice_tree.h"

#include <algorithm>

namespace fastqps {

ChoiceTree::ChoiceTree(std::span<const std::vector<u32>> choices) : nodes_{{0, 0, kNone}} {
  for (const std::vector<u32>& choice : choices) {
    u32 node = 0;
    for (const u32 token : choice) node = child_of(node, token);
    ends_.push_back(node);
    depth_ = std::max(depth_, u32(choice.size()));
  }
  place(0);
}

u32 ChoiceTree::child_of(u32 node, u32 token) {
  for (const u32 child : nodes_[node].children)
    if (nodes_[child].token == token) return child;
  const u32 child = u32(nodes_.size());
  nodes_.push_back({token, nodes_[node].depth + 1, node});
  nodes_[node].children.push_back(child);
  return child;
}

// Depth first, without recursion: a choice may have many tokens.
void ChoiceTree::place(u32 root) {
  std::vector<u32> open{root};
  while (!open.empty()) {
    Node& node = nodes_[open.back()];
    const u32 number = open.back(), n = u32(node.children.size());
    open.pop_back();
    if (!n) continue;
    node.row = rows_;
    rows_ += (n + kTargetsMax - 1) / kTargetsMax;
    targets_max_ = std::max(targets_max_, std::min(n, kTargetsMax));
    order_.push_back(number);
    open.insert(open.end(), node.children.rbegin(), node.children.rend());
  }
}

Script ChoiceTree::script() const {
  Script script;
  for (const u32 number : order_) {
    const Node& node = nodes_[number];
    for (u32 first = 0; first < node.children.size(); first += kTargetsMax) {
      const u32 some = std::min(u32(node.children.size()) - first, kTargetsMax);
      script.rows.push_back({node.token, node.depth, u32(script.targets.size()), some});
      for (u32 i = 0; i < some; i++) script.targets.push_back(nodes_[node.children[first + i]].token);
    }
  }
  return script;
}

std::vector<double> ChoiceTree::score(std::span<const float> logprobs) const {
  std::vector<double> of_node(nodes_.size());
  for (u32 number = 0; number < nodes_.size(); number++) {
    const Node& node = nodes_[number];
    for (u32 i = 0; i < node.children.size(); i++) {
      const u32 row = node.row + i / kTargetsMax;
      of_node[node.children[i]] = of_node[number] + double(logprobs[row * targets_max_ + i % kTargetsMax]);
    }
  }
  std::vector<double> out;
  for (const u32 node : ends_) out.push_back(of_node[node]);
  return out;
}

}  // namespace fastqps
