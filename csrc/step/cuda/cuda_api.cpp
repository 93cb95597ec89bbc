#include "step/cuda/cuda_api.h"

#include <dlfcn.h>

#include <fstream>
#include <set>

namespace fastqps {
namespace {

// Wheels name them libcudart.so.13 or libamdhip64.so, some libcudart-hash.so.12.
constexpr const char* kRuntimes[] = {"libcudart", "libamdhip64"};
// torch's libraries that call the runtime.
constexpr const char* kTorch[] = {"libc10_cuda", "libc10_hip", "libtorch_cuda", "libtorch_hip"};

// Returns the files mapped by this process whose names begin with one of `prefixes`.
template <size_t N>
std::set<std::string> loaded(const char* const (&prefixes)[N]) {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find('/'), name = line.rfind('/') + 1;
    if (begin == std::string::npos || line.find(".so", name) == line.npos) continue;
    for (const char* prefix : prefixes)
      if (line.compare(name, std::char_traits<char>::length(prefix), prefix) == 0) found.insert(line.substr(begin));
  }
  return found;
}

// Finds the runtime that torch is linked to. A look-up in one library searches only its dependencies, so another
// framework's runtime is never found. Empty: torch is not loaded, or hides its runtime's names.
std::string torch_runtime() {
  for (const std::string& path : loaded(kTorch)) {
    void* torch = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!torch) continue;
    void* entry = dlsym(torch, "cudaGetDevice");
    if (!entry) entry = dlsym(torch, "hipGetDevice");
    Dl_info info{};
    const bool known = entry && dladdr(entry, &info) && info.dli_fname;
    dlclose(torch);  // drops only dlopen's reference: torch stays loaded
    if (known) return info.dli_fname;
  }
  return {};
}

std::string loaded_runtime(std::string* error) {
  if (std::string torch = torch_runtime(); !torch.empty()) return torch;
  const auto found = loaded(kRuntimes);
  if (found.size() == 1) return *found.begin();
  *error =
      "no CUDA runtime (libcudart.so) or HIP runtime (libamdhip64.so) is loaded in this process; a torch built for "
      "CUDA or ROCm loads one";
  if (found.size() > 1) {
    *error = "more than one CUDA runtime is loaded in this process, and torch's is not known among them:";
    for (const std::string& path : found) *error += " " + path;
  }
  return {};
}

}  // namespace

std::unique_ptr<CudaApi> CudaApi::open(const std::string& path, std::string* error) {
  std::unique_ptr<CudaApi> api(new CudaApi);
  api->path_ = path.empty() ? loaded_runtime(error) : path;
  if (api->path_.empty()) return nullptr;
  // Never closed, because its threads and its memory live as long as the process.
  void* library = dlopen(api->path_.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    *error = dlerror();
    return nullptr;
  }
  return api->find_entries(library, error) ? std::move(api) : nullptr;
}

bool CudaApi::find_entries(void* library, std::string* error) {
  hip_ = dlsym(library, "hipGetDevice") != nullptr;
  const char* missing = nullptr;
  auto find = [&](auto& entry, const char* cuda, const char* hip) {
    const char* name = hip_ ? hip : cuda;
    entry = reinterpret_cast<std::decay_t<decltype(entry)>>(dlsym(library, name));
    if (!entry && !missing) missing = name;
  };
#define FASTQPS_CUDA_FIND(name, hip, ...) find(entries_.name##_, #name, #hip);
  FASTQPS_CUDA_CALLS(FASTQPS_CUDA_FIND)
#undef FASTQPS_CUDA_FIND
  find(error_string_, "cudaGetErrorString", "hipGetErrorString");
  if (missing) *error = path_ + " has no " + missing + ": it is no CUDA or HIP runtime, or one too old";
  return !missing;
}

const char* CudaApi::name(CudaCall call) {
  static constexpr const char* kNames[] = {
#define FASTQPS_CUDA_NAME(name, ...) #name,
      FASTQPS_CUDA_CALLS(FASTQPS_CUDA_NAME)
#undef FASTQPS_CUDA_NAME
          "none"};
  return kNames[call];
}

const char* CudaApi::own_name(CudaCall call) const {
  static constexpr const char* kNames[] = {
#define FASTQPS_HIP_NAME(name, hip, ...) #hip,
      FASTQPS_CUDA_CALLS(FASTQPS_HIP_NAME)
#undef FASTQPS_HIP_NAME
          "none"};
  return hip_ ? kNames[call] : name(call);
}

}  // namespace fastqps
