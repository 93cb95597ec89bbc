// A step's operations on the CPU, recorded once and run at every size: what a captured graph is on a GPU.
//
// Operations hold addresses that never change: of weights, of a step's static buffers, and of memory that the program's
// owner keeps between them. Only counts differ from step to step, so one recording serves all sizes, without padding.
#pragma once
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "step/team.h"

namespace fastqps::step {

// What a program runs over: a step, or a part of one with whole items.
struct Piece {
  u32 tokens = 0, items = 0, new_items = 0;
  u32 first_token = 0, first_item = 0;  // in the step's buffers
  u32 threads = 1;
};

// A number of rows: a fixed one, or of what each piece has so many.
class Count {
 public:
  static constexpr i64 kTokens = -1, kItems = -2, kNewItems = -3;

  explicit Count(i64 value) : value_(value) {
    if (value < kNewItems || value > std::numeric_limits<u32>::max())
      throw std::invalid_argument(std::to_string(value) + " is no number of rows");
  }
  u32 of(const Piece& piece) const {
    switch (value_) {
      case kTokens:
        return piece.tokens;
      case kItems:
        return piece.items;
      case kNewItems:
        return piece.new_items;
      default:
        return u32(value_);
    }
  }
  // Where the piece's rows begin in an array of the whole step's.
  u32 first(const Piece& piece) const { return value_ == kTokens ? piece.first_token : piece.first_item; }

 private:
  i64 value_;
};

class Program {
 public:
  using Operation = std::function<void(const Piece&)>;

  Program() = default;
  // Keeps no operation, but runs each when it is added, with its fixed counts and on up to so many threads.
  static Program at_once(u32 threads) {
    Program program;
    program.threads_ = threads;
    return program;
  }

  // An operation that is const keeps nothing of one run that another one, of another thread, could see.
  template <class Run>
  requires std::is_invocable_v<const Run&, const Piece&>
  void add(Run operation) {
    if (threads_) return operation({.threads = threads_});
    operations_.push_back(std::move(operation));
  }
  // An operation that torch computes, on its own threads; then all others borrow these (team.h).
  template <class Run>
  void add_torch(Run operation) {
    calls_torch_ = true;
    add(std::move(operation));
  }

  // What an operation throws leaves this function; the operations behind it do not run then.
  void run(const Piece& piece) const {
    const Team::Scope team(calls_torch_ ? 1 : piece.threads);
    for (const Operation& operation : operations_) operation(piece);
  }

  // Runs over items in pieces of nearly equal size, with about `piece_tokens` each: their activations stay in the
  // core's cache. starts: [n_items + 1].
  void run_pieces(const i32* starts, u32 n_items, u32 piece_tokens, u32 threads) const;

  u32 size() const { return u32(operations_.size()); }

 private:
  std::vector<Operation> operations_;
  u32 threads_ = 0;  // 0: operations are kept
  bool calls_torch_ = false;
};

}  // namespace fastqps::step
