// Formulas in preference_loss.h, those of a pair in preference_pair.h. A block for each row: it
// lists where documents begin, and each of its warps then takes every eighth pair. A lane takes
// every 32nd token of a document.
//
// Sums are taken in double, in an order that depends only on the documents' lengths and numbers: of
// a document over the lanes, of a row over its warps, and of all rows one after the other by a
// second kernel. The sum of a document does not depend on its position in the row.
//
// Bytes: forward 12·N, backward 16·N, N = B·T; and 8 for each document in the list.
#include <array>

#include "base/error.h"
#include "gpu/check.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda_kernel.h"
#include "ops/loss/preference_loss.h"
#include "ops/loss/preference_pair.h"

namespace plimsoll::ops {
namespace {

using preference::Document;
using preference::Formula;
using preference::kPairTerms;
using preference::Pair;
using preference::PairLoss;
using preference::PairTerms;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

template <typename T>
__device__ T SumOverWarp(T x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// All rows; within a kernel, the block's row.
struct Rows {
  int tokens;  // number of tokens in a row
  const float* logp;
  const int32_t *targets, *positions;
  const float* reference;
  int32_t* begins;  // [B,T+1], in the workspace: where documents begin, and T at the end

  __device__ Rows OfBlock() const {
    const int64_t row = blockIdx.x, first = row * tokens;
    return {tokens,
            logp + first,
            targets + first,
            positions + first,
            reference + first,
            begins + row * (int64_t{tokens} + 1)};
  }

  // Lists where documents begin, and returns their number. All threads call it.
  __device__ int FindDocuments() const {
    __shared__ int of_warps[kWarps];
    const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
    int documents = 0;
    for (int first = 0; first < tokens; first += kThreads) {
      const int token = first + thread;
      const bool begin = token < tokens && (token == 0 || positions[token] == 0);
      const unsigned of_warp = __ballot_sync(~0u, begin);
      if (lane == 0) of_warps[warp] = __popc(of_warp);
      __syncthreads();
      int index = documents + __popc(of_warp & ((1u << lane) - 1));
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) index += of_warps[w];
        documents += of_warps[w];
      }
      if (begin) begins[index] = token;
      __syncthreads();  // before of_warps is overwritten
    }
    if (thread == 0) begins[documents] = tokens;
    __syncthreads();
    return documents;
  }

  // Run by a warp: reads the tokens [begin, end), which may be empty. All lanes get the result.
  __device__ Document Read(int begin, int end) const {
    Document document{begin, end};
    int count = 0;
    double sum = 0;
#pragma unroll 4
    for (int i = begin + static_cast<int>(threadIdx.x) % kWarp; i < end; i += kWarp) {
      const float of_token = logp[i];
      if (targets[i] < 0) continue;
      ++count;
      sum += static_cast<double>(of_token);
    }
    document.count = SumOverWarp(count);
    document.logp = static_cast<double>(static_cast<float>(SumOverWarp(sum)));
    if (begin < end) document.reference = static_cast<double>(reference[begin]);
    return document;
  }

  // Reads documents 2·index and 2·index + 1; without the second document, the pair's second is
  // empty.
  __device__ Pair ReadPair(int index, int documents) const {
    const int rejected = begins[index * 2 + 1];
    return {Read(begins[index * 2], rejected),
            Read(rejected, begins[min(index * 2 + 2, documents)])};
  }
};

__device__ bool Counts(const Pair& pair) {
  return pair.chosen.count > 0 && pair.rejected.count > 0;
}

// Writes the sums of each row.
__global__ __launch_bounds__(kThreads) void SumRowsKernel(const Rows rows, const Formula formula,
                                                          double* sums) {
  __shared__ double of_warps[kWarps][kPairTerms];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const Rows row = rows.OfBlock();
  const int documents = row.FindDocuments();
  PairTerms terms;
  for (int index = warp; index * 2 + 1 < documents; index += kWarps) {
    const Pair pair = row.ReadPair(index, documents);
    if (Counts(pair)) terms.Add(formula.Terms(pair));
  }
  if (thread % kWarp == 0) {
#pragma unroll
    for (int i = 0; i < kPairTerms; ++i) of_warps[warp][i] = terms.values[i];
  }
  __syncthreads();
  if (thread >= kPairTerms) return;
  double sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += of_warps[w][thread];
  sums[int64_t{blockIdx.x} * kPairTerms + thread] = sum;
}

// Runs as one block: a thread adds the rows' sums of one output. The first output is the loss.
__global__ __launch_bounds__(kPairTerms) void TotalKernel(int64_t rows, const double* sums,
                                                          const float* scale,
                                                          std::array<float*, kPairTerms> outputs) {
  const int term = static_cast<int>(threadIdx.x);
  double sum = 0;
#pragma unroll 4
  for (int64_t row = 0; row < rows; ++row) sum += sums[row * kPairTerms + term];
  if (term == 0) sum *= static_cast<double>(*scale);
#pragma unroll
  for (int i = 0; i < kPairTerms; ++i) {
    if (i == term && outputs[i] != nullptr) *outputs[i] = static_cast<float>(sum);
  }
}

// dlogp may be logp's memory, because a lane writes only elements that it has read itself.
__device__ void Fill(const Rows& row, const Document& document, double gradient, float* dlogp) {
  const auto end = static_cast<int>(document.end);
  for (int i = static_cast<int>(document.begin) + static_cast<int>(threadIdx.x) % kWarp; i < end;
       i += kWarp) {
    dlogp[i] = row.targets[i] >= 0 ? static_cast<float>(gradient) : 0.0f;
  }
}

__global__ __launch_bounds__(kThreads) void BackwardKernel(const Rows rows, const Formula formula,
                                                           const float* scale, const float* dloss,
                                                           float* dlogp) {
  const Rows row = rows.OfBlock();
  const int documents = row.FindDocuments();
  const double factor = static_cast<double>(*scale) * static_cast<double>(*dloss);
  float* const to = dlogp + int64_t{blockIdx.x} * rows.tokens;
  // A last document without a second one is filled, too.
  for (int index = static_cast<int>(threadIdx.x) / kWarp; index * 2 < documents; index += kWarps) {
    const Pair pair = row.ReadPair(index, documents);
    const bool counts = Counts(pair);
    PairLoss of;
    if (counts) of = formula.Of(pair);
    Fill(row, pair.chosen, counts ? factor * of.by_chosen : 0.0, to);
    Fill(row, pair.rejected, counts ? factor * of.by_rejected : 0.0, to);
  }
}

struct Call {
  explicit Call(const CudaContext& ctx)
      : count(ctx.in_shape(0).dim(0)),
        layout(LayOutCudaPreferences(count, ctx.in_shape(0).dim(1))),
        sums(reinterpret_cast<double*>(static_cast<char*>(ctx.workspace) + layout.sums_at)),
        rows{static_cast<int>(ctx.in_shape(0).dim(1)),
             ctx.in<float>(0),
             ctx.in<int32_t>(1),
             ctx.in<int32_t>(2),
             ctx.in<float>(3),
             reinterpret_cast<int32_t*>(static_cast<char*>(ctx.workspace) + layout.begins_at)},
        formula(ctx.attributes) {
    if (ctx.dtype() != graph::DType::kFloat32) {
      throw InternalError(ctx.op.name + ": no CUDA kernel for this dtype");
    }
  }

  int64_t count;  // number of rows
  CudaPreferenceLayout layout;
  double* sums;
  Rows rows;
  Formula formula;

  unsigned blocks() const { return static_cast<unsigned>(count); }
};

void Loss(const CudaContext& ctx) {
  const Call call(ctx);
  if (call.count > 0) {
    SumRowsKernel<<<call.blocks(), kThreads, 0, ctx.stream>>>(call.rows, call.formula, call.sums);
    gpu::CheckLaunch("preferences of rows");
  }
  std::array<float*, kPairTerms> outputs{};
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = ctx.out<float>(i);
  TotalKernel<<<1, kPairTerms, 0, ctx.stream>>>(call.count, call.sums, ctx.in<float>(4), outputs);
  gpu::CheckLaunch("preference_loss");
}

void Backward(const CudaContext& ctx) {
  const Call call(ctx);
  if (call.count == 0) return;
  BackwardKernel<<<call.blocks(), kThreads, 0, ctx.stream>>>(
      call.rows, call.formula, ctx.in<float>(4), ctx.in<float>(5), ctx.out<float>(0));
  gpu::CheckLaunch("preference_loss_backward");
}

const CudaKernelRegistration kLoss({"preference_loss", &Loss});
const CudaKernelRegistration kBackward({"preference_loss_backward", &Backward});

}  // namespace
}  // namespace plimsoll::ops
