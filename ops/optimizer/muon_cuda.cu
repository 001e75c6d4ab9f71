// The ops of ops/optimizer/muon.h, which has the formulas. muon_momentum: a warp takes a tile of
// 256 elements, eight to a lane, in the storage forms of ops/cuda/optimizer_state.cuh; a block has
// eight warps. Sums and products are fused in the same places as in the CPU's vector code.
// divide_by_norm and weighted_sum: one thread for a few packs of 16 bytes
// (ops/cuda/elementwise.cuh). stack_rows copies one matrix after another. Bytes: every argument
// once; muon_momentum with a float32 buffer 4·n·s.
#include <string>

#include "gpu/check.h"
#include "ops/cuda/coded_moment.cuh"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/optimizer_state.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr int kMomentumThreads = 256;
// Number of elements of a thread block.
constexpr int kMomentumElements = kMomentumThreads / kWarp * kStateBlock;

__device__ constexpr auto kMomentumCodes = MakeDynamicCodes<kMomentEncoding.is_signed, uint8_t>();

struct MomentumCall {
  int64_t elements;
  const void* gradient;
  float* u;
  StoredMomentRef buffer;
  const float* clip;     // factor of clipping; may be nullptr
  const int32_t* apply;  // whether to apply the update; may be nullptr
  const int32_t* rng;    // seed and micro-step; may be nullptr
  uint64_t key;          // key of the node's random stream
  float momentum;
  bool nesterov;
  bool rounded_gradient;  // bf16, not f32
};

template <typename Buffer, bool kWhole>
__device__ void MoveTile(const MomentumCall& call, const Tile<kWhole>& tile,
                         const MomentCodes* codes) {
  if (call.apply != nullptr && *call.apply == 0) {
    Buffer::Copy(call.buffer, tile);
    StoreTile(call.u, tile, LaneValues<float>{});
    return;
  }
  const LaneValues<float> g = call.rounded_gradient
                                  ? FromBf16(LoadTile<__nv_bfloat16>(call.gradient, tile))
                                  : LoadTile<float>(call.gradient, tile);
  LaneValues<float> m = Buffer::Unpack(Buffer::Load(call.buffer, tile), codes);
  const float clip = call.clip != nullptr ? *call.clip : 1.0f;
  LaneValues<float> u;
#pragma unroll
  for (int i = 0; i < kLaneElements; ++i) {
    const float clipped = __fmul_rn(g[i], clip);
    m[i] = __fmaf_rn(m[i], call.momentum, clipped);
    u[i] = call.nesterov ? __fmaf_rn(m[i], call.momentum, clipped) : m[i];
  }
  uint32_t words[kLaneElements] = {};
  if constexpr (Buffer::kRounds) DrawWords(PhiloxKey(call.rng), call.key, 0, tile, words);
  Buffer::Store(call.buffer, tile, m, words, codes);
  StoreTile(call.u, tile, u);
}

template <typename Buffer>
__global__ __launch_bounds__(kMomentumThreads) void MomentumKernel(MomentumCall call,
                                                                   bool aligned) {
  __shared__ MomentCodes codes;
  if constexpr (Buffer::kCoded) {
    static_assert(sizeof(MomentCodes) % 4 == 0);
    constexpr int kWords = sizeof(MomentCodes) / 4;
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kMomentumThreads) {
      reinterpret_cast<uint32_t*>(&codes)[i] =
          reinterpret_cast<const uint32_t*>(&kMomentumCodes)[i];
    }
    __syncthreads();
  }
  const int64_t first = int64_t{blockIdx.x} * kMomentumElements + threadIdx.x / kWarp * kStateBlock;
  if (first >= call.elements) return;
  if (aligned && first + kStateBlock <= call.elements) {
    MoveTile<Buffer>(call, Tile<true>{first, call.elements}, &codes);
  } else {
    MoveTile<Buffer>(call, Tile<false>{first, call.elements}, &codes);
  }
}

template <typename Buffer>
void LaunchMomentum(const MomentumCall& call, bool aligned, cudaStream_t stream) {
  if (call.elements == 0) return;
  const auto blocks =
      static_cast<unsigned>((call.elements + kMomentumElements - 1) / kMomentumElements);
  MomentumKernel<Buffer><<<blocks, kMomentumThreads, 0, stream>>>(call, aligned);
  gpu::CheckLaunch("muon_momentum");
}

void MuonMomentum(const CudaContext& ctx) {
  MomentumCall call{};
  call.elements = ctx.in_shape(0).elements();
  call.gradient = ctx.in<void>(0);
  call.u = ctx.out<float>(0);
  call.buffer = {ctx.in<void>(1), ctx.out<void>(1), ctx.in<float>(4), ctx.out<float>(2)};
  call.clip = ctx.in<float>(2);
  call.apply = ctx.in<int32_t>(3);
  call.rng = ctx.in<int32_t>(5);
  call.key = ctx.attributes.Has("key") ? static_cast<uint64_t>(ctx.attributes.GetInt("key")) : 0;
  call.momentum = static_cast<float>(ctx.attributes.GetReal("momentum"));
  call.nesterov = ctx.attributes.GetBool("nesterov");
  call.rounded_gradient = ctx.inputs[0].type.dtype == DType::kBFloat16;
  const bool aligned = IsAligned(call.gradient, 16) && IsAligned(call.u, 16) &&
                       IsAligned(call.buffer.in, 16) && IsAligned(call.buffer.out, 16);
  const DType stored = ctx.inputs[1].type.dtype;
  if (stored == DType::kFloat32) {
    LaunchMomentum<WholeMoment<false>>(call, aligned, ctx.stream);
  } else if (stored == DType::kBFloat16) {
    LaunchMomentum<RoundedMoment<false>>(call, aligned, ctx.stream);
  } else if (stored == DType::kUInt8) {
    LaunchMomentum<CodedMoment<false>>(call, aligned, ctx.stream);
  } else {
    throw InternalError("no CUDA kernel for a momentum of dtype " +
                        std::string(graph::Name(stored)));
  }
}

struct OverNorm {
  const float* norm;
  float eps;
  __device__ float operator()(float x) const { return __fdiv_rn(x, fmaxf(*norm, eps)); }
};

void DivideByNorm(const CudaContext& ctx) {
  const OverNorm function{ctx.in<float>(1), static_cast<float>(ctx.attributes.GetReal("eps"))};
  DispatchCuda(ctx.dtype(), [&]<typename From>() {
    DispatchCuda(ctx.outputs[0].type.dtype, [&]<typename To>() {
      Map(ctx.stream, "divide_by_norm", ctx.in_shape(0).elements(), function, ctx.out<To>(0),
          ctx.in<From>(0));
    });
  });
}

struct Weighted {
  float alpha, beta;
  __device__ float operator()(float x, float y) const {
    return __fmaf_rn(x, alpha, __fmul_rn(y, beta));
  }
};

void WeightedSum(const CudaContext& ctx) {
  MapElements<2>(ctx, Weighted{static_cast<float>(ctx.attributes.GetReal("alpha")),
                               static_cast<float>(ctx.attributes.GetReal("beta"))});
}

void StackRows(const CudaContext& ctx) {
  char* to = ctx.out<char>(0);
  for (const TensorRef& x : ctx.inputs) {
    const auto bytes = static_cast<size_t>(x.type.bytes());
    gpu::Check(cudaMemcpyAsync(to, x.data, bytes, cudaMemcpyDeviceToDevice, ctx.stream),
               "cudaMemcpyAsync");
    to += bytes;
  }
}

const CudaKernelRegistration kMuonMomentum({"muon_momentum", &MuonMomentum});
const CudaKernelRegistration kDivideByNorm({"divide_by_norm", &DivideByNorm});
const CudaKernelRegistration kWeightedSum({"weighted_sum", &WeightedSum});
const CudaKernelRegistration kStackRows({"stack_rows", &StackRows});

}  // namespace
}  // namespace plimsoll::ops
