// For each chunk of R rows (formulas in linear_cross_entropy.h, chunks in LayOutCudaLoss):
//   logits = x · weightᵀ                            GEMM, stored as S
//   lse, losses; dlogits in the place of logits     ops/cuda/loss_rows.cuh
//   dx = dlogits · weight,  dweight += dlogitsᵀ · x GEMM, dweight in float32
// and at the end loss = scale · Σ losses, by one block, in double.
//
// Bytes, beside the products' operands: logits are written by one product, read and written by the
// softmax (2·R·V·s, its floor), read by two products; dweight is read and written once a chunk.
// Forward and backward op do their part of the same chunks with the same kernels: the bits of the
// training op.
#include <algorithm>

#include "gpu/check.h"
#include "ops/cuda/gemm.h"
#include "ops/cuda/loss_rows.cuh"
#include "ops/cuda_kernel.h"
#include "ops/linear_cross_entropy.h"

namespace plimsoll::ops {
namespace {

// Shared memory for slices of rows, with what the kernel needs beside them.
constexpr int64_t kSliceBytes = 224 << 10;

template <typename S, int kThreads, int kCluster, int kBuffers>
void LaunchRows(const CudaContext& ctx, LossRows<S> rows) {
  const auto kernel = &LossRowsKernel<S, kThreads, kCluster, kBuffers>;
  const int64_t each = (rows.vocabulary + kCluster - 1) / kCluster;
  rows.slice = static_cast<int32_t>((each + 63) / 64 * 64);
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(kThreads);
  config.stream = ctx.stream;
  config.dynamicSmemBytes = kBuffers * sizeof(S) * static_cast<size_t>(rows.slice);
  if constexpr (kBuffers > 0) {
    gpu::Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(config.dynamicSmemBytes)),
               "cudaFuncSetAttribute");
  }
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kCluster, 1, 1};
  int resident = 0;  // rows that are computed at once
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
  gpu::Check(cudaLaunchKernelEx(&config, kernel, rows), "loss rows");
}

// Without a gradient a row is read only once anyway; the same threads in the same order, hence the
// same bits.
template <typename S, int kThreads, int kCluster, int kBuffers>
void ComputeRowsBy(const CudaContext& ctx, const LossRows<S>& rows) {
  if (rows.dloss == nullptr) return LaunchRows<S, kThreads, kCluster, 0>(ctx, rows);
  LaunchRows<S, kThreads, kCluster, kBuffers>(ctx, rows);
}

// By the row's length alone, on one kind of GPU. What was fastest on an H200.
template <typename S>
void ComputeRows(const CudaContext& ctx, const LossRows<S>& rows) {
  if (rows.count == 0) return;
  const int64_t bytes = rows.stride * int64_t{sizeof(S)};
  if (ctx.libraries.properties().major < 9) return LaunchRows<S, 512, 1, 0>(ctx, rows);
  if (bytes <= 8 << 10) return ComputeRowsBy<S, 128, 1, 2>(ctx, rows);
  if (bytes <= kSliceBytes / 2) return ComputeRowsBy<S, 768, 1, 2>(ctx, rows);
  if (bytes <= kSliceBytes * 2) return ComputeRowsBy<S, 384, 4, 1>(ctx, rows);
  if (bytes <= kSliceBytes * 8) return ComputeRowsBy<S, 384, 8, 1>(ctx, rows);
  LaunchRows<S, 512, 1, 0>(ctx, rows);
}

constexpr int kTotalThreads = 1024;

__global__ __launch_bounds__(kTotalThreads) void TotalLossKernel(const float* losses, int64_t rows,
                                                                 const float* scale, float* loss) {
  __shared__ double partial[kTotalThreads];
  const int thread = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int64_t r = thread; r < rows; r += kTotalThreads) sum += losses[r];
  partial[thread] = sum;
  for (int half = kTotalThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) partial[thread] += partial[thread + half];
  }
  if (thread == 0) *loss = static_cast<float>(partial[0] * static_cast<double>(*scale));
}

// Where the three ops have what (kAbsent: not at all).
struct Arguments {
  size_t lse_in, dloss, acc;      // inputs
  size_t loss, lse, dx, dweight;  // outputs
};
constexpr size_t kAbsent = 99;
constexpr Arguments kForwardArguments = {kAbsent, kAbsent, kAbsent, 0, 1, kAbsent, kAbsent};
constexpr Arguments kBackwardArguments = {4, 5, 6, kAbsent, kAbsent, 0, 1};
constexpr Arguments kTrainArguments = {kAbsent, 4, 5, 0, kAbsent, 1, 2};

struct Product {
  GemmProblem problem;
  GemmBuffers buffers;
};

// What the op was given, and where its scratch lies.
struct Loss {
  const CudaContext& ctx;
  const Arguments& at;
  graph::DType stored = ctx.dtype();
  int64_t size = graph::ByteSize(stored);
  int64_t rows = ctx.in_shape(0).rows();
  int64_t width = ctx.in_shape(0).dim(-1);
  int64_t vocabulary = ctx.in_shape(1).dim(0);
  CudaLossLayout layout = LayOutCudaLoss(rows, vocabulary, stored);
  char* scratch = static_cast<char*>(ctx.workspace);
  float* losses = reinterpret_cast<float*>(scratch + layout.losses_at);

  const char* x(int64_t first) const { return ctx.in<char>(0) + first * width * size; }

  Product Multiply(int64_t m, int64_t n, int64_t k) const {
    Product product;
    product.problem.m = m;
    product.problem.n = n;
    product.problem.k = k;
    product.problem.operands = product.problem.result = stored;
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
    return product;
  }

  Product GradientOfX(int64_t first, int64_t count) const {
    Product product = Multiply(count, width, vocabulary);
    product.problem.lda = layout.stride;
    product.problem.ldb = product.problem.ldc = width;
    product.buffers.a = scratch;
    product.buffers.b = ctx.inputs[1].data;
    product.buffers.d = ctx.out<char>(at.dx) + first * width * size;
    return product;
  }

  // The first chunk starts from acc (which may be dweight itself), later ones add.
  Product GradientOfWeight(int64_t first, int64_t count) const {
    Product product = Multiply(vocabulary, width, count);
    product.problem.trans_a = true;
    product.problem.lda = layout.stride;
    product.problem.ldb = product.problem.ldc = width;
    product.problem.result = graph::DType::kFloat32;
    product.problem.beta = first > 0 || ctx.has_input(at.acc) ? 1.0f : 0.0f;
    product.buffers.a = scratch;
    product.buffers.b = x(first);
    product.buffers.d = ctx.outputs[at.dweight].data;
    product.buffers.c = first == 0 ? ctx.in<void>(at.acc) : product.buffers.d;
    return product;
  }

  // Calls body(first row, number of rows) for each chunk.
  template <typename Body>
  void ForChunks(Body body) const {
    for (int64_t r = 0; r < rows; r += layout.chunk) body(r, std::min(layout.chunk, rows - r));
    if (rows == 0) body(0, 0);
  }

  // Calls body(product) for those of a chunk that come before and after the softmax.
  template <typename Before, typename After>
  void Chunk(int64_t first, int64_t count, Before before, After after) const {
    if (count > 0) before(Logits(first, count));
    if (count > 0 && ctx.has_output(at.dx)) after(GradientOfX(first, count));
    if (ctx.has_output(at.dweight)) after(GradientOfWeight(first, count));
  }

  template <typename S>
  void Rows(int64_t first, int64_t count) const {
    LossRows<S> chunk{};
    chunk.logits = reinterpret_cast<S*>(scratch);
    chunk.stride = layout.stride;
    chunk.vocabulary = static_cast<int32_t>(vocabulary);
    chunk.count = static_cast<int32_t>(count);
    chunk.targets = ctx.in<int32_t>(2) + first;
    chunk.scale = ctx.in<float>(3);
    chunk.dloss = ctx.in<float>(at.dloss);
    if (ctx.has_input(at.lse_in)) chunk.lse_in = ctx.in<float>(at.lse_in) + first;
    if (ctx.has_output(at.lse)) chunk.lse_out = ctx.out<float>(at.lse) + first;
    if (ctx.has_output(at.loss)) chunk.losses = losses + first;
    ComputeRows(ctx, chunk);
  }
};

void Run(const CudaContext& ctx, const Arguments& at) {
  const Loss loss{ctx, at};
  loss.ForChunks([&](int64_t first, int64_t count) {
    const auto multiply = [&](const Product& product) {
      Gemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
    };
    loss.Chunk(
        first, count,
        [&](const Product& logits) {
          multiply(logits);
          DispatchCuda(loss.stored, [&]<typename S>() { loss.Rows<S>(first, count); });
        },
        multiply);
  });
  if (!ctx.has_output(at.loss)) return;
  TotalLossKernel<<<1, kTotalThreads, 0, ctx.stream>>>(loss.losses, loss.rows, ctx.in<float>(3),
                                                       ctx.out<float>(at.loss));
  gpu::CheckLaunch("total loss");
}

// The products of the first chunk, which may write dweight instead of adding to it, of one that
// adds, and of the last, which may have fewer rows.
void Prepare(const CudaContext& ctx, const Arguments& at) {
  const Loss loss{ctx, at};
  const auto prepare = [&](const Product& product) {
    PrepareGemm(ctx.libraries, ctx.stream, product.problem, product.buffers);
  };
  loss.ForChunks([&](int64_t first, int64_t count) {
    if (first <= loss.layout.chunk || first + count == loss.rows) {
      loss.Chunk(first, count, prepare, prepare);
    }
  });
}

void Forward(const CudaContext& ctx) { Run(ctx, kForwardArguments); }
void Backward(const CudaContext& ctx) { Run(ctx, kBackwardArguments); }
void Train(const CudaContext& ctx) { Run(ctx, kTrainArguments); }
void PrepareForward(const CudaContext& ctx) { Prepare(ctx, kForwardArguments); }
void PrepareBackward(const CudaContext& ctx) { Prepare(ctx, kBackwardArguments); }
void PrepareTrain(const CudaContext& ctx) { Prepare(ctx, kTrainArguments); }

const CudaKernelRegistration kForward({"linear_cross_entropy", &Forward, &PrepareForward});
const CudaKernelRegistration kBackward({"linear_cross_entropy_backward", &Backward,
                                        &PrepareBackward});
const CudaKernelRegistration kTrain({"linear_cross_entropy_train", &Train, &PrepareTrain});

}  // namespace
}  // namespace plimsoll::ops
