// The exported names: those of libcudart that fastqps calls, and the fake's own.
#include <cstdlib>
#include <cstring>
#include <utility>

#include "fake_cuda.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

using namespace fake;

namespace {

thread_local int device_number = 0, last_error = 0;

struct Counts {
  std::mutex mutex;
  std::map<std::string, int64_t> calls;
};
Counts& counts = *new Counts;

void count(const char* name, int64_t n = 1) {
  const std::lock_guard lock(counts.mutex);
  counts.calls[name] += n;
}

int note(int code) {
  if (code) last_error = code;
  return code;
}

// A call: counted, and refused after a fault of the device.
template <class Body>
int call(const char* name, Body body) {
  count(name);
  if (const int fault = current().fault) return note(fault);
  return note(body());
}

Stream& stream_of(void* handle) {
  static Stream* defaults[kDevicesMax] = {};
  static std::mutex& mutex = *new std::mutex;
  if (handle) return *static_cast<Stream*>(handle);
  const std::lock_guard lock(mutex);
  Stream*& own = defaults[device_number];
  return own ? *own : *(own = new Stream(current()));
}

int break_down(int code) {
  current().break_down(code);
  return code;
}

int copy_later(void* to, const void* from, size_t bytes, int kind, void* stream) {
  if (knobs.hits("fail_copy")) return break_down(kLaunchFailure);
  if (kind != 3) {
    if (!is_pinned(kind == 1 ? from : to, bytes)) count("pageable copies");
    count(kind == 1 ? "bytes to the device" : "bytes to the host", int64_t(bytes));
  }
  stream_of(stream).push([=] {
    sleep_ns(random_below(knobs["copy_delay_ns"]));
    std::memcpy(to, from, bytes);
  });
  return 0;
}

}  // namespace

Device& fake::current() { return devices[device_number]; }

EXPORT int cudaRuntimeGetVersion(int* version) {
  return call(__func__, [=] { return *version = 13000, 0; });
}
EXPORT int cudaGetDeviceCount(int* n) {
  return call(__func__, [=] { return *n = int(knobs["devices"]), 0; });
}
EXPORT int cudaGetDevice(int* device) {
  return call(__func__, [=] { return *device = device_number, 0; });
}
EXPORT int cudaSetDevice(int device) {
  count(__func__);
  if (device < 0 || device >= knobs["devices"] || device >= kDevicesMax) return note(kNoDevice);
  device_number = device;
  return note(current().fault);
}
EXPORT int cudaMemGetInfo(size_t* free, size_t* total) {
  return call(__func__, [=] {
    *total = size_t(knobs["memory_bytes"]), *free = *total - size_t(current().used_bytes);
    return 0;
  });
}
EXPORT int cudaMalloc(void** pointer, size_t bytes) {
  return call(__func__, [=] { return (*pointer = allocate(bytes ? bytes : 1)) ? 0 : kOutOfMemory; });
}
EXPORT int cudaFree(void* pointer) {
  return call(__func__, [=] {
    current().synchronize();
    return !pointer || release(pointer) ? 0 : kInvalidValue;
  });
}
EXPORT int cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return call(__func__, [=] {
    if (posix_memalign(pointer, 4096, bytes ? bytes : 1)) return kOutOfMemory;
    remember_pinned(*pointer, bytes);
    return 0;
  });
}
EXPORT int cudaFreeHost(void* pointer) {
  return call(__func__, [=] {
    if (!forget_pinned(pointer)) return kInvalidValue;
    current().synchronize();
    free(pointer);
    return 0;
  });
}
EXPORT int cudaMemcpy(void* to, const void* from, size_t bytes, int) {
  return call(__func__, [=] {
    current().synchronize();
    std::memcpy(to, from, bytes);
    return 0;
  });
}
EXPORT int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  return call(__func__, [=] { return copy_later(to, from, bytes, kind, stream); });
}
// As cudaMemcpy3DParms without arrays.
struct Copy3D {
  struct Position {
    size_t x, y, z;
  };
  struct Pitched {
    char* at;
    size_t pitch, width, rows;
    char* row(const Position& first, size_t y, size_t z) const {
      return at + ((first.z + z) * rows + first.y + y) * pitch + first.x;
    }
  };
  void* from_array;
  Position from_first;
  Pitched from;
  void* to_array;
  Position to_first;
  Pitched to;
  size_t width, height, depth;
  int kind;
};
EXPORT int cudaMemcpy3DAsync(const Copy3D* given, void* stream) {
  return call(__func__, [=] {
    const Copy3D copy = *given;
    const bool fits = copy.from_first.y + copy.height <= copy.from.rows &&
                      copy.to_first.y + copy.height <= copy.to.rows && copy.width <= copy.from.pitch &&
                      copy.width <= copy.to.pitch;
    if (copy.from_array || copy.to_array || !fits || copy.kind != 3) return kInvalidValue;
    if (knobs.hits("fail_copy")) return break_down(kLaunchFailure);
    stream_of(stream).push([copy] {
      sleep_ns(random_below(knobs["copy_delay_ns"]));
      for (size_t z = 0; z < copy.depth; z++)
        for (size_t y = 0; y < copy.height; y++)
          std::memcpy(copy.to.row(copy.to_first, y, z), copy.from.row(copy.from_first, y, z), copy.width);
    });
    return 0;
  });
}
EXPORT int cudaStreamCreateWithFlags(void** stream, unsigned) {
  return call(__func__, [=] { return *stream = new Stream(current()), 0; });
}
EXPORT int cudaStreamDestroy(void* stream) {
  count(__func__);
  return static_cast<Stream*>(stream)->close(), 0;
}
EXPORT int cudaStreamSynchronize(void* stream) {
  return call(__func__, [=] { return stream_of(stream).synchronize(), int(current().fault); });
}
EXPORT int cudaDeviceSynchronize() {
  return call(__func__, [] { return current().synchronize(), int(current().fault); });
}
EXPORT int cudaEventCreateWithFlags(void** event, unsigned) {
  return call(__func__, [=] { return *event = new Event, 0; });
}
EXPORT int cudaEventDestroy(void* event) {
  count(__func__);
  return delete static_cast<Event*>(event), 0;
}
EXPORT int cudaEventRecord(void* event, void* stream) {
  return call(__func__, [=] {
    auto* own = static_cast<Event*>(event);
    const uint64_t number = ++own->recorded;
    stream_of(stream).push([=] { own->passed.store(number, std::memory_order_release); });
    return 0;
  });
}
EXPORT int cudaEventQuery(void* event) {
  return call(__func__, [=] {
    auto* own = static_cast<Event*>(event);
    return own->passed.load(std::memory_order_acquire) == own->recorded ? 0 : kNotReady;
  });
}
EXPORT int cudaGraphLaunch(void* graph, void* stream) {
  return call(__func__, [=] {
    if (!graph) return kInvalidHandle;
    if (knobs.hits("fail_launch")) return break_down(kLaunchFailure);
    const bool fails = knobs.hits("fail_graph"), hangs = knobs.hits("hang_graph");
    Stream& on = stream_of(stream);
    on.push([=, &on] { static_cast<Graph*>(graph)->run(fails, hangs, on.device); });
    return 0;
  });
}
EXPORT int cudaGetLastError() {
  count(__func__);
  return std::exchange(last_error, 0);
}
EXPORT const char* cudaGetErrorString(int code) {
  switch (code) {
    case 0:
      return "no error";
    case kInvalidValue:
      return "invalid argument";
    case kOutOfMemory:
      return "out of memory";
    case kNoDevice:
      return "invalid device ordinal";
    case kInvalidContext:
      return "invalid device context";
    case kInvalidHandle:
      return "invalid resource handle";
    case kNotReady:
      return "device not ready";
    case kIllegalAddress:
      return "an illegal memory access was encountered";
    case kLaunchFailure:
      return "unspecified launch failure";
    default:
      return "unrecognized error code";
  }
}

struct IpcHandle {
  char bytes[64];
};
EXPORT int cudaIpcGetMemHandle(IpcHandle* handle, void* pointer) {
  return call(__func__, [=] { return export_memory(handle->bytes, pointer); });
}
EXPORT int cudaIpcOpenMemHandle(void** pointer, IpcHandle handle, unsigned) {
  return call(__func__, [=] { return import_memory(pointer, handle.bytes); });
}
EXPORT int cudaIpcCloseMemHandle(void* pointer) {
  return call(__func__, [=] { return close_import(pointer) ? 0 : kInvalidValue; });
}

// ---- the fake's own

// An executable graph that runs `function(user)` in the stream's thread. `stamps`: where it says when, by the device's
// clock; null: nowhere.
EXPORT void* fakeGraphCreate(void (*function)(void*), void* user, int64_t* stamps) {
  static auto& all = *new std::deque<Graph>;  // they stay
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  return &all.emplace_back(Graph{function, user, stamps});
}
EXPORT int64_t fakeClock() { return clock_ns(); }
// 0: there is no such knob.
EXPORT int fakeSet(const char* name, int64_t value) { return knobs.set(name, value); }
// Calls of an entry point by anybody, since fakeMark. Also, of asynchronous copies: "pageable copies", "bytes to the
// device" and "bytes to the host".
EXPORT int64_t fakeCount(const char* name) {
  const std::lock_guard lock(counts.mutex);
  const auto found = counts.calls.find(name);
  return found == counts.calls.end() ? 0 : found->second;
}
EXPORT void fakeMark() {
  const std::lock_guard lock(counts.mutex);
  counts.calls.clear();
}
