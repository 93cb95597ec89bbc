// The GPU's runtime library, CUDA or AMD's HIP, found at run time in the library that torch has loaded. So the build
// needs no vendor's headers, and streams, graphs and memory are shared with torch. Handles are opaque. HIP has the same
// functions, constants and error numbers under other names; here all have CUDA's names, as in torch.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>

#include "contract/types.h"

namespace fastqps {

using CudaHandle = void*;  // a stream, an event or an executable graph
struct CudaIpcHandle {     // identifies device memory to other processes; passed by value, as in CUDA
  char bytes[64];
};

// A copy of a block of rows in pitched memory: `height` rows of `width` bytes in each of `depth` slices. A slice has
// `rows` rows, of which each begins `pitch` bytes behind the one before.
struct CudaCopy3D {
  struct Position {
    size_t x = 0, y = 0, z = 0;
  };
  struct Pitched {
    void* at = nullptr;
    size_t pitch = 0, width = 0, rows = 0;
  };

  void* no_array = nullptr;
  Position from_position;
  Pitched from;
  void* no_other_array = nullptr;
  Position to_position;
  Pitched to;
  size_t width = 0, height = 0, depth = 0;
  int kind = 0;
};

inline constexpr int kCudaNotReady = 600;  // returned by a query while work is running; not an error
inline constexpr int kCudaToDevice = 1, kCudaToHost = 2, kCudaOnDevice = 3, kCudaAnyWay = 4;
inline constexpr unsigned kCudaStreamNonBlocking = 1, kCudaEventNoTiming = 2, kCudaIpcLazy = 1;

// Every entry point in use: CUDA's name, HIP's name, and the parameters. Each returns 0 or an error number.
// tests/cuda/hip_abi.cpp compares it with AMD's own header.
#define FASTQPS_CUDA_CALLS(CALL)                                                     \
  CALL(cudaRuntimeGetVersion, hipRuntimeGetVersion, int*)                            \
  CALL(cudaGetDeviceCount, hipGetDeviceCount, int*)                                  \
  CALL(cudaGetDevice, hipGetDevice, int*)                                            \
  CALL(cudaSetDevice, hipSetDevice, int)                                             \
  CALL(cudaMemGetInfo, hipMemGetInfo, size_t*, size_t*)                              \
  CALL(cudaMalloc, hipMalloc, void**, size_t)                                        \
  CALL(cudaFree, hipFree, void*)                                                     \
  CALL(cudaHostAlloc, hipHostMalloc, void**, size_t, unsigned)                       \
  CALL(cudaFreeHost, hipHostFree, void*)                                             \
  CALL(cudaMemcpy, hipMemcpy, void*, const void*, size_t, int)                       \
  CALL(cudaMemcpyAsync, hipMemcpyAsync, void*, const void*, size_t, int, CudaHandle) \
  CALL(cudaMemcpy3DAsync, hipMemcpy3DAsync, const CudaCopy3D*, CudaHandle)           \
  CALL(cudaStreamCreateWithFlags, hipStreamCreateWithFlags, CudaHandle*, unsigned)   \
  CALL(cudaStreamDestroy, hipStreamDestroy, CudaHandle)                              \
  CALL(cudaStreamSynchronize, hipStreamSynchronize, CudaHandle)                      \
  CALL(cudaDeviceSynchronize, hipDeviceSynchronize)                                  \
  CALL(cudaEventCreateWithFlags, hipEventCreateWithFlags, CudaHandle*, unsigned)     \
  CALL(cudaEventDestroy, hipEventDestroy, CudaHandle)                                \
  CALL(cudaEventRecord, hipEventRecord, CudaHandle, CudaHandle)                      \
  CALL(cudaEventQuery, hipEventQuery, CudaHandle)                                    \
  CALL(cudaGraphLaunch, hipGraphLaunch, CudaHandle, CudaHandle)                      \
  CALL(cudaGetLastError, hipGetLastError)                                            \
  CALL(cudaIpcGetMemHandle, hipIpcGetMemHandle, CudaIpcHandle*, void*)               \
  CALL(cudaIpcOpenMemHandle, hipIpcOpenMemHandle, void**, CudaIpcHandle, unsigned)   \
  CALL(cudaIpcCloseMemHandle, hipIpcCloseMemHandle, void*)

enum CudaCall : u32 {
#define FASTQPS_CUDA_NUMBER(name, ...) k_##name,
  FASTQPS_CUDA_CALLS(FASTQPS_CUDA_NUMBER)
#undef FASTQPS_CUDA_NUMBER
      kCudaCalls
};

// The result of a call; true if it failed.
struct CudaStatus {
  CudaCall call = kCudaCalls;
  int code = 0;
  explicit operator bool() const { return code != 0; }
};

// Counts calls by entry point, from mark() on. Thread-safe; each thread chooses its device (cudaSetDevice).
class CudaApi {
 public:
  // Opens the library at `path`. An empty path means the one that torch is linked to, or the only one that this process
  // has loaded. Returns null and the reason if there is none or it lacks an entry point.
  static std::unique_ptr<CudaApi> open(const std::string& path, std::string* error);

  const std::string& path() const { return path_; }
  // CUDA's name and the name in the loaded library.
  static const char* name(CudaCall call);
  const char* own_name(CudaCall call) const;
  const char* text(int code) const { return error_string_(code); }
  u64 count(CudaCall call) const { return counts_[call].load(kRelaxed); }
  void mark() {
    for (auto& count : counts_) count.store(0, kRelaxed);
  }

  // relaxed: counts are read much later
#define FASTQPS_CUDA_METHOD(name, hip, ...)       \
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
#define FASTQPS_CUDA_ENTRY(name, hip, ...) int (*name##_)(__VA_ARGS__) = nullptr;
    FASTQPS_CUDA_CALLS(FASTQPS_CUDA_ENTRY)
#undef FASTQPS_CUDA_ENTRY
  } entries_;
  const char* (*error_string_)(int) = nullptr;
  bool hip_ = false;
  std::string path_;
  std::array<std::atomic<u64>, kCudaCalls> counts_{};
};

}  // namespace fastqps
