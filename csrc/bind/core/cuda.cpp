// CUDA's runtime, lanes and steps for Python: fastqps/devices/cuda is what runs on them.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <map>

#include "bind/bind.h"
#include "step/cuda/cuda_step.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

PyObject* cuda_error = nullptr;  // the type; the module keeps it

[[noreturn]] void raise(const char* call, int code, const std::string& text) {
  py::object error = py::handle(cuda_error)(text);
  error.attr("call") = call;
  error.attr("code") = code;
  PyErr_SetObject(cuda_error, error.ptr());
  throw py::error_already_set();
}

struct Api {
  std::unique_ptr<CudaApi> api;
  std::map<int, DeviceTime> times;  // by device

  explicit Api(const std::optional<std::string>& path) {
    std::string error;
    api = CudaApi::open(path.value_or(""), &error);
    if (!api) raise("dlopen", -1, error);
  }
  CudaApi* operator->() { return api.get(); }
  void check(CudaStatus status) const {
    if (!status) return;
    raise(CudaApi::name(status.call), status.code,
          std::string(api->own_name(status.call)) + ": " + api->text(status.code) + " (" + std::to_string(status.code) +
              ")");
  }
  // A call that may wait: without the GIL, which what it waits for may need.
  template <class Body>
  void wait(Body body) {
    CudaStatus status;
    {
      py::gil_scoped_release nogil;
      status = body(*api);
    }
    check(status);
  }
  int device() {
    int device = 0;
    check(api->cudaGetDevice(&device));
    return device;
  }
};

struct Lane {
  Lane(std::shared_ptr<Api> api, StepBlocks blocks, u64 stream, u64 staging, u64 output)
      : api(std::move(api)),
        lane(*this->api->api, this->api->times[this->api->device()], std::move(blocks), address(stream),
             address<i32>(staging), address<i32>(output)) {}
  std::shared_ptr<Api> api;
  CudaLane lane;

  void add_graph(u64 graph, u32 max_tokens, u32 max_items) {
    if (!lane.add(address(graph), max_tokens, max_items))
      throw std::runtime_error("a graph was added to a lane while steps are in flight on it");
  }
  void add_parts(u64 head, u64 tail, u32 max_tokens, u32 max_items) {
    if (!lane.add_parts(address(head), address(tail), max_tokens, max_items))
      throw std::runtime_error("parts were added of a graph that is not there, or while steps are in flight");
  }
  const std::vector<CudaGraph>& graphs() const { return lane.graphs(); }
};

class Step {
 public:
  explicit Step(std::shared_ptr<Lane> lane) : lane_(std::move(lane)) {
    CudaStatus status;
    step_ = CudaStep::open(lane_->lane, &status);
    lane_->api->check(status);
  }
  ~Step() {
    py::gil_scoped_release nogil;  // a step in flight is waited for
    step_.reset();
  }
  CudaStep* operator->() { return step_.get(); }
  u32 words() const {
    return std::visit([](auto& b) { return b.words(); }, lane_->lane.blocks());
  }
  u32 out_words() const {
    return std::visit([](auto& b) { return b.out_words(); }, lane_->lane.blocks());
  }

  void launch(u32 items, u32 tokens, u32 new_items) { check(step_->launch({items, tokens, new_items}), items, tokens); }
  bool begin(u32 items, u32 tokens, u32 new_items) {
    const CudaStep::Launch begun = step_->begin({items, tokens, new_items});
    if (begun == CudaStep::Launch::kNoGraph) return false;
    check(begun, items, tokens);
    return true;
  }
  void end() { check(step_->end(), 0, 0); }
  // The packed step is the host's again with the next call.
  std::pair<const i32*, u32> pack(StepSize n, GraphShape shape) {
    const StepBlocks& blocks = lane_->lane.blocks();
    const bool fits = n.items <= shape.max_items && n.tokens <= shape.max_tokens;
    if (!fits || !std::visit([&](auto& b) { return b.holds(n); }, blocks))
      throw py::value_error(size(n.items, n.tokens) + " are more than the graph or the lane's blocks hold");
    CopyWords words;
    const i32* packed = step_->pack(n, shape, &words);
    return {packed, words.up};
  }
  void copy_slots() { lane_->api->check(step_->copy_slots()); }
  void wait() {
    for (u64 spin_ns = kSpinNs;; spin_ns = 0) {
      CudaStep::Progress progress;
      {
        py::gil_scoped_release nogil;
        progress = step_->wait(kSliceNs, spin_ns);
      }
      if (progress == CudaStep::Progress::kDone) return;
      if (progress == CudaStep::Progress::kFault) lane_->api->check(lane_->lane.fault());
      if (PyErr_CheckSignals()) throw py::error_already_set();
    }
  }

 private:
  static constexpr u64 kSpinNs = 200'000, kSliceNs = 10'000'000;  // kSliceNs: so long at most a signal goes unheard

  void check(CudaStep::Launch launched, u32 items, u32 tokens) const {
    switch (launched) {
      case CudaStep::Launch::kDone:
        return;
      case CudaStep::Launch::kRunning:
        throw std::runtime_error("a step was launched while its last one runs");
      case CudaStep::Launch::kTooLarge:
        throw py::value_error(size(items, tokens) + " are more than the lane's blocks hold");
      case CudaStep::Launch::kNoGraph:
        throw py::value_error("no graph was added that holds " + size(items, tokens));
      case CudaStep::Launch::kFault:
        lane_->api->check(lane_->lane.fault());
    }
  }
  static std::string size(u32 items, u32 tokens) {
    return std::to_string(items) + " items of " + std::to_string(tokens) + " tokens";
  }

  std::shared_ptr<Lane> lane_;
  std::unique_ptr<CudaStep> step_;
};

template <class T>
py::array_t<T> view(const T* at, size_t n, py::handle owner) {
  return py::array_t<T>(py::ssize_t(n), at, owner);
}

py::bytes ipc_export(Api& self, u64 pointer) {
  CudaIpcHandle handle;
  self.check(self->cudaIpcGetMemHandle(&handle, address(pointer)));
  return {handle.bytes, sizeof handle.bytes};
}

u64 ipc_open(Api& self, const py::bytes& from) {
  CudaIpcHandle handle;
  const std::string_view bytes = from;
  if (bytes.size() != sizeof handle.bytes) throw py::value_error("a CUDA IPC handle has 64 bytes");
  std::copy(bytes.begin(), bytes.end(), handle.bytes);
  void* pointer = nullptr;
  self.check(self->cudaIpcOpenMemHandle(&pointer, handle, kCudaIpcLazy));
  return reinterpret_cast<u64>(pointer);
}

template <class T, class Call>
T made(Api& self, Call call) {
  T value{};
  self.check(call(&value));
  return value;
}

void register_api(py::module_& m) {
  py::class_<Api, std::shared_ptr<Api>>(
      m, "CudaApi", "The CUDA or HIP runtime at `path`, or the one that torch is linked to. Its calls raise CudaError.")
      .def(py::init<std::optional<std::string>>(), "path"_a = py::none())
      .def_property_readonly("path", [](Api& self) { return self->path(); })
      .def("runtime_version", [](Api& s) { return made<int>(s, [&](int* n) { return s->cudaRuntimeGetVersion(n); }); })
      .def("device_count", [](Api& s) { return made<int>(s, [&](int* n) { return s->cudaGetDeviceCount(n); }); })
      .def(
          "set_device", [](Api& self, int device) { self.check(self->cudaSetDevice(device)); }, "device"_a,
          "Chooses this thread's device.")
      .def(
          "memory",
          [](Api& self) {
            size_t free = 0, total = 0;
            self.check(self->cudaMemGetInfo(&free, &total));
            return py::make_tuple(free, total);
          },
          "(free, total) of the device, in bytes.")
      .def(
          "malloc",
          [](Api& self, size_t bytes) {
            void* at = nullptr;
            self.wait([&](CudaApi& api) { return api.cudaMalloc(&at, bytes); });
            return reinterpret_cast<u64>(at);
          },
          "size_bytes"_a, "Device memory of its own, which ipc_export takes.")
      .def(
          "free",
          [](Api& self, u64 pointer) { self.wait([&](CudaApi& api) { return api.cudaFree(address(pointer)); }); },
          "pointer"_a)
      .def(
          "copy",
          [](Api& self, u64 to, u64 source, size_t bytes) {
            self.wait([&](CudaApi& api) {
              return api.cudaMemcpy(address(to), static_cast<const void*>(address(source)), bytes, kCudaAnyWay);
            });
          },
          "to"_a, "source"_a, "size_bytes"_a, "Copies between host and device, either way, and waits for it.")
      .def(
          "make_stream",
          [](Api& self) {
            CudaHandle stream = nullptr;
            self.check(self->cudaStreamCreateWithFlags(&stream, kCudaStreamNonBlocking));
            return reinterpret_cast<u64>(stream);
          },
          "A stream that waits for no other one.")
      .def(
          "close_stream", [](Api& self, u64 stream) { self.check(self->cudaStreamDestroy(address(stream))); },
          "stream"_a)
      .def(
          "synchronize",
          [](Api& self, std::optional<u64> stream) {
            self.wait([&](CudaApi& api) {
              return stream ? api.cudaStreamSynchronize(address(*stream)) : api.cudaDeviceSynchronize();
            });
          },
          "stream"_a = py::none(), "Waits for a stream, or for the device.")
      .def("ipc_export", &ipc_export, "pointer"_a, "64 bytes by which another process opens what malloc returned.")
      .def("ipc_open", &ipc_open, "handle"_a, "The address of another process's memory, which must outlive its use.")
      .def(
          "ipc_close", [](Api& self, u64 pointer) { self.check(self->cudaIpcCloseMemHandle(address(pointer))); },
          "pointer"_a)
      .def(
          "mark", [](Api& self) { self->mark(); }, "From now on calls are counted.")
      .def(
          "counts",
          [](Api& self) {
            std::map<std::string, u64> counts;
            for (u32 call = 0; call < kCudaCalls; call++)
              if (const u64 n = self->count(CudaCall(call))) counts[CudaApi::name(CudaCall(call))] = n;
            return counts;
          },
          "Calls through this object since mark(), by CUDA's name for the entry point.");
}

void register_lane(py::module_& m) {
  py::class_<CudaGraph>(m, "CudaGraph", "A graph of a lane, and how often it has run.")
      .def_property_readonly("graph", [](const CudaGraph& g) { return reinterpret_cast<u64>(g.exec); })
      .def_property_readonly("max_tokens", [](const CudaGraph& g) { return g.shape.max_tokens; })
      .def_property_readonly("max_items", [](const CudaGraph& g) { return g.shape.max_items; })
      .def_readonly("steps", &CudaGraph::steps);
  py::class_<Lane, std::shared_ptr<Lane>>(
      m, "CudaLane", "One stream of this thread's device, its blocks and its graphs; see csrc/step/cuda/cuda_step.h.")
      .def_static(
          "encoder",
          [](std::shared_ptr<Api> api, u64 stream, u64 staging, u64 output, u32 max_tokens, u32 max_items, u32 width,
             bool token_types, bool rows_by_token, bool positions) {
            const EncodeBlocks blocks{EncodeLayout(max_tokens, max_items, width, true, rows_by_token), token_types,
                                      positions};
            return std::make_shared<Lane>(std::move(api), blocks, stream, staging, output);
          },
          "api"_a, py::kw_only(), "stream"_a, "staging"_a, "output"_a, "max_tokens"_a, "max_items"_a, "width"_a,
          "token_types"_a, "rows_by_token"_a = false, "positions"_a = false,
          "Addresses of the device's blocks, which a graph reads and writes as EncodeLayout of its own shape says; "
          "STAMP_WORDS stand in front of the output.")
      .def_static(
          "decoder",
          [](std::shared_ptr<Api> api, u64 stream, u64 staging, u64 output, u32 max_tokens, u32 max_runs, u64 cache,
             u32 planes, u32 slots, u32 kv_heads, u32 max_len, u32 row_bytes, u64 history, u32 history_len,
             u32 prefix_len) {
            const SlotMemory memory{address<char>(cache),
                                    address<i32>(history),
                                    planes,
                                    slots,
                                    kv_heads,
                                    max_len,
                                    row_bytes,
                                    history_len,
                                    prefix_len};
            const DecodeBlocks blocks{DecodeLayout(max_tokens, max_runs), memory};
            return std::make_shared<Lane>(std::move(api), blocks, stream, staging, output);
          },
          "api"_a, py::kw_only(), "stream"_a, "staging"_a, "output"_a, "max_tokens"_a, "max_runs"_a, "cache"_a,
          "planes"_a, "slots"_a, "kv_heads"_a, "max_len"_a, "row_bytes"_a, "history"_a, "history_len"_a, "prefix_len"_a,
          "The same, as DecodeLayout says. The rest is SlotMemory: what is copied from one cache slot to another.")
      .def("add_graph", &Lane::add_graph, "graph"_a, py::kw_only(), "max_tokens"_a, "max_items"_a,
           "Adds a captured graph for steps of up to so many tokens and items, or replaces the one of that size.")
      .def("add_parts", &Lane::add_parts, "head"_a, "tail"_a, py::kw_only(), "max_tokens"_a, "max_items"_a,
           "Adds the two parts of the graph of that size, for `CudaStep.begin` and `end`.")
      .def("graphs", &Lane::graphs,
           "What was added, smallest first, with how many steps it ran and how long they take.")
      .def_property_readonly("stream", [](Lane& self) { return reinterpret_cast<u64>(self.lane.stream()); });
  py::class_<Step>(m, "CudaStep",
                   "A step that can be in flight on a lane: its host blocks; see csrc/step/cuda/cuda_step.h.")
      .def(py::init<std::shared_ptr<Lane>>(), "lane"_a)
      .def_property_readonly("staging",
                             [](py::object self) {
                               Step& step = self.cast<Step&>();
                               return view(step->staging(), step.words(), self);
                             })
      .def_property_readonly("output",
                             [](py::object self) {
                               Step& step = self.cast<Step&>();
                               return view(step->output(), step.out_words(), self);
                             })
      .def_property_readonly("stamps",
                             [](py::object self) { return view(&self.cast<Step&>()->stamps()->start_ns, 2, self); })
      .def("launch", &Step::launch, "n_items"_a, "n_tokens"_a, "n_new"_a,
           "Gives the step in `staging` to the device. ValueError: it is too large; RuntimeError: its last one runs.")
      .def("begin", &Step::begin, "n_items"_a, "n_tokens"_a, "n_new"_a,
           "Gives the device what it can compute before `end`. False: nothing, as its graph has no parts.")
      .def("end", &Step::end, "Gives the device the rest of a begun step.")
      .def(
          "pack",
          [](py::object self, u32 items, u32 tokens, u32 new_items, u32 max_tokens, u32 max_items) {
            const auto [words, n] = self.cast<Step&>().pack({items, tokens, new_items}, {max_tokens, max_items});
            return view(words, n, self);
          },
          "n_items"_a, "n_tokens"_a, "n_new"_a, py::kw_only(), "max_tokens"_a, "max_items"_a,
          "What `launch` copies to the device for a graph of that size, until the next step is packed.")
      .def(
          "unpack",
          [](Step& self, u32 items, u32 max_tokens, u32 max_items) {
            self->unpack(items, {max_tokens, max_items});
          },
          "n_items"_a, py::kw_only(), "max_tokens"_a, "max_items"_a,
          "Moves what a graph of that size has made, copied to `output`, to where the lane's layout has it.")
      .def("copy_slots", &Step::copy_slots,
           "Enqueues the copies between cache slots of the step in `staging`, which `launch` does by itself.")
      .def_property_readonly(
          "graph",
          [](Step& self) {
            const GraphShape shape = self->shape();
            return py::make_tuple(shape.max_tokens, shape.max_items);
          },
          "Of the graph in which the step was launched last: (max_tokens, max_items).")
      .def(
          "due_s", [](Step& self) { return double(self->due_ns()) * 1e-9; },
          "0 once the step is done, or nearly; else the seconds after which to look again.")
      .def("wait", &Step::wait, "Returns when the step is done.");
}

}  // namespace

void register_cuda(py::module_& m) {
  static_assert(sizeof(DeviceStamps) == 16 && offsetof(DeviceStamps, end_ns) == 8);
  cuda_error = PyErr_NewExceptionWithDoc(
      "fastqps._core.CudaError",
      "A call of the CUDA or HIP runtime failed. `call`: CUDA's name for it, also where the runtime is HIP; dlopen, "
      "dlsym. `code`: what it returned; -1: it could not be called.",
      PyExc_RuntimeError, nullptr);
  py::handle(cuda_error).attr("call") = "", py::handle(cuda_error).attr("code") = -1;  // their types, for stubs
  m.attr("CudaError") = py::handle(cuda_error);
  m.attr("STAMP_WORDS") = kStampWords;
  py::class_<EncodeLayout>(m, "EncodeLayout",
                           "Offsets, in 32-bit words, of the sections of an encoder step's blocks; see "
                           "csrc/step/encode/encode_layout.h.")
      .def(py::init<u32, u32, u32, bool, bool, bool>(), "max_tokens"_a, "max_items"_a, "width"_a,
           "token_types"_a = true, "rows_by_token"_a = false, "positions"_a = false)
      .def_readonly("input_ids", &EncodeLayout::input_ids)
      .def_readonly("token_type_ids", &EncodeLayout::token_type_ids)
      .def_readonly("cu_seqlens", &EncodeLayout::cu_seqlens)
      .def_readonly("position_ids", &EncodeLayout::position_ids)
      .def_readonly("device_words", &EncodeLayout::device_words)
      .def_readonly("words", &EncodeLayout::words)
      .def_readonly("out_words", &EncodeLayout::out_words);
  register_api(m);
  register_lane(m);
}

}  // namespace fastqps::bind
