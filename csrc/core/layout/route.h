// Models and their routes: each generation of a model is a route. In brackets: who writes a word (layout.h).
#pragma once
#include "contract/task.h"
#include "core/layout/limits.h"

namespace fastqps {

enum class Activation : u32 { kIdentity = 0, kSoftmax = 1, kSigmoid = 2 };

struct alignas(64) Model {
  char name[kNameBytes];     // [S], before any route of it serves
  std::atomic<u32> serving;  // [S] which generation answers: route = model * kGenerations + serving
  std::atomic<u32> ready;    // [S] 0 until the first generation serves
};

// One generation of one model: its limits, and how its answers are computed. S writes it while kWarming; then it is
// constant, except for what its first dispatcher chooses before it is ready, and the limits that S changes as it
// serves.
enum class RouteState : u32 { kEmpty = 0, kWarming = 1, kServing = 2, kDraining = 3 };
struct alignas(64) Route {
  std::atomic<RouteState> state;
  std::atomic<u64> dispatchers;  // [S] bit d: dispatcher d serves this route
  u32 generation;                // grows with every reload of the model
  Task task;
  Activation activation;  // classification: turns logits into scores
  u32 normalize;          // embeddings: L2, unless the request says otherwise
  u32 dimensions;         // floats in a row of the device's output: embedding width, or number of labels
  u32 vocab_size;         // ids at or above it are refused
  u32 max_input_tokens;
  u32 max_queue_items;  // limit of waiting items, over all doors
  // Items of a step, of a generator sequences of a lane, that its dispatchers are made for. 0: not chosen yet.
  std::atomic<u32> most_items;        // [S, or d once before it is ready]
  std::atomic<u32> max_batch_tokens;  // [as most_items]
  u64 max_batch_delay_ns;
  u32 position_offset;    // position id of a first token; RoBERTa: padding id + 1, and padding is not counted
  u32 pair_type_id;       // token type of a pair's second text
  u32 max_output_tokens;  // generators: room for them in a slot's answer
  u32 prefix_tokens;      // generators: ids in front of every prompt, kept in no slot
  u32 opening_tokens;     // encoders: ids that inputs begin with, whose keys and values devices have
  // The part that its dispatchers use now. Each word is a limit by itself, so relaxed accesses are enough. [as
  // most_items; then S at any time]
  std::atomic<u32> max_batch_items;
  std::atomic<u32> cache_slots;  // generators: sequences that one dispatcher can run
  std::atomic<u32> lanes;        // that take requests: the first ones; 0: all
  std::atomic<u32> sync_steps;   // 1: a lane has one step in flight
  u32 card_bytes;
  char version[16];  // 12 hex digits
};

// The state of a route at a front door. S sets all of a dead door's to 0.
struct alignas(64) DoorRoute {
  std::atomic<u32> loaded;   // [D] 1 + the generation whose requests it can take and answer
  std::atomic<u32> refused;  // [D] 1 + the generation whose files it could not use
  std::atomic<u32> held;     // [D] its items of this route, claimed or not. Written while a route is draining
  // [D] by class: items that wait for a place in its ring. A dispatcher that takes entries wakes a door that has any.
  std::atomic<u32> held_back[kPriorities];
};

}  // namespace fastqps
