// All kernels for one instruction set: included by cpu_ops_*.cpp inside that set's namespace, with kLanes defined.
// The order matters.
// clang-format off
#include "step/cpu/cpu_vectors_kernel.h"
#include "step/cpu/cpu_activations_kernel.h"
#include "step/cpu/cpu_rows_kernel.h"
#include "step/cpu/cpu_attention_kernel.h"
#include "step/cpu/cpu_bags_kernel.h"
#ifdef FASTQPS_AVX512_BF16
#include "step/cpu/cpu_attention_bf16_kernel.h"
#include "step/cpu/decode_dots_kernel.h"
#endif
#include "step/cpu/decode_attention_kernel.h"
#include "step/cpu/decode_sample_kernel.h"
// clang-format on

void attend(const Attention& job, float* scratch) {
#ifdef FASTQPS_AVX512_BF16
  if (job.number == Number::kBfloat16 && suits_dots(job)) return attend_dots(job, scratch);
#endif
  job.number == Number::kFloat32 ? attend_items<float, float>(job, scratch) : attend_items<u16, u32>(job, scratch);
}

void normalize(const Normalization& job, float* scratch) {
  job.number == Number::kFloat32 ? normalize_rows(job.norm, (const float*)job.in, (float*)job.out, job.n_rows, scratch)
                                 : normalize_rows(job.norm, (const u16*)job.in, (u16*)job.out, job.n_rows, scratch);
}

void embed(const Embedding& job, float* scratch) {
  job.number == Number::kFloat32 ? embed_rows<float>(job, scratch) : embed_rows<u16>(job, scratch);
}

void means(const ItemRows& job, float* scratch) {
  job.number == Number::kFloat32 ? mean_rows<float>(job, scratch) : mean_rows<u16>(job, scratch);
}

void maxima(const ItemRows& job, float* scratch) {
  job.number == Number::kFloat32 ? max_rows<float>(job, scratch) : max_rows<u16>(job, scratch);
}

void project(const Projection& job) { project_rows(job); }

void mean_bags(const Bags& job, float* scratch) {
  switch (job.number) {
    case TableNumber::kFloat32:
      return mean_of_bags<float>(job, scratch);
    case TableNumber::kFloat16:
      return mean_of_bags<HalfBits>(job, scratch);
    case TableNumber::kBfloat16:
      return mean_of_bags<u16>(job, scratch);
    case TableNumber::kInt8:
      return mean_of_bags<i8>(job, scratch);
  }
}

void rms_norm(const RmsNorm& job, float* scratch) {
  job.number == Number::kFloat32 ? rms_norm_rows<float>(job, scratch) : rms_norm_rows<u16>(job, scratch);
}

void place_rows(const TokenEmbedding& job, float* scratch) {
  job.number == Number::kFloat32 ? place_rows_of<float>(job, scratch) : place_rows_of<u16>(job, scratch);
}

void attend_slots(const SlotAttention& job, float* scratch) {
  job.number == Number::kFloat32 ? attend_runs<float>(job, scratch) : attend_runs<u16>(job, scratch);
}

void gate(const Gate& job) {
  switch (job.activation) {
    case Activation::kNone:
      return gate_rows<Activation::kNone>(job);
    case Activation::kGelu:
      return gate_rows<Activation::kGelu>(job);
    case Activation::kGeluTanh:
      return gate_rows<Activation::kGeluTanh>(job);
    case Activation::kRelu:
      return gate_rows<Activation::kRelu>(job);
    case Activation::kSilu:
      return gate_rows<Activation::kSilu>(job);
  }
}

void cap(const Cap& job) { job.number == Number::kFloat32 ? cap_rows<float>(job) : cap_rows<u16>(job); }

void sample(const Draw& job, float* scratch) {
  job.number == Number::kFloat32 ? sample_runs<float>(job, scratch) : sample_runs<u16>(job, scratch);
}

const Kernels kKernels = {kName,     attend,   normalize,  embed,        means, maxima, project,
                          mean_bags, rms_norm, place_rows, attend_slots, gate,  cap,    sample};
