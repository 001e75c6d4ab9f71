// Code that linear_cross_entropy and linear_log_probs share on a GPU (formulas in their headers).
// For each chunk of R rows (chunks in LayOutCudaLoss):
//   logits = x · weightᵀ (+ bias)                   GEMM, stored as S
//   lse, losses; dlogits, in the logits' memory     ops/cuda/loss_rows.cuh; with a sharded
//   vocabulary
//                                                   lse and losses: ops/cuda/loss_parts.cuh
//   dx = dlogits · weight,  dweight += dlogitsᵀ · x GEMM, dweight in float32
//   dbias += column sums of dlogits                 ops/cuda/column_sums.h, in float32
//
// In bf16 and fp16 on Hopper, without a soft cap, exponentials replace logits
// (TakesLossExponentials, ops/cuda/loss_exponentials.h). The first product then includes the
// softmax, and rows of x and dx are scaled instead of rows of dlogits. The other two products then
// have operands in bf16.
//
// Bytes, in addition to the products' operands: logits are written by one product, read and written
// by the softmax (2·R·V·s, the minimum; with exponentials: none), and read by two products; dweight
// is read and written once per chunk (with a low gradient in bf16:
// ops/cuda/products/low_gradient.h). Forward, backward and training ops do their parts of the same
// chunks with the same kernels, so that they give the same bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/collectives/vocabulary_shard.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/loss_exponentials.h"
#include "ops/cuda/loss_parts.cuh"
#include "ops/cuda/loss_rows.cuh"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/low_gradient.h"
#include "ops/cuda_kernel.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/linear_loss_call.h"

namespace plimsoll::ops::linear_loss_cuda {

// Shared memory for a block's slice: what a block may have, but for the kernel's sums. With 99 KiB
// it holds GPT-2's 50,304 logits in 16 bits.
inline int64_t SliceBytes(ComputeCapability gpu) { return gpu.shared_bytes() - 768; }

template <bool kByRow, typename S, int kThreads, int kCluster, bool kStaged, typename Cap>
void LaunchRows(const CudaContext& ctx, LossRows<S> rows, const Cap& cap) {
  const auto kernel = &LossRowsKernel<S, kThreads, kCluster, kStaged, Cap, kByRow>;
  const int64_t each = (rows.vocabulary + kCluster - 1) / kCluster;
  rows.slice = static_cast<int32_t>((each + 63) / 64 * 64);
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(kThreads);
  config.stream = ctx.stream;
  if constexpr (kStaged) {
    config.dynamicSmemBytes = sizeof(S) * static_cast<size_t>(rows.slice);
    gpu::AllowSharedMemory(kernel, static_cast<int64_t>(config.dynamicSmemBytes));
  }
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kCluster, 1, 1};
  int resident = 0;  // number of rows that are computed at once
  if constexpr (kCluster > 1) {
    config.attrs = &cluster;
    config.numAttrs = 1;
    config.gridDim = dim3(kCluster);
    gpu::Check(cudaOccupancyMaxActiveClusters(&resident, kernel, &config),
               "cudaOccupancyMaxActiveClusters");
  } else {
    gpu::Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads,
                                                             config.dynamicSmemBytes),
               "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    resident *= ctx.libraries.multiprocessors();
  }
  const int at_once = std::min(rows.count, std::max(resident, 1));
  config.gridDim = dim3(static_cast<unsigned>(at_once * kCluster));
  gpu::Check(cudaLaunchKernelEx(&config, kernel, rows, cap), "loss rows");
}

// Without a gradient a row is read only once, and has no factor. It uses the same threads in the
// same order, hence has the same bits.
template <bool kByRow, typename S, int kThreads, int kCluster, typename Cap>
void ComputeRowsBy(const CudaContext& ctx, const LossRows<S>& rows, const Cap& cap) {
  if (rows.dloss == nullptr) return LaunchRows<false, S, kThreads, kCluster, false>(ctx, rows, cap);
  LaunchRows<kByRow, S, kThreads, kCluster, true>(ctx, rows, cap);
}

// The choice depends only on the row's length, for one kind of GPU: the fastest on an H200.
template <bool kByRow, typename S, typename Cap>
void ComputeRows(const CudaContext& ctx, const LossRows<S>& rows, const Cap& cap) {
  if (rows.count == 0) return;
  const int64_t bytes = rows.stride * int64_t{sizeof(S)};
  const ComputeCapability gpu = ctx.libraries.capability();
  const int64_t slice = SliceBytes(gpu);
  if (bytes <= 16 << 10) return ComputeRowsBy<kByRow, S, 128, 1>(ctx, rows, cap);
  if (bytes <= slice / 2) return ComputeRowsBy<kByRow, S, 512, 1>(ctx, rows, cap);
  if (bytes <= slice) return ComputeRowsBy<kByRow, S, 1024, 1>(ctx, rows, cap);
  if (gpu.major >= 9 && bytes <= slice * 2) return ComputeRowsBy<kByRow, S, 256, 4>(ctx, rows, cap);
  if (gpu.major >= 9 && bytes <= slice * 8) return ComputeRowsBy<kByRow, S, 512, 8>(ctx, rows, cap);
  LaunchRows<kByRow, S, 1024, 1, false>(ctx, rows, cap);
}

using linear_loss::kAbsent;

// The indices of the arguments that differ between the ops. x, weight and targets are inputs 0 to 2
// of all.
struct Arguments {
  // Inputs. dloss: dloss or dlogp.
  size_t scale = kAbsent, lse_in = kAbsent, dloss = kAbsent, acc = kAbsent, bias = kAbsent;
  size_t acc_bias = kAbsent, rng = kAbsent;
  // Outputs.
  size_t loss = kAbsent, logp = kAbsent, lse = kAbsent, dx = kAbsent, dweight = kAbsent;
  size_t dbias = kAbsent;
};

struct Product {
  GemmProblem problem;
  GemmBuffers buffers;
};

// The op's arguments and its scratch memory. kByRow: dlogp, a number for each row, scales the
// gradients of the rows' negative log-probabilities; otherwise scale and dloss do.
template <bool kByRow>
struct Loss {
  const CudaContext& ctx;
  const Arguments& at;
  graph::DType stored = ctx.dtype();
  int64_t size = graph::ByteSize(stored);
  int64_t rows = ctx.in_shape(0).rows();
  int64_t width = ctx.in_shape(0).dim(-1);
  int64_t vocabulary = ctx.in_shape(1).dim(0);  // number of the table's rows
  VocabularyShard shard{ctx.attributes, ctx.ranks, vocabulary};
  bool bias = ctx.has_input(at.bias);
  // Soft cap of logits; 0 means no cap.
  float softcap = static_cast<float>(LossSoftcap(ctx.attributes));
  bool low =
      ctx.has_output(at.dweight) && ctx.outputs[at.dweight].type.dtype == graph::DType::kBFloat16;
  CudaLossLayout layout = LayOutCudaLoss(rows, vocabulary, width, stored,
                                         {.split = shard.split,
                                          .bias = bias,
                                          .low_gradient = low,
                                          .dx = ctx.has_output(at.dx),
                                          .softcap = softcap != 0,
                                          .gpu = ctx.libraries.capability()});
  char* scratch = static_cast<char*>(ctx.workspace);
  float* losses = reinterpret_cast<float*>(scratch + layout.losses_at);
  bool makes_losses = ctx.has_output(at.loss) || ctx.has_output(at.logp);
  // Whether exponentials replace logits.
  bool exponentials = UsesExponentials();
  // Type of the products' operands.
  graph::DType operands = exponentials ? graph::DType::kBFloat16 : stored;
  bool copies_weight = exponentials && stored != graph::DType::kBFloat16 && ctx.has_output(at.dx);

  const char* x(int64_t first) const { return ctx.in<char>(0) + first * width * size; }

  // The factors of a chunk's gradients; nullptr if the chunk has no factors.
  const float* FactorsOf(int64_t first) const {
    const float* const dloss = ctx.in<float>(at.dloss);
    return kByRow && dloss != nullptr ? dloss + first : dloss;
  }

  Product Multiply(int64_t m, int64_t n, int64_t k) const {
    Product product;
    product.problem.m = m;
    product.problem.n = n;
    product.problem.k = k;
    product.problem.type_a = product.problem.type_b = product.problem.result = operands;
    product.problem.tf32 = UsesTf32(ctx.attributes, stored);
    product.buffers.workspace = scratch + layout.gemm_at;
    product.buffers.workspace_bytes = layout.bytes - layout.gemm_at;
    return product;
  }

  Product Logits(int64_t first, int64_t count) const {
    Product product = Multiply(count, vocabulary, width);
    product.problem.trans_b = true;
    product.problem.lda = product.problem.ldb = width;
    product.problem.ldc = layout.stride;
    product.buffers.a = x(first);
    product.buffers.b = ctx.inputs[1].data;
    product.buffers.d = scratch;
    if (bias) {
      product.problem.epilogue = GemmEpilogue::kBias;
      product.buffers.bias = ctx.in<void>(at.bias);
    }
    return product;
  }

  Product GradientOfX(int64_t first, int64_t count) const {
    Product product = Multiply(count, width, vocabulary);
    product.problem.lda = layout.stride;
    product.problem.ldb = product.problem.ldc = width;
    product.buffers.a = scratch;
    product.buffers.b = copies_weight ? scratch + layout.weight_at : ctx.inputs[1].data;
    product.buffers.d = ctx.out<char>(at.dx) + first * width * size;
    if (exponentials) {  // the rows still have to be scaled
      product.problem.result = graph::DType::kFloat32;
      product.buffers.d = scratch + layout.product_at;
    }
    return product;
  }

  // The first chunk starts from acc (which may be dweight itself); later chunks add to dweight.
  Product GradientOfWeight(int64_t first, int64_t count) const {
    Product product = Multiply(vocabulary, width, count);
    product.problem.trans_a = true;
    product.problem.lda = layout.stride;
    product.problem.ldb = product.problem.ldc = width;
    product.problem.result = graph::DType::kFloat32;
    product.problem.beta = first > 0 || ctx.has_input(at.acc) ? 1.0f : 0.0f;
    product.buffers.a = scratch;
    product.buffers.b = exponentials ? scratch + layout.scaled_at : x(first);
    product.buffers.d = ctx.outputs[at.dweight].data;
    product.buffers.c = first == 0 ? ctx.in<void>(at.acc) : product.buffers.d;
    return product;
  }

  // The gradient in bf16: each chunk rounds its sums, with different random bits.
  LowGradient LowGradientOfWeight(int64_t first, int64_t count) const {
    const Product product = GradientOfWeight(first, count);
    LowGradient gradient{product.problem, product.buffers, {}, scratch + layout.wide_at};
    gradient.problem.result = stored;
    gradient.problem.beta = 0;
    gradient.random = {ctx.in<int32_t>(at.rng),
                       static_cast<uint64_t>(ctx.attributes.GetInt("key"))};
    const int64_t of_chunk = (vocabulary * width + 7) / 8;
    gradient.random.first_block = layout.chunk > 0 ? first / layout.chunk * of_chunk : 0;
    return gradient;
  }

  // Adds a chunk's column sums to dbias. The sum has the row stride of logits, so that it consists
  // of full packs.
  void GradientOfBias(int64_t first, int64_t count) const {
    const auto copy = [&](void* to, const void* from) {
      gpu::Check(cudaMemcpyAsync(to, from, static_cast<size_t>(vocabulary) * sizeof(float),
                                 cudaMemcpyDeviceToDevice, ctx.stream),
                 "cudaMemcpyAsync");
    };
    float* const sums = reinterpret_cast<float*>(scratch + layout.bias_sums_at);
    if (first == 0 && ctx.has_input(at.acc_bias)) copy(sums, ctx.in<float>(at.acc_bias));
    const bool adds = first > 0 || ctx.has_input(at.acc_bias);
    ColumnSums(ctx.stream, stored, scratch, count, layout.stride, adds ? sums : nullptr, sums,
               scratch + layout.column_sums_at);
    if (first + count == rows) copy(ctx.out<float>(at.dbias), sums);
  }

  // Calls body(first row, number of rows) for each chunk.
  template <typename Body>
  void ForChunks(Body body) const {
    for (int64_t r = 0; r < rows; r += layout.chunk) body(r, std::min(layout.chunk, rows - r));
    if (rows == 0) body(0, 0);
  }

  template <typename S, typename Cap>
  void Rows(int64_t first, int64_t count, const Cap& cap) const {
    LossRows<S> chunk{};
    chunk.logits = reinterpret_cast<S*>(scratch);
    chunk.stride = layout.stride;
    chunk.vocabulary = static_cast<int32_t>(vocabulary);
    chunk.count = static_cast<int32_t>(count);
    chunk.targets = ctx.in<int32_t>(2) + first;
    chunk.first = static_cast<int32_t>(shard.begin);
    chunk.scale = ctx.in<float>(at.scale);
    chunk.dloss = FactorsOf(first);
    if (ctx.has_input(at.lse_in)) chunk.lse_in = ctx.in<float>(at.lse_in) + first;
    if (ctx.has_output(at.lse)) chunk.lse_out = ctx.out<float>(at.lse) + first;
    if (makes_losses) chunk.losses = losses + first;
    if (shard.split && chunk.lse_in == nullptr) {
      const LossParts parts = Parts(chunk);
      ComputeLossParts(chunk, parts, cap, shard.ranks, ctx.stream);
      if (chunk.dloss == nullptr) return;
      chunk.lse_in = parts.maxima;
    }
    ComputeRows<kByRow>(ctx, chunk, cap);
  }

  template <typename S>
  LossParts Parts(const LossRows<S>& chunk) const {
    LossParts parts{};
    parts.count = chunk.count;
    parts.targets = chunk.targets;
    parts.begin = shard.begin;
    parts.whole = shard.whole;
    parts.own_maxima = reinterpret_cast<float*>(scratch + layout.parts_at);
    parts.maxima = parts.own_maxima + parts.count;
    parts.sums = parts.maxima + parts.count;
    parts.losses = chunk.losses;
    parts.lse = chunk.lse_out;
    return parts;
  }

  LossExponentials Exponentials(int64_t first, int64_t count) const {
    const auto floats = [&](int64_t at) { return reinterpret_cast<float*>(scratch + at); };
    LossExponentials chunk{};
    chunk.stored = stored;
    chunk.x = x(first);
    chunk.weight = ctx.in<void>(1);
    chunk.targets = ctx.in<int32_t>(2) + first;
    chunk.scale = ctx.in<float>(at.scale);
    chunk.dloss = FactorsOf(first);
    if (makes_losses) chunk.losses = losses + first;
    if (ctx.has_output(at.lse)) chunk.lse = ctx.out<float>(at.lse) + first;
    chunk.count = count;
    chunk.width = width;
    chunk.vocabulary = vocabulary;
    chunk.first = shard.begin;
    chunk.whole = shard.whole;
    chunk.most_sum = MostLossSum(shard.ranks != nullptr ? shard.ranks->size() : 1);
    chunk.references = floats(layout.references_at);
    chunk.sums = floats(layout.sums_at);
    chunk.exponentials = reinterpret_cast<__nv_bfloat16*>(scratch);
    chunk.stride = layout.stride;
    chunk.factors = floats(layout.factors_at);
    chunk.scaled = reinterpret_cast<__nv_bfloat16*>(scratch + layout.scaled_at);
    chunk.largest = floats(layout.parts_at);
    chunk.totals = chunk.largest + count;
    return chunk;
  }

  bool UsesExponentials() const {
    return softcap == 0 &&
           TakesLossExponentials(vocabulary, width, stored, bias, ctx.libraries.capability()) &&
           gpu::OnHopper() && rows > 0 && Aligned(ctx.in<char>(0), ctx.in<char>(1), scratch) &&
           (!ctx.has_output(at.dx) || Aligned(ctx.out<char>(at.dx))) &&
           CanUseLossExponentials(Exponentials(0, std::min(rows, layout.chunk)));
  }

  // Computes tensors that the products of all chunks read.
  void Begin() const {
    if (!copies_weight) return;
    CopyLossWeight(Exponentials(0, 0), reinterpret_cast<__nv_bfloat16*>(scratch + layout.weight_at),
                   ctx.stream);
  }

  // Computes losses and the operands of the gradients' products.
  void ComputeLogits(int64_t first, int64_t count) const {
    if (count == 0) return;
    if (exponentials) {
      ComputeLossExponentials(Exponentials(first, count), kByRow, shard,
                              ctx.libraries.multiprocessors(), ctx.stream);
      return;
    }
    Enqueue(Logits(first, count));
    DispatchCuda(stored, [&]<typename S>() {
      softcap > 0 ? Rows<S>(first, count, CappedLogits{softcap})
                  : Rows<S>(first, count, UncappedLogits());
    });
  }

  void ComputeGradients(int64_t first, int64_t count) const {
    if (count > 0 && ctx.has_output(at.dx)) {
      Enqueue(GradientOfX(first, count));
      if (exponentials) {
        ScaleLossRows(Exponentials(first, count),
                      reinterpret_cast<const float*>(scratch + layout.product_at),
                      ctx.out<char>(at.dx) + first * width * size, ctx.stream);
      }
    }
    if (low) {
      ComputeLowGradient(ctx.libraries, ctx.stream, LowGradientOfWeight(first, count));
    } else if (ctx.has_output(at.dweight)) {
      Enqueue(GradientOfWeight(first, count));
    }
    if (bias && ctx.has_output(at.dbias)) GradientOfBias(first, count);
  }

  // Prepares the products of cuBLASLt.
  void PrepareProducts(int64_t first, int64_t count) const {
    const auto prepare = [&](const Product& product) {
      PrepareGemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
    };
    if (count > 0 && exponentials) {
      // The other products must be timed on realistic operands.
      ComputeLogits(first, count);
    } else if (count > 0) {
      prepare(Logits(first, count));
    }
    if (count > 0 && ctx.has_output(at.dx)) prepare(GradientOfX(first, count));
    if (low) {
      PrepareLowGradient(ctx.libraries, ctx.stream, LowGradientOfWeight(first, count));
    } else if (ctx.has_output(at.dweight)) {
      prepare(GradientOfWeight(first, count));
    }
  }

  void Enqueue(const Product& product) const {
    Gemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
  }
};

// Computes all chunks: losses, lse and gradients, as far as the op has them.
template <bool kByRow>
void ComputeChunks(const Loss<kByRow>& loss) {
  loss.Begin();
  loss.ForChunks([&](int64_t first, int64_t count) {
    loss.ComputeLogits(first, count);
    loss.ComputeGradients(first, count);
  });
}

// Prepares the products of three chunks: the first, which may write dweight instead of adding to
// it; one that adds; and the last, which may have fewer rows.
template <bool kByRow>
void PrepareChunks(const CudaContext& ctx, const Arguments& at) {
  Loss<kByRow> loss{ctx, at};
  loss.shard.ranks = nullptr;  // only products are prepared, so ranks need not communicate
  loss.Begin();
  loss.ForChunks([&](int64_t first, int64_t count) {
    if (first <= loss.layout.chunk || first + count == loss.rows) {
      loss.PrepareProducts(first, count);
    }
  });
}

}  // namespace plimsoll::ops::linear_loss_cuda
