// attention and attention_backward, computed by the first of these that supports the problem:
//
//   Hopper (attention_hopper.cuh)  16 bits, heads up to 256 wide; forward only with dropout, with a
//                                  soft cap, or if documents or a window limit what queries see;
//                                  with a soft cap, heads up to 64 wide not backward
//   cuDNN (cudnn_attention.h)      16 bits, no dropout, no soft cap, no positions, no window
//   shorter
//                                  than the row; the GPUs and shapes that it supports
//   mma.sync (attention_mma.cuh)   16 bits and TF32, heads up to 256 wide
//   FMAs (attention_fma_forward.cu) the rest: float32, odd head widths, old GPUs
//
// All but the last need head widths that are multiples of 8. The choice depends only on the shape,
// the dtype, the attributes, the GPU's architecture and cuDNN's version.
//
// Bytes: forward qkv and out once, 4 for each query of a head; backward qkv, out, dout and dqkv
// once and cuDNN's workspace several times. Our own kernels find the largest magnitude of a result
// as they store it; a result of cuDNN is read once more.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "base/dropout_draws.h"
#include "base/error.h"
#include "base/message.h"
#include "gpu/capability.h"
#include "gpu/check.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_backward_ways.h"
#include "ops/cuda/attention/attention_backward.cuh"
#include "ops/cuda/attention/attention_forward.cuh"
#include "ops/cuda/attention/attention_hopper.cuh"
#include "ops/cuda/attention/attention_mma.cuh"
#include "ops/cuda/attention/cudnn_attention.h"
#include "ops/cuda/elements.cuh"
#include "ops/cuda/find_largest.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kPaddingRows = 16;
constexpr int kPaddingThreads = 256;

// Writes zeros to the padding of rows of unequal length: to the elements of data[b][outer][T] from
// lengths[b] on, which have `width` values each. A block has kPaddingRows elements of one b and
// outer index. Bytes: those that are written.
template <typename T>
__global__ __launch_bounds__(kPaddingThreads) void ZeroPaddingKernel(
    T* data, const int32_t* lengths, int64_t outer, int64_t sequence, int64_t width) {
  const int64_t row = blockIdx.y;  // index into [b][outer]
  int64_t first = int64_t{blockIdx.x} * kPaddingRows;
  const int64_t end = min(sequence, first + kPaddingRows);
  first = max(first, min(sequence, int64_t{max(0, lengths[row / outer])}));
  T* const from = data + row * sequence * width;
  for (int64_t i = first * width + threadIdx.x; i < end * width; i += kPaddingThreads) {
    from[i] = FromFloat<T>(0.0f);
  }
}

template <typename T>
void ZeroPadding(T* data, const int32_t* lengths, int64_t batch, int64_t outer, int64_t sequence,
                 int64_t width, cudaStream_t stream) {
  constexpr int64_t kMost = 65535;  // the limit of a grid's second dimension
  const int64_t blocks = (sequence + kPaddingRows - 1) / kPaddingRows;
  const int64_t rows_at_once = max(int64_t{1}, kMost / outer);  // batch rows per launch
  for (int64_t b = 0; b < batch; b += rows_at_once) {
    const int64_t count = min(rows_at_once, batch - b);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count * outer));
    ZeroPaddingKernel<<<grid, kPaddingThreads, 0, stream>>>(data + b * outer * sequence * width,
                                                            lengths + b, outer, sequence, width);
    gpu::CheckLaunch("padding");
  }
}

// The index of the input rng; lengths and positions are the next inputs.
constexpr size_t kForwardRng = 1, kBackwardRng = 4;
// The index of the output for the largest magnitude.
constexpr size_t kForwardLargest = 2, kBackwardLargest = 1;

AttentionProblem Problem(const CudaContext& ctx, size_t rng) {
  const graph::Shape& qkv = ctx.in_shape(0);
  const int64_t heads = ctx.attributes.GetInt("heads");
  const int64_t kv_heads = ctx.attributes.GetInt("kv_heads");
  return {qkv.dim(0),
          qkv.dim(1),
          heads,
          kv_heads,
          qkv.dim(2) / (heads + 2 * kv_heads),
          ctx.attributes.GetBool("causal"),
          ctx.has_input(rng + 1),
          static_cast<float>(AttentionScale(ctx.attributes, qkv.dim(2) / (heads + 2 * kv_heads))),
          ctx.dtype()};
}

template <typename T>
bool Packed(const AttentionProblem& p) {
  return p.head % kPackSize<T> == 0;
}

AttentionDropout Dropout(const CudaContext& ctx, size_t rng) {
  const double p = ctx.attributes.GetReal("dropout");
  const HeadsOfRanks heads(ctx.attributes.GetInt("heads"), ctx.ranks);
  if (p == 0) {
    return {.heads = static_cast<int>(heads.all), .first_head = static_cast<int>(heads.first)};
  }
  const DropRule rule(p);
  const int64_t tiles = (ctx.in_shape(0).dim(1) + kScoreTile - 1) / kScoreTile;
  return {.rng = ctx.in<int32_t>(rng),
          .stream = static_cast<uint64_t>(ctx.attributes.GetInt("key")),
          .threshold = rule.threshold,
          .keep_scale = static_cast<float>(rule.keep_scale),
          .tiles = static_cast<int>(tiles),
          .heads = static_cast<int>(heads.all),
          .first_head = static_cast<int>(heads.first)};
}

AttentionRanges Ranges(const CudaContext& ctx, size_t rng) {
  const int64_t sequence = ctx.in_shape(0).dim(1), window = AttentionWindow(ctx.attributes);
  return {.positions = ctx.in<int32_t>(rng + 2),
          .window = static_cast<int>(window == 0 ? sequence : std::min(window, sequence)),
          .sequence = static_cast<int>(sequence)};
}

void SayOnce(const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  if (said.insert(line).second) PrintNote(line + "\n");
}

int64_t LseBytes(const AttentionProblem& p) {
  return AttentionLseBytes(p.batch * p.heads * p.sequence);
}

// The plan of cuDNN for the call; nullptr: our own kernels are used.
const CudnnAttention* Choose(const CudaContext& ctx, CudnnAttentionPass pass) {
  if (ctx.attributes.GetReal("dropout") != 0 || ctx.dtype() == graph::DType::kFloat32 ||
      AttentionSoftcap(ctx.attributes) > 0) {
    return nullptr;
  }
  const bool forward = pass == CudnnAttentionPass::kForward;
  const size_t rng = forward ? kForwardRng : kBackwardRng;
  if (Ranges(ctx, rng).cuts()) return nullptr;
  const AttentionProblem problem = Problem(ctx, rng);
  std::string reason;
  const CudnnAttention* const plan = FindCudnnAttention(problem, pass, ctx.libraries, reason);
  if (plan == nullptr) {
    SayOnce(std::string(ctx.op.name) + ": slower than by cuDNN, which refuses: " + reason);
    return nullptr;
  }
  int64_t needed = CudnnWorkspaceBytes(*plan);
  if (forward && !ctx.has_output(1)) needed += LseBytes(problem);
  if (needed > ctx.workspace_bytes) {
    SayOnce(std::string(ctx.op.name) + ": slower than by cuDNN, which asks for a workspace of " +
            std::to_string(needed) + " bytes; planned are " + std::to_string(ctx.workspace_bytes));
    return nullptr;
  }
  return plan;
}

bool OnHopper(const AttentionProblem& p) {
  constexpr int64_t kMost = 65535;  // the limit of a grid's second and third dimension
  return p.dtype != graph::DType::kFloat32 && p.head <= kWidestHead && p.head % 8 == 0 &&
         p.batch <= kMost && p.heads <= kMost && gpu::OnHopper();
}

// Whether mma.sync supports the problem.
template <typename T>
bool OnTensorCores(const CudaContext& ctx, const AttentionProblem& p) {
  const bool low = p.dtype != graph::DType::kFloat32 || UsesTf32(ctx.attributes, p.dtype);
  return low && HasMmaAttention<T>(p.head, ctx.libraries.capability());
}

// Checks that the plan has as much scratch memory as the chosen kernels take.
void RequireWorkspace(const CudaContext& ctx, int64_t bytes) {
  if (bytes <= ctx.workspace_bytes) return;
  throw InternalError(std::string(ctx.op.name) + ": needs a workspace of " + std::to_string(bytes) +
                      " bytes; planned are " + std::to_string(ctx.workspace_bytes));
}

// Two ways to find the largest magnitude of output 0, stored at `to`, which may be nullptr.
// BeginLargest sets it to 0 before our own kernels, which raise it; FindLargest reads the output.
void BeginLargest(const CudaContext& ctx, uint32_t* to) {
  if (to == nullptr) return;
  gpu::Check(cudaMemsetAsync(to, 0, sizeof(*to), ctx.stream), "cudaMemsetAsync");
}
void FindLargest(const CudaContext& ctx, uint32_t* to) {
  if (to == nullptr) return;
  LargestMagnitude(ctx.stream, ctx.dtype(), ctx.out<void>(0), ctx.out_shape(0).elements(),
                   ctx.libraries.properties().multiProcessorCount, to);
}

// The plan of cuDNN for a backward call; nullptr: our own kernels are used.
const CudnnAttention* ChooseBackward(const CudaContext& ctx, const AttentionProblem& p) {
  if (OnHopper(p) || !TakesCudnnBackward(p.head)) return nullptr;
  return Choose(ctx, CudnnAttentionPass::kBackward);
}

void PrepareForward(const CudaContext& ctx) { Choose(ctx, CudnnAttentionPass::kForward); }
void PrepareBackward(const CudaContext& ctx) { ChooseBackward(ctx, Problem(ctx, kBackwardRng)); }

template <typename T>
void OwnForward(const CudaContext& ctx, const AttentionProblem& p) {
  AttentionForwardArguments<T> a{};
  a.q = ctx.in<T>(0);
  a.k = a.q + p.heads * p.head;
  a.v = a.k + p.kv_heads * p.head;
  a.out = ctx.out<T>(0);
  a.lse = ctx.out<float>(1);
  a.largest = ctx.out<uint32_t>(kForwardLargest);
  a.batch = p.batch;
  a.heads = p.heads;
  a.kv_heads = p.kv_heads;
  a.head = p.head;
  a.queries = a.keys = p.sequence;
  a.q_row = a.kv_row = (p.heads + 2 * p.kv_heads) * p.head;
  a.q_batch = a.kv_batch = p.sequence * a.q_row;
  a.kv_head = p.head;
  a.causal = p.causal;
  a.scale = p.scale;
  a.packed = Packed<T>(p);
  a.dropout = Dropout(ctx, kForwardRng);
  a.lengths = ctx.in<int32_t>(kForwardRng + 1);
  a.ranges = Ranges(ctx, kForwardRng);
  const ScoreSoftcap softcap = SoftcapOf(ctx.attributes, a.scale);
  if constexpr (sizeof(T) == 2) {
    if ((a.dropout.rng != nullptr || a.ranges.cuts() || softcap.caps()) && OnHopper(p)) {
      return LaunchHopperForward(a, ctx.libraries.properties().multiProcessorCount, ctx.stream,
                                 softcap);
    }
  }
  if (OnTensorCores<T>(ctx, p)) return LaunchMmaForward(a, ctx.stream, softcap);
  LaunchAttentionForward(a, ctx.stream, softcap);
}

// Sets out and lse of the padding to zero, because no kernel writes them.
void ZeroForward(const CudaContext& ctx, const AttentionProblem& p, float* lse) {
  const int32_t* const lengths = ctx.in<int32_t>(kForwardRng + 1);
  if (lengths == nullptr) return;
  DispatchCuda(p.dtype, [&]<typename T>() {
    ZeroPadding(ctx.out<T>(0), lengths, p.batch, 1, p.sequence, p.heads * p.head, ctx.stream);
  });
  if (lse != nullptr) ZeroPadding(lse, lengths, p.batch, p.heads, p.sequence, 1, ctx.stream);
}

void Forward(const CudaContext& ctx) {
  const AttentionProblem p = Problem(ctx, kForwardRng);
  uint32_t* const largest = ctx.out<uint32_t>(kForwardLargest);
  const CudnnAttention* const plan = Choose(ctx, CudnnAttentionPass::kForward);
  if (plan != nullptr) {
    // The same engine runs whether lse is requested or not, so that `out` has the same bits.
    char* workspace = static_cast<char*>(ctx.workspace);
    float* const lse = ctx.has_output(1) ? ctx.out<float>(1) : reinterpret_cast<float*>(workspace);
    if (!ctx.has_output(1)) workspace += LseBytes(p);
    RunCudnnForward(*plan, ctx.libraries, ctx.stream, ctx.in<void>(0),
                    ctx.in<int32_t>(kForwardRng + 1), ctx.out<void>(0), lse, workspace);
  } else {
    BeginLargest(ctx, largest);
    DispatchCuda(p.dtype, [&]<typename T>() { OwnForward<T>(ctx, p); });
  }
  ZeroForward(ctx, p, ctx.out<float>(1));
  if (plan != nullptr) FindLargest(ctx, largest);
}

template <typename T>
void OwnBackward(const CudaContext& ctx, const AttentionProblem& p) {
  AttentionBackwardArguments<T> a{};
  a.qkv = ctx.in<T>(0);
  a.out = ctx.in<T>(1);
  a.lse = ctx.in<float>(2);
  a.dout = ctx.in<T>(3);
  a.delta = static_cast<float*>(ctx.workspace);
  a.dqkv = ctx.out<T>(0);
  a.largest = ctx.out<uint32_t>(kBackwardLargest);
  a.batch = p.batch;
  a.heads = p.heads;
  a.kv_heads = p.kv_heads;
  a.head = p.head;
  a.sequence = p.sequence;
  a.causal = p.causal;
  a.scale = p.scale;
  a.packed = Packed<T>(p);
  a.dropout = Dropout(ctx, kBackwardRng);
  a.lengths = ctx.in<int32_t>(kBackwardRng + 1);
  a.ranges = Ranges(ctx, kBackwardRng);
  const ScoreSoftcap softcap = SoftcapOf(ctx.attributes, a.scale);
  if constexpr (sizeof(T) == 2) {
    if (OnHopper(p)) {
      const int processors = ctx.libraries.properties().multiProcessorCount;
      if (PrefersWidest(p.head)) {
        const WidestAttention widest(p.batch, p.sequence, p.heads);
        return LaunchWidestBackward(a, widest, ctx.workspace, processors, ctx.stream, softcap);
      }
      // The one-pass kernels support padded rows or a window, but not both.
      const bool two_passes = p.padded && a.ranges.cuts();
      const OnePassAttention pass(p.batch, p.sequence, p.heads, p.kv_heads, p.causal);
      if (!two_passes && !softcap.caps() && PrefersOnePass(pass, p.head)) {
        return LaunchOnePassBackward(a, pass, ctx.workspace, processors, ctx.stream);
      }
      const WideAttention wide(p.batch, p.sequence, p.heads, p.kv_heads, p.causal);
      if (!two_passes && PrefersWideOnePass(wide, p.head) && CanRunWideOnePass(wide, processors)) {
        return LaunchWideBackward(a, wide, ctx.workspace, processors, ctx.stream, softcap);
      }
      if (!softcap.caps()) return LaunchHopperBackward(a, ctx.stream);
    }
  }
  if (OnTensorCores<T>(ctx, p)) {
    const MmaKeyParts parts(p.batch, p.sequence, p.heads, p.kv_heads, p.head);
    RequireWorkspace(ctx, LseBytes(p) + parts.Bytes());
    return LaunchMmaBackward(a, ctx.stream, softcap);
  }
  RequireWorkspace(ctx, LseBytes(p));
  LaunchAttentionBackward(a, ctx.stream, softcap);
}

void Backward(const CudaContext& ctx) {
  const AttentionProblem p = Problem(ctx, kBackwardRng);
  const int32_t* const lengths = ctx.in<int32_t>(kBackwardRng + 1);
  uint32_t* const largest = ctx.out<uint32_t>(kBackwardLargest);
  const CudnnAttention* const plan = ChooseBackward(ctx, p);
  if (plan != nullptr) {
    RunCudnnBackward(*plan, ctx.libraries, ctx.stream, ctx.in<void>(0), ctx.in<void>(1),
                     ctx.in<float>(2), ctx.in<void>(3), lengths, ctx.out<void>(0), ctx.workspace);
  } else {
    BeginLargest(ctx, largest);
    DispatchCuda(p.dtype, [&]<typename T>() { OwnBackward<T>(ctx, p); });
  }
  if (lengths != nullptr) {
    DispatchCuda(p.dtype, [&]<typename T>() {
      const int64_t row = (p.heads + 2 * p.kv_heads) * p.head;
      ZeroPadding(ctx.out<T>(0), lengths, p.batch, 1, p.sequence, row, ctx.stream);
    });
  }
  if (plan != nullptr) FindLargest(ctx, largest);
}

const CudaKernelRegistration kForward({"attention", &Forward, &PrepareForward});
const CudaKernelRegistration kBackward({"attention_backward", &Backward, &PrepareBackward});

}  // namespace
}  // namespace plimsoll::ops
