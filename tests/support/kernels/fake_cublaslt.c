// cuBLASLt without a GPU: the entry points that bench/gpu/cublaslt.py calls, on bf16 matrices in host memory. Each
// checks its arguments; numbers and sizes are those of cublasLt.h. Two algorithms: the second one needs a workspace.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kInvalid = 7, kNotSupported = 15 };
enum { kHandle = 0x11, kDesc = 0x22, kLayout = 0x33, kPreference = 0x44, kAlgorithm = 0x55 };
enum { kDefault = 1, kBias = 4, kGeluBias = 36 };
static const size_t kWorkspace = 4 << 20;

typedef struct {
  int magic, transa, epilogue;
  const uint16_t* bias;
} Desc;
typedef struct {
  int magic;
  uint64_t rows, cols;
  int64_t ld;
} Layout;
typedef struct {
  int magic;
  size_t workspace;
} Preference;
typedef struct {
  uint64_t data[8];
} Algorithm;
typedef struct {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Heuristic;

static int g_open;  // what was created and not destroyed

static void* make(size_t size, int magic) {
  int* made = calloc(1, size);
  *made = magic;
  ++g_open;
  return made;
}

static int destroy(int* made, int magic) {
  if (made == NULL || *made != magic) return kInvalid;
  free(made);
  --g_open;
  return kSuccess;
}

int fakeOpen(void) { return g_open; }
size_t cublasLtGetVersion(void) { return 130100; }
const char* cublasLtGetStatusString(int status) { return status == kInvalid ? "invalid value" : "not supported"; }
int cublasLtCreate(int** handle) { return (*handle = make(sizeof(int), kHandle)) ? kSuccess : kInvalid; }
int cublasLtDestroy(int* handle) { return destroy(handle, kHandle); }

int cublasLtMatmulDescCreate(Desc** made, int compute, int scale) {
  if (compute != 68 || scale != 0) return kInvalid;
  *made = make(sizeof(Desc), kDesc);
  (*made)->epilogue = kDefault;
  return kSuccess;
}
int cublasLtMatmulDescDestroy(int* made) { return destroy(made, kDesc); }

int cublasLtMatmulDescSetAttribute(Desc* desc, int attribute, const void* value, size_t size) {
  if (desc->magic != kDesc || size != (attribute == 8 ? sizeof(void*) : sizeof(int32_t))) return kInvalid;
  if (attribute == 3) memcpy(&desc->transa, value, size);
  if (attribute == 7) memcpy(&desc->epilogue, value, size);
  if (attribute == 8) memcpy(&desc->bias, value, size);
  return attribute == 3 || attribute == 7 || attribute == 8 ? kSuccess : kInvalid;
}

int cublasLtMatrixLayoutCreate(Layout** made, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  if (type != 14 || ld < (int64_t)rows) return kInvalid;
  *made = make(sizeof(Layout), kLayout);
  (*made)->rows = rows, (*made)->cols = cols, (*made)->ld = ld;
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(int* made) { return destroy(made, kLayout); }

int cublasLtMatmulPreferenceCreate(Preference** made) {
  return (*made = make(sizeof(Preference), kPreference)) ? kSuccess : kInvalid;
}
int cublasLtMatmulPreferenceDestroy(int* made) { return destroy(made, kPreference); }

int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value, size_t size) {
  if (preference->magic != kPreference || attribute != 1 || size != sizeof(size_t)) return kInvalid;
  memcpy(&preference->workspace, value, size);
  return kSuccess;
}

static int fits(const int* handle, const Desc* d, const Layout* a, const Layout* b, const Layout* c,
                const Layout* out) {
  if (*handle != kHandle || d->magic != kDesc) return 0;
  if (a->magic != kLayout || b->magic != kLayout || c->magic != kLayout || out->magic != kLayout) return 0;
  if (d->epilogue != kDefault && d->epilogue != kBias && d->epilogue != kGeluBias) return 0;
  if (d->transa != 1 || (d->epilogue != kDefault) != (d->bias != NULL)) return 0;
  return a->rows == b->rows && out->rows == a->cols && out->cols == b->cols && c->rows == out->rows &&
         c->cols == out->cols;
}

int cublasLtMatmulAlgoGetHeuristic(const int* handle, const Desc* d, const Layout* a, const Layout* b, const Layout* c,
                                   const Layout* out, const Preference* preference, int most, Heuristic* found,
                                   int* count) {
  if (!fits(handle, d, a, b, c, out) || preference->magic != kPreference || most < 1) return kInvalid;
  *count = 0;
  for (int i = 0; i < 3 && *count < most; ++i) {  // the last one fails
    Heuristic each = {{{kAlgorithm, 66 + i, i == 0 ? 23 : 20, 36}},
                      i == 1 ? kWorkspace : 0,
                      i == 2 ? kNotSupported : kSuccess,
                      0.5f,
                      {0}};
    if (each.workspace <= preference->workspace) found[(*count)++] = each;
  }
  return kSuccess;
}

int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value, size_t size,
                                         size_t* written) {
  const uint64_t found = attribute == 0   ? algorithm->data[1]
                         : attribute == 1 ? algorithm->data[2]
                         : attribute == 6 ? algorithm->data[3]
                                          : 1;
  if (algorithm->data[0] != kAlgorithm || size != (attribute == 8 ? 2u : 4u)) return kInvalid;
  memcpy(value, &found, *written = size);
  return kSuccess;
}

static float number(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float found;
  memcpy(&found, &wide, sizeof found);
  return found;
}

static uint16_t rounded(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

int cublasLtMatmul(const int* handle, const Desc* d, const float* alpha, const uint16_t* a, const Layout* la,
                   const uint16_t* b, const Layout* lb, const float* beta, const uint16_t* c, const Layout* lc,
                   uint16_t* out, const Layout* lout, const Algorithm* algorithm, void* workspace, size_t size,
                   void* stream) {
  if (!fits(handle, d, la, lb, lc, lout) || algorithm->data[0] != kAlgorithm || stream != NULL) return kInvalid;
  if (algorithm->data[1] == 67 && (workspace == NULL || size < kWorkspace)) return kInvalid;
  for (uint64_t column = 0; column < lout->cols; ++column) {
    for (uint64_t row = 0; row < lout->rows; ++row) {
      float sum = 0;
      for (uint64_t k = 0; k < la->rows; ++k) sum += number(a[row * la->ld + k]) * number(b[column * lb->ld + k]);
      sum = *alpha * sum + (*beta != 0 ? *beta * number(c[column * lc->ld + row]) : 0);
      if (d->bias != NULL) sum += number(d->bias[row]);
      if (d->epilogue == kGeluBias) sum = 0.5f * sum * (1 + tanhf(0.7978845608f * (sum + 0.044715f * sum * sum * sum)));
      out[column * lout->ld + row] = rounded(sum);
    }
  }
  return kSuccess;
}
