// libnvidia-ml.so.1 as far as fastqps/host/gpus/nvidia.py asks it through pynvml. FAKE_GPUS: how many GPUs, "mig": one that is cut into two
// instances, "broken": none answers, "loading": the driver is not loaded. The second GPU is an old one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Device* nvmlDevice_t;
typedef struct {
  unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
} nvmlPciInfo_t;

static const char* mode(void) { return getenv("FAKE_GPUS") ? getenv("FAKE_GPUS") : "0"; }
static int mig(void) { return !strcmp(mode(), "mig"); }
static unsigned long number(nvmlDevice_t d) { return (unsigned long)d & 15; }         // of the GPU
static unsigned long instance(nvmlDevice_t d) { return (unsigned long)d >> 4 & 15; }  // from 1; 0: the GPU itself
static nvmlDevice_t handle(unsigned long gpu, unsigned long part) { return (nvmlDevice_t)(256 | part << 4 | gpu); }

int nvmlInitWithFlags(unsigned flags) { return (void)flags, strcmp(mode(), "loading") ? 0 : 9; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : "GPU is lost"; }
int nvmlSystemGetDriverVersion(char* text, unsigned n) { return snprintf(text, n, "580.65.06") < 0; }
int nvmlDeviceGetCount_v2(unsigned* n) {
  return *n = mig() || !strcmp(mode(), "broken") ? 1 : (unsigned)atoi(mode()), 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t* d) {
  return *d = handle(i, 0), strcmp(mode(), "broken") ? 0 : 15;
}
int nvmlDeviceGetName(nvmlDevice_t d, char* text, unsigned n) {
  return snprintf(text, n, instance(d) ? "NVIDIA H200 MIG 3g.71gb" : number(d) == 1 ? "Tesla V100" : "NVIDIA H200") < 0;
}
int nvmlDeviceGetUUID(nvmlDevice_t d, char* text, unsigned n) {
  return snprintf(text, n, "%s-%lu%lu0e-5", instance(d) ? "MIG" : "GPU", number(d), instance(d)) < 0;
}
int nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t* m) {
  return m->total = instance(d) ? 71ull << 30 : 141ull << 30, m->free = m->used = 0, 0;
}
int nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t* p) {
  memset(p, 0, sizeof *p);
  return snprintf(p->busId, sizeof p->busId, "00000000:%02lX:00.0", 0x1A + number(d)) < 0;
}
int nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int* major, int* minor) {
  return *major = number(d) == 1 ? 7 : 9, *minor = 0, 0;
}
int nvmlDeviceGetComputeMode(nvmlDevice_t d, unsigned* m) { return *m = number(d) == 2 ? 2 : 0, 0; }
int nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned* now, unsigned* pending) {
  return *now = *pending = (unsigned)mig(), number(d) == 1 ? 3 : 0;
}
int nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned* n) { return (void)d, *n = 7, 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned i, nvmlDevice_t* found) {
  if (i != 0 && i != 3) return 6;  // instances need not have the first numbers
  *found = handle(number(d), i ? 2 : 1);
  return 0;
}
