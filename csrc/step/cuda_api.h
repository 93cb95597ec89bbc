// The CUDA runtime, found at run time in the library that torch has loaded: nothing of CUDA is needed to build this,
// and streams, graphs and memory are the same ones that torch sees. Handles are opaque, as they are to CUDA's own
// users.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "core/types.h"

namespace fastqps {

using CudaHandle = void*;  // a stream, an event or an executable graph
struct CudaIpcHandle {     // names a piece of device memory to other processes; passed by value, as CUDA does
  char bytes[64];
};

inline constexpr int kCudaNotReady = 600;  // what a query says of work that goes on: no error
inline constexpr int kCudaToDevice = 1, kCudaToHost = 2, kCudaAnyWay = 4;
inline constexpr unsigned kCudaStreamNonBlocking = 1, kCudaEventNoTiming = 2, kCudaIpcLazy = 1;

// Every entry point that is called, with its parameters. Each returns 0 or an error's number.
#define FASTQPS_CUDA_CALLS(CALL)                                     \
  CALL(cudaRuntimeGetVersion, int*)                                  \
  CALL(cudaGetDeviceCount, int*)                                     \
  CALL(cudaGetDevice, int*)                                          \
  CALL(cudaSetDevice, int)                                           \
  CALL(cudaMemGetInfo, size_t*, size_t*)                             \
  CALL(cudaMalloc, void**, size_t)                                   \
  CALL(cudaFree, void*)                                              \
  CALL(cudaHostAlloc, void**, size_t, unsigned)                      \
  CALL(cudaFreeHost, void*)                                          \
  CALL(cudaMemcpy, void*, const void*, size_t, int)                  \
  CALL(cudaMemcpyAsync, void*, const void*, size_t, int, CudaHandle) \
  CALL(cudaStreamCreateWithFlags, CudaHandle*, unsigned)             \
  CALL(cudaStreamDestroy, CudaHandle)                                \
  CALL(cudaStreamSynchronize, CudaHandle)                            \
  CALL(cudaDeviceSynchronize)                                        \
  CALL(cudaEventCreateWithFlags, CudaHandle*, unsigned)              \
  CALL(cudaEventDestroy, CudaHandle)                                 \
  CALL(cudaEventRecord, CudaHandle, CudaHandle)                      \
  CALL(cudaEventQuery, CudaHandle)                                   \
  CALL(cudaGraphLaunch, CudaHandle, CudaHandle)                      \
  CALL(cudaGetLastError)                                             \
  CALL(cudaIpcGetMemHandle, CudaIpcHandle*, void*)                   \
  CALL(cudaIpcOpenMemHandle, void**, CudaIpcHandle, unsigned)        \
  CALL(cudaIpcCloseMemHandle, void*)

enum CudaCall : u32 {
#define FASTQPS_CUDA_NUMBER(name, ...) k_##name,
  FASTQPS_CUDA_CALLS(FASTQPS_CUDA_NUMBER)
#undef FASTQPS_CUDA_NUMBER
      kCudaCalls
};

// What a call returned. True: it failed.
struct CudaStatus {
  CudaCall call = kCudaCalls;
  int code = 0;
  explicit operator bool() const { return code != 0; }
};

// Calls are counted by entry point, from mark() on. Thread-safe; a device is chosen for each thread (cudaSetDevice).
class CudaApi {
 public:
  // The library at `path`; empty: the one CUDA runtime that this process has loaded. Null, and why, where there is
  // none, or one that lacks an entry point.
  static std::unique_ptr<CudaApi> open(const std::string& path, std::string* error);

  const std::string& path() const { return path_; }
  static const char* name(CudaCall call);
  const char* text(int code) const { return error_string_(code); }
  u64 count(CudaCall call) const { return counts_[call].load(kRelaxed); }
  void mark() {
    for (auto& count : counts_) count.store(0, kRelaxed);
  }

  // relaxed: a count is read long after
#define FASTQPS_CUDA_METHOD(name, ...)            \
  template <class... Args>                        \
  CudaStatus name(Args... args) {                 \
    counts_[k_##name].fetch_add(1, kRelaxed);     \
    return {k_##name, entries_.name##_(args...)}; \
  }
  FASTQPS_CUDA_CALLS(FASTQPS_CUDA_METHOD)
#undef FASTQPS_CUDA_METHOD

 private:
  CudaApi() = default;
  bool find_entries(void* library, std::string* error);

  struct {
#define FASTQPS_CUDA_ENTRY(name, ...) int (*name##_)(__VA_ARGS__) = nullptr;
    FASTQPS_CUDA_CALLS(FASTQPS_CUDA_ENTRY)
#undef FASTQPS_CUDA_ENTRY
  } entries_;
  const char* (*error_string_)(int) = nullptr;
  std::string path_;
  std::array<std::atomic<u64>, kCudaCalls> counts_{};
};

}  // namespace fastqps
