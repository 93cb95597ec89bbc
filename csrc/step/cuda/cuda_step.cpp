#include "step/cuda/cuda_step.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "core/clock.h"

namespace fastqps {
namespace {

void sleep_ns(u64 ns) {
  // Without this the kernel delays every wake-up by 50 µs.
  static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 1);
  static_cast<void>(slack);
  const timespec t{0, long(ns)};
  nanosleep(&t, nullptr);  // a signal ends it: the caller's loop looks again
}

// An average that falls quickly and rises slowly: looking too early costs another look, looking too late costs time.
u64 learn(u64 usual, u64 took) {
  if (!usual) return took;
  return took < usual ? (usual + took) / 2 : usual + (took - usual) / 8;
}

}  // namespace

bool CudaLane::add(CudaHandle exec, u32 max_tokens, u32 max_items) {
  if (launched_ != ended_) return false;
  const auto before = [](const CudaGraph& one, const CudaGraph& other) {
    const GraphShape a = one.shape, b = other.shape;
    return a.max_tokens != b.max_tokens ? a.max_tokens < b.max_tokens : a.max_items < b.max_items;
  };
  const CudaGraph graph{.exec = exec, .shape = {max_tokens, max_items}};
  const auto at = std::lower_bound(graphs_.begin(), graphs_.end(), graph, before);
  if (at != graphs_.end() && !before(graph, *at))
    *at = graph;
  else
    graphs_.insert(at, graph);
  return true;
}

bool CudaLane::add_parts(CudaHandle head, CudaHandle tail, u32 max_tokens, u32 max_items) {
  if (launched_ != ended_) return false;
  for (CudaGraph& graph : graphs_)
    if (graph.shape.max_tokens == max_tokens && graph.shape.max_items == max_items)
      return graph.head = head, graph.tail = tail, true;
  return false;
}

// Among the graphs with enough tokens, take the first with enough items. Usually a few have the same tokens.
const CudaGraph* CudaLane::smallest(StepSize n) const {
  const auto fewer = [](const CudaGraph& graph, u32 tokens) { return graph.shape.max_tokens < tokens; };
  auto at = std::lower_bound(graphs_.begin(), graphs_.end(), n.tokens, fewer);
  while (at != graphs_.end() && at->shape.max_items < n.items) ++at;
  return at == graphs_.end() ? nullptr : &*at;
}

CudaStep::CudaStep(CudaLane& lane) : lane_(lane) {
  const u32 words = std::visit([](auto& b) { return b.words(); }, lane.blocks_);
  staging_.resize((words + 15) / 16);
}

std::unique_ptr<CudaStep> CudaStep::open(CudaLane& lane, CudaStatus* status) {
  std::unique_ptr<CudaStep> step(new CudaStep(lane));
  *status = step->allocate();
  return *status ? nullptr : std::move(step);
}

CudaStatus CudaStep::allocate() {
  CudaApi& api = lane_.api_;
  const auto [words, out_words] =
      std::visit([](auto& b) { return std::pair(b.device_words(), b.out_words()); }, lane_.blocks_);
  auto host = [&api](i32** block, size_t n) {
    const CudaStatus status = api.cudaHostAlloc(reinterpret_cast<void**>(block), n * sizeof(i32), 0u);
    if (!status) std::fill_n(*block, n, 0);
    return status;
  };
  if (const CudaStatus status = host(&packed_, words)) return status;
  if (const CudaStatus status = host(&output_, kStampWords + out_words)) return status;
  return api.cudaEventCreateWithFlags(&event_, kCudaEventNoTiming);
}

CudaStep::~CudaStep() {
  CudaApi& api = lane_.api_;
  if ((begun_ || running_) && !lane_.fault_) api.cudaStreamSynchronize(lane_.stream_);
  if (event_) api.cudaEventDestroy(event_);
  if (output_) api.cudaFreeHost(static_cast<void*>(output_));
  if (packed_) api.cudaFreeHost(static_cast<void*>(packed_));
}

CudaStep::Launch CudaStep::choose(StepSize n, const CudaGraph** graph) {
  if (begun_ || (running_ && look() == Progress::kGoesOn)) return Launch::kRunning;
  if (lane_.fault_) return Launch::kFault;
  if (!std::visit([&](auto& b) { return b.holds(n); }, lane_.blocks_)) return Launch::kTooLarge;
  *graph = lane_.smallest(n);
  return *graph ? Launch::kDone : Launch::kNoGraph;
}

CudaStep::Launch CudaStep::launch(StepSize n) {
  const CudaGraph* graph;
  if (const Launch found = choose(n, &graph); found != Launch::kDone) return found;
  if (const Launch started = start(n, *graph, graph->exec); started != Launch::kDone) return started;
  return finish_launch();
}

CudaStep::Launch CudaStep::begin(StepSize n) {
  const CudaGraph* graph;
  if (const Launch found = choose(n, &graph); found != Launch::kDone) return found;
  if (!graph->head) return Launch::kNoGraph;
  const Launch started = start(n, *graph, graph->head);
  begun_ = started == Launch::kDone;
  return started;
}

CudaStep::Launch CudaStep::end() {
  if (lane_.fault_) return Launch::kFault;
  if (!begun_) return Launch::kNoGraph;
  begun_ = false;
  lane_.fault_ = lane_.api_.cudaGraphLaunch(lane_.graphs_[graph_].tail, lane_.stream_);
  return lane_.fault_ ? Launch::kFault : finish_launch();
}

CudaStep::Launch CudaStep::start(StepSize n, const CudaGraph& graph, CudaHandle exec) {
  CudaApi& api = lane_.api_;
  CopyWords words;
  pack(n, graph.shape, &words);
  launched_ns_ = now_ns();
  const auto send = [&] {
    return api.cudaMemcpyAsync(lane_.staging_, packed_, words.up * sizeof(i32), kCudaToDevice, lane_.stream_);
  };
  lane_.fault_ = copy_slots();
  if (!lane_.fault_) lane_.fault_ = send();
  if (!lane_.fault_) lane_.fault_ = api.cudaGraphLaunch(exec, lane_.stream_);
  if (lane_.fault_) return Launch::kFault;
  items_ = n.items;
  number_ = ++lane_.launched_;
  graph_ = size_t(&graph - lane_.graphs_.data());
  shape_ = graph.shape;
  return Launch::kDone;
}

CudaStep::Launch CudaStep::finish_launch() {
  CudaApi& api = lane_.api_;
  lane_.fault_ = api.cudaMemcpyAsync(output_, lane_.output_, down_ * sizeof(i32), kCudaToHost, lane_.stream_);
  if (!lane_.fault_) lane_.fault_ = api.cudaEventRecord(event_, lane_.stream_);
  if (lane_.fault_) return Launch::kFault;
  running_ = true;
  behind_ns_ = number_ == lane_.ended_ + 1 ? lane_.ended_ns_ : lane_.until_ns_;
  lane_.until_ns_ = expected_end_ns();
  return Launch::kDone;
}

const i32* CudaStep::pack(StepSize n, GraphShape shape, CopyWords* words) {
  *words = std::visit([&](auto& b) { return b.pack(staging(), packed_, shape, n); }, lane_.blocks_);
  down_ = words->down;
  return packed_;
}

void CudaStep::unpack(u32 items, GraphShape shape) {
  std::visit([&](auto& b) { b.unpack(output(), shape, items, down_); }, lane_.blocks_);
}

CudaStatus CudaStep::copy_slots() {
  const auto* blocks = std::get_if<DecodeBlocks>(&lane_.blocks_);
  if (!blocks) return {};
  const i32* copies = staging() + blocks->layout.copies;
  for (i32 i = 0; i < staging()[kHeaderCopies]; i++, copies += kCopyWords)
    if (const CudaStatus s = copy_slot(blocks->memory, u32(copies[0]), u32(copies[1]), u32(copies[2]))) return s;
  return {};
}

// The rows of one cache slot in all planes are a block: a plane is a slice, whose rows are heads.
CudaStatus CudaStep::copy_slot(const SlotMemory& m, u32 from, u32 to, u32 positions) {
  const size_t head = size_t(m.max_len) * m.row_bytes;
  const CudaCopy3D::Pitched all{m.cache, head, head, size_t(m.slots) * m.kv_heads};
  const CudaCopy3D rows{.from_position = {.y = size_t(from) * m.kv_heads},
                        .from = all,
                        .to_position = {.y = size_t(to) * m.kv_heads},
                        .to = all,
                        .width = size_t(positions) * m.row_bytes,
                        .height = m.kv_heads,
                        .depth = m.planes,
                        .kind = kCudaOnDevice};
  if (const CudaStatus s = lane_.api_.cudaMemcpy3DAsync(&rows, lane_.stream_)) return s;
  const auto tokens = [&m](u32 slot) { return m.history + size_t(slot) * m.history_len + m.prefix_len; };
  return lane_.api_.cudaMemcpyAsync(tokens(to), tokens(from), positions * sizeof(i32), kCudaOnDevice, lane_.stream_);
}

u64 CudaStep::expected_end_ns() const {
  const u64 usual = lane_.graphs_[graph_].usual_ns;
  const bool next = number_ == lane_.ended_ + 1;  // those before it have ended
  const u64 behind = next ? lane_.ended_ns_ : behind_ns_;
  return usual && (behind || next) ? std::max(launched_ns_, behind) + usual : 0;
}

u64 CudaStep::due_ns() {
  if (!running_ || lane_.fault_) return 0;
  const u64 now = now_ns(), expected = expected_end_ns();
  if (now + kNearNs < expected) return expected - kNearNs - now;
  if (look() != Progress::kGoesOn || (expected && now < expected + kLateNs)) return 0;
  return std::clamp((now - std::max(expected, launched_ns_)) / 8, kLookNsMin, kLookNsMax);
}

CudaStep::Progress CudaStep::wait(u64 timeout_ns, u64 spin_ns) {
  const u64 begun = now_ns();
  u64 pause = kLookNsMin;
  for (;;) {
    if (const Progress progress = look(); progress != Progress::kGoesOn) return progress;
    const u64 waited = now_ns() - begun;
    if (waited >= timeout_ns) return Progress::kGoesOn;
    if (waited < spin_ns) continue;
    sleep_ns(std::min(pause, timeout_ns - waited));
    pause = std::min(pause * 2, kSleepNsMax);
  }
}

// Queries the event once. When it is done, the step's memory belongs to the host again.
CudaStep::Progress CudaStep::look() {
  if (lane_.fault_) return Progress::kFault;
  if (!running_) return Progress::kDone;
  const CudaStatus status = lane_.api_.cudaEventQuery(event_);
  if (status.code == kCudaNotReady) {
    asked_early_ = true;
    return Progress::kGoesOn;
  }
  if (status) {
    lane_.fault_ = status;
    return Progress::kFault;
  }
  finish(now_ns());
  return Progress::kDone;
}

void CudaStep::finish(u64 now) {
  // Even "not ready" stays this thread's last error until it is read, and torch's next check would report it.
  if (asked_early_) lane_.api_.cudaGetLastError();
  running_ = asked_early_ = false;
  RawStamps raw;
  std::memcpy(static_cast<void*>(&raw), output_, sizeof raw);
  stamps_ = lane_.time_.place(launched_ns_, raw, now);
  // The estimate of the device's clock changes a little from step to step, but the steps of a stream never overlap.
  stamps_.start_ns = std::max(stamps_.start_ns, i64(lane_.ended_ns_));
  stamps_.end_ns = std::max(stamps_.end_ns, stamps_.start_ns);
  CudaGraph& graph = lane_.graphs_[graph_];
  unpack(items_, graph.shape);
  const u64 turn = std::max(launched_ns_, lane_.ended_ns_), end = u64(stamps_.end_ns);
  graph.usual_ns = learn(graph.usual_ns, end > turn ? end - turn : 1);
  graph.steps++;
  lane_.ended_ = std::max(lane_.ended_, number_);
  lane_.ended_ns_ = std::max(lane_.ended_ns_, end);
}

}  // namespace fastqps
