#include "step/cuda_api.h"

#include <dlfcn.h>

#include <fstream>
#include <set>

namespace fastqps {
namespace {

// The files of CUDA runtimes that this process has mapped. Wheels name them libcudart.so.13, some libcudart-hash.so.12.
std::set<std::string> loaded_runtimes() {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t begin = line.find('/'), name = line.rfind('/') + 1;
    if (begin != std::string::npos && line.compare(name, 9, "libcudart") == 0 && line.find(".so", name) != line.npos)
      found.insert(line.substr(begin));
  }
  return found;
}

std::string loaded_runtime(std::string* error) {
  const auto found = loaded_runtimes();
  if (found.size() == 1) return *found.begin();
  *error = "no CUDA runtime (libcudart.so) is loaded in this process; a torch built for CUDA loads one";
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
  // Never closed: its threads and its memory are the process's.
  void* library = dlopen(api->path_.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    *error = dlerror();
    return nullptr;
  }
  return api->find_entries(library, error) ? std::move(api) : nullptr;
}

bool CudaApi::find_entries(void* library, std::string* error) {
  const char* missing = nullptr;
  auto find = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::decay_t<decltype(entry)>>(dlsym(library, name));
    if (!entry && !missing) missing = name;
  };
#define FASTQPS_CUDA_FIND(name, ...) find(entries_.name##_, #name);
  FASTQPS_CUDA_CALLS(FASTQPS_CUDA_FIND)
#undef FASTQPS_CUDA_FIND
  find(error_string_, "cudaGetErrorString");
  if (missing) *error = path_ + " has no " + missing + ": it is no CUDA runtime, or one too old";
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

}  // namespace fastqps
