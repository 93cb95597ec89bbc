// The table of csrc/step/cuda/cuda_api.h against AMD's own header: names, numbers of parameters, their sizes,
// constants. Compiled and never run: tests/cuda/test_cuda_native.py. FASTQPS_WRONG_CALL is for a table that is wrong,
// which must not compile.
#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "step/cuda/cuda_api.h"

namespace fastqps {

template <class A, class B>
inline constexpr bool kAlike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

// Both are passed in the same registers, and give back an int.
template <class... A, class... B>
constexpr bool alike(hipError_t (*)(A...), int (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B) && sizeof(hipError_t) == sizeof(int))
    return (kAlike<A, B> && ...);
  else
    return false;
}

#define FASTQPS_CHECK(cuda, hip, ...) \
  static_assert(alike(&::hip, static_cast<int (*)(__VA_ARGS__)>(nullptr)), #hip " has other parameters");
FASTQPS_CUDA_CALLS(FASTQPS_CHECK)

#ifdef FASTQPS_WRONG_CALL
FASTQPS_CHECK(cudaMalloc, hipMalloc, void**, int)
#endif

static_assert(std::is_same_v<decltype(&::hipGetErrorString), const char* (*)(hipError_t)>);
static_assert(hipSuccess == 0 && hipErrorNotReady == kCudaNotReady);
static_assert(hipMemcpyHostToDevice == kCudaToDevice && hipMemcpyDeviceToHost == kCudaToHost);
static_assert(hipMemcpyDeviceToDevice == kCudaOnDevice && hipMemcpyDefault == kCudaAnyWay);
static_assert(hipStreamNonBlocking == kCudaStreamNonBlocking && hipEventDisableTiming == kCudaEventNoTiming);
static_assert(hipIpcMemLazyEnablePeerAccess == kCudaIpcLazy);
static_assert(sizeof(hipIpcMemHandle_t) == sizeof(CudaIpcHandle));

#define FASTQPS_PLACE(hip, own) static_assert(offsetof(hipMemcpy3DParms, hip) == offsetof(CudaCopy3D, own))
FASTQPS_PLACE(srcArray, no_array);
FASTQPS_PLACE(srcPos, from_position);
FASTQPS_PLACE(srcPtr, from);
FASTQPS_PLACE(dstArray, no_other_array);
FASTQPS_PLACE(dstPos, to_position);
FASTQPS_PLACE(dstPtr, to);
FASTQPS_PLACE(extent, width);
FASTQPS_PLACE(kind, kind);
static_assert(sizeof(hipMemcpy3DParms) == sizeof(CudaCopy3D));
static_assert(offsetof(hipPos, y) == offsetof(CudaCopy3D::Position, y));
static_assert(offsetof(hipPitchedPtr, pitch) == offsetof(CudaCopy3D::Pitched, pitch));
static_assert(offsetof(hipPitchedPtr, xsize) == offsetof(CudaCopy3D::Pitched, width));
static_assert(offsetof(hipPitchedPtr, ysize) == offsetof(CudaCopy3D::Pitched, rows));
static_assert(offsetof(hipExtent, height) == offsetof(CudaCopy3D, height) - offsetof(CudaCopy3D, width));
static_assert(offsetof(hipExtent, depth) == offsetof(CudaCopy3D, depth) - offsetof(CudaCopy3D, width));

}  // namespace fastqps
