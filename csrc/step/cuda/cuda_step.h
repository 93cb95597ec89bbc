// Steps on a GPU. A lane is one stream with its device blocks and its captured graphs. A step is one copy to the
// device, one graph, one copy back and one event, enqueued after the stream's earlier steps. Only wait() waits, only
// open() allocates, and no call handles single requests.
//
// Copies between a decoder's cache slots are rare, so that no graph has a kernel for them: they are enqueued in front.
//
//   staging ──pack──► pinned block ──copy──► device staging ──graph──► device output ──copy──► pinned output, event
//   one each step                            one each lane: the stream's order protects it     one each step
//
// A copy reads its source when the stream reaches it, which may be long after launch(). So launch() packs the step into
// a pinned block that nothing else writes, and the caller may write the staging block at once. The output belongs to
// the device from launch() until the step is done. Errors are values and permanent: after a CUDA error every call on
// the lane returns it.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "step/buffers.h"
#include "step/cuda/cuda_api.h"
#include "step/cuda/device_time.h"
#include "step/encode/encode_layout.h"

namespace fastqps {

// A step's two blocks, which are copied to a GPU and back, for encoders and decoders.
//
// The host writes a step into blocks of the lane's shape, whose sections have room for the largest step. A graph is
// captured for fewer tokens and items, and reads its sections at the offsets of its own shape. pack() moves the used
// part of each section to these offsets, so that one copy transfers little more than the step. unpack() moves the
// results to the offsets that the host reads.
//
//   lane    header | tokens ............ | tokens ............ | items ...... |
//   graph   header | tokens . | tokens . | items
struct GraphShape {
  u32 max_tokens, max_items;  // the graph's capacity
};

struct CopyWords {
  u32 up, down;
};

inline void move_words(i32* to, const i32* from, size_t words) { std::memmove(to, from, words * sizeof(i32)); }

struct EncodeBlocks {
  EncodeLayout layout;     // of the host's blocks
  bool token_types;        // the model reads them
  bool positions = false;  // the device reads them

  u32 words() const { return layout.words; }
  u32 out_words() const { return layout.out_words; }
  u32 device_words() const { return of({layout.max_tokens, layout.max_items}).device_words; }
  EncodeLayout of(GraphShape shape) const {
    return EncodeLayout(shape.max_tokens, shape.max_items, layout.width, token_types, layout.by_token, positions);
  }
  bool holds(StepSize n) const { return n.items <= layout.max_items && n.tokens <= layout.max_tokens; }

  // Packs a step into `to`, a block of the graph's shape.
  CopyWords pack(const i32* from, i32* to, GraphShape shape, StepSize n) const {
    const EncodeLayout at = of(shape);
    to[kHeaderTokens] = i32(n.tokens), to[kHeaderItems] = i32(n.items), to[kHeaderNewItems] = i32(n.new_items);
    move_words(to + at.input_ids, from + layout.input_ids, n.tokens);
    if (token_types) move_words(to + at.token_type_ids, from + layout.token_type_ids, n.tokens);
    if (positions) move_words(to + at.position_ids, from + layout.position_ids, n.tokens);
    move_words(to + at.cu_seqlens, from + layout.cu_seqlens, n.items + 1);
    return {at.cu_seqlens + n.items + 1, kStampWords + layout.rows(n.tokens, n.items) * layout.width};
  }
  // Rows of answers are contiguous in every shape.
  void unpack(i32*, GraphShape, u32, u32) const {}
};

// What a decoder's lane keeps by cache slot and copies from one to another: keys and values behind the prefix, and the
// tokens by position.
struct SlotMemory {
  char* cache = nullptr;   // [planes][slots][kv_heads][max_len] rows of row_bytes
  i32* history = nullptr;  // [slots][history_len]
  u32 planes = 0, slots = 0, kv_heads = 0, max_len = 0, row_bytes = 0, history_len = 0, prefix_len = 0;
};

struct DecodeBlocks {
  DecodeLayout layout;  // of the host's blocks
  SlotMemory memory = {};

  u32 words() const { return layout.words; }
  u32 out_words() const { return layout.out_words; }
  u32 device_words() const { return layout.words; }
  bool holds(StepSize n) const {
    return n.items <= layout.max_runs && n.tokens <= layout.max_tokens && n.new_items <= n.items;
  }

  CopyWords pack(const i32* from, i32* to, GraphShape shape, StepSize n) const {
    const DecodeLayout at(shape.max_tokens, shape.max_items);
    move_words(to, from, kHeaderWords);  // it was written with the rows
    to[kHeaderT] = i32(shape.max_tokens), to[kHeaderS] = i32(shape.max_items);
    move_words(to + at.token_ids, from + layout.token_ids, n.tokens);
    move_words(to + at.positions, from + layout.positions, n.tokens);
    move_words(to + at.kv_slots, from + layout.kv_slots, n.tokens);
    move_words(to + at.starts, from + layout.starts, n.items + 1);
    move_words(to + at.made, from + layout.made, n.items);
    move_words(to + at.admitted, from + layout.admitted, n.new_items * kAdmittedWords);
    const u32 out = from[kHeaderTop] ? at.out_top + n.items * kTopWords : at.out_finish + n.items;
    if (!from[kHeaderTargets]) return {at.admitted + n.new_items * kAdmittedWords, kStampWords + out};
    move_words(to + at.targets, from + layout.targets, n.items * kTargetWords);
    return {at.targets + n.items * kTargetWords, kStampWords + out};
  }
  // Works in place. Sections move up, last one first, so that each overwrites only its own words or unused ones. down:
  // the words that were copied.
  void unpack(i32* output, GraphShape shape, u32 runs, u32 down) const {
    const DecodeLayout at(shape.max_tokens, shape.max_items);
    if (down > kStampWords + at.out_top) move_words(output + layout.out_top, output + at.out_top, runs * kTopWords);
    move_words(output + layout.out_finish, output + at.out_finish, runs);
    move_words(output + layout.out_logprobs, output + at.out_logprobs, runs);
  }
};

using StepBlocks = std::variant<EncodeBlocks, DecodeBlocks>;

// A captured graph, and how long its steps take. Some are there in two parts, too, which compute the same one behind
// the other: what a step can do before it has its masks, and the rest.
struct CudaGraph {
  CudaHandle exec;
  GraphShape shape;
  CudaHandle head = nullptr, tail = nullptr;
  u64 steps = 0, usual_ns = 0;
};

// Used with its steps by one thread at a time.
class CudaLane {
 public:
  // Addresses of the device's blocks: staging of device_words(), output with kStampWords in front.
  CudaLane(CudaApi& api, DeviceTime& time, StepBlocks blocks, CudaHandle stream, i32* staging, i32* output)
      : api_(api), time_(time), blocks_(std::move(blocks)), stream_(stream), staging_(staging), output_(output) {}

  // Adds a graph over these blocks, or replaces the one of the same size. Returns false, and does nothing, while steps
  // are in flight.
  [[nodiscard]] bool add(CudaHandle exec, u32 max_tokens, u32 max_items);
  // Adds the two parts of the graph of that size, which has to be there. Returns false as add().
  [[nodiscard]] bool add_parts(CudaHandle head, CudaHandle tail, u32 max_tokens, u32 max_items);
  const std::vector<CudaGraph>& graphs() const { return graphs_; }
  const StepBlocks& blocks() const { return blocks_; }
  CudaHandle stream() const { return stream_; }
  CudaApi& api() const { return api_; }
  const CudaStatus& fault() const { return fault_; }

 private:
  friend class CudaStep;

  const CudaGraph* smallest(StepSize n) const;

  CudaApi& api_;
  DeviceTime& time_;
  const StepBlocks blocks_;
  const CudaHandle stream_;
  i32* const staging_;
  i32* const output_;
  std::vector<CudaGraph> graphs_;  // by tokens, then items
  CudaStatus fault_;
  u64 launched_ = 0, ended_ = 0;     // steps
  u64 ended_ns_ = 0, until_ns_ = 0;  // end of the newest finished step; expected end of all. 0: not known
};

class CudaStep {
 public:
  enum class Launch { kDone, kRunning, kTooLarge, kNoGraph, kFault };  // kRunning: its last step is not done
  enum class Progress { kDone, kGoesOn, kFault };

  // Allocates a step's host blocks. Returns null, and the reason in *status, if there is no memory.
  static std::unique_ptr<CudaStep> open(CudaLane& lane, CudaStatus* status);
  ~CudaStep();
  CudaStep(const CudaStep&) = delete;
  CudaStep& operator=(const CudaStep&) = delete;

  // Where the host writes the step.
  i32* staging() { return staging_.data()->words; }
  i32* output() const { return output_ + kStampWords; }
  // The times of the last finished step.
  DeviceStamps* stamps() { return &stamps_; }

  // Enqueues the step in the staging block on the device.
  Launch launch(StepSize n);
  // The same in two calls, between which no other step of the lane is launched, and this one is not asked about.
  // begin() returns kNoGraph, and does nothing, if the step's graph has no parts.
  Launch begin(StepSize n);
  Launch end();
  // The graph of the last launch; nothing before the first.
  GraphShape shape() const { return shape_; }
  // The parts of launch() around a graph of that shape, for callers that run its kernels one by one: packs the step,
  // and moves the copied answers of the packed step to output(). The step must not be in flight. Returns the packed
  // step.
  const i32* pack(StepSize n, GraphShape shape, CopyWords* words);
  void unpack(u32 items, GraphShape shape);
  // The same: enqueues the copies between cache slots that stand in the staging block.
  CudaStatus copy_slots();
  // Nanoseconds after which to look again; 0: it is done, or close enough for wait().
  u64 due_ns();
  // Waits until the step is done or the time is over. Spins for spin_ns, then sleeps ever longer between two looks.
  Progress wait(u64 timeout_ns, u64 spin_ns);

 private:
  struct alignas(64) Line {
    i32 words[16] = {};
  };

  explicit CudaStep(CudaLane& lane);
  CudaStatus allocate();
  Launch choose(StepSize n, const CudaGraph** graph);
  Launch start(StepSize n, const CudaGraph& graph, CudaHandle exec);
  Launch finish_launch();
  CudaStatus copy_slot(const SlotMemory& memory, u32 from, u32 to, u32 positions);
  Progress look();
  void finish(u64 now);
  u64 expected_end_ns() const;

  static constexpr u64 kNearNs = 50'000;   // before its expected end a step is waited for
  static constexpr u64 kLateNs = 200'000;  // after it; then it is checked occasionally
  static constexpr u64 kLookNsMin = 20'000, kLookNsMax = 1'000'000, kSleepNsMax = 100'000;

  CudaLane& lane_;
  std::vector<Line> staging_;
  i32* packed_ = nullptr;  // pinned
  i32* output_ = nullptr;  // pinned
  CudaHandle event_ = nullptr;
  DeviceStamps stamps_;
  bool begun_ = false, running_ = false, asked_early_ = false;
  size_t graph_ = 0;  // number in the lane's table, while it is in flight
  GraphShape shape_{};
  u32 items_ = 0, down_ = 0;             // of the last launch; words that come back from the packed step
  u64 number_ = 0;                       // of the lane's launches
  u64 launched_ns_ = 0, behind_ns_ = 0;  // behind_ns_: expected end of the steps before it; 0: not known
};

}  // namespace fastqps
