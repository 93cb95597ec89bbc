#include "core/choice_tree.h"

#include <algorithm>
#include <cmath>

#include "core/philox.h"

namespace fastqps {

ChoiceTree::ChoiceTree(std::span<const std::vector<u32>> choices) : nodes_{{0, 0, kNone}} {
  for (const std::vector<u32>& choice : choices) {
    u32 node = 0;
    for (const u32 token : choice) node = child_of(node, token);
    ends_.push_back(node);
  }
  place_rows();
}

u32 ChoiceTree::child_of(u32 node, u32 token) {
  for (const u32 child : nodes_[node].children)
    if (nodes_[child].token == token) return child;
  const u32 child = u32(nodes_.size());
  nodes_.push_back({token, nodes_[node].depth + 1, node, u32(nodes_[node].children.size())});
  nodes_[node].children.push_back(child);
  return child;
}

// Depth first, without recursion: a choice may have many tokens.
void ChoiceTree::place_rows() {
  std::vector<u32> open{0};
  while (!open.empty()) {
    const u32 number = open.back();
    open.pop_back();
    Node& node = nodes_[number];
    const u32 n = u32(node.children.size());
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
    const u32 n = u32(node.children.size());
    for (u32 first = 0; first < n; first += kTargetsMax) {
      const u32 some = std::min(n - first, kTargetsMax);
      script.rows.push_back({node.token, node.depth, u32(script.targets.size()), some});
      for (u32 i = 0; i < some; i++) script.targets.push_back(nodes_[node.children[first + i]].token);
    }
  }
  return script;
}

// Its nodes, without the prompt's.
std::vector<u32> ChoiceTree::path(u32 choice) const {
  std::vector<u32> out;
  for (u32 node = ends_[choice]; node; node = nodes_[node].parent) out.push_back(node);
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<u32> ChoiceTree::tokens(u32 choice) const {
  std::vector<u32> out = path(choice);
  for (u32& each : out) each = nodes_[each].token;
  return out;
}

// Of a token behind those before it.
float ChoiceTree::logprob(const Node& node, const TargetLogprobs& found) const {
  const Node& parent = nodes_[node.parent];
  const u32 part = node.place / kTargetsMax, place = node.place % kTargetsMax, row = parent.row + part;
  return place ? found.all[u64(row) * targets_max_ + place] : found.firsts[row];
}

std::vector<float> ChoiceTree::logprobs(u32 choice, const TargetLogprobs& found) const {
  std::vector<float> out;
  for (const u32 node : path(choice)) out.push_back(logprob(nodes_[node], found));
  return out;
}

std::vector<double> ChoiceTree::sums(const TargetLogprobs& found) const {
  std::vector<double> of_node(nodes_.size());
  for (u32 node = 1; node < nodes_.size(); node++)
    of_node[node] = of_node[nodes_[node].parent] + double(logprob(nodes_[node], found));
  std::vector<double> out;
  for (const u32 node : ends_) out.push_back(of_node[node]);
  return out;
}

namespace {

// Probabilities up to a factor; that of the likeliest is 1.
std::vector<double> weights(std::span<const double> logprobs, double temperature) {
  const double most = *std::max_element(logprobs.begin(), logprobs.end());
  std::vector<double> out;
  for (const double each : logprobs) out.push_back(each == most ? 1 : std::exp((each - most) / temperature));
  return out;
}

}  // namespace

std::vector<float> shares(std::span<const double> logprobs) {
  const std::vector<double> all = weights(logprobs, 1);
  double sum = 0;
  for (const double each : all) sum += each;
  std::vector<float> out;
  for (const double each : all) out.push_back(float(each / sum));
  return out;
}

u32 choose_text(std::span<const double> logprobs, float temperature, u64 seed) {
  const u32 best = u32(std::max_element(logprobs.begin(), logprobs.end()) - logprobs.begin());
  if (!(temperature > 0)) return best;
  const std::vector<double> all = weights(logprobs, double(temperature));
  double sum = 0, passed = 0;
  for (const double each : all) sum += each;
  const double target = sum * double(uniform(u32(seed), u32(seed >> 32), 0));
  for (u32 i = 0; i < all.size(); i++)
    if ((passed += all[i]) > target) return i;
  return best;
}

}  // namespace fastqps
