// adamw and sgd for many parameters in one launch. Formulas in ops/optimizer/optimizer.h, storage
// in ops/cuda/optimizer_state.cuh.
//
// A launch takes up to kMaxUpdates parameters with the same storage, in a table passed as its
// argument. A block takes kBlockElements of one parameter, a warp 256 at a time, eight to a lane.
// Bytes: each argument once in its stored form, as on the CPU; adamw with bf16 + remainder and
// float32 moments 28 per element (p and remainder 8, gradient 4, moments 16).
//
// Sums and products are those of the CPU's vector code, fused in the same places: moments are
// bit-equal. An adamw step differs in its last bits (3 ulp): root and quotient are the GPU's
// approximations, since exact ones would take longer than the memory traffic.
#include <cmath>
#include <type_traits>
#include <vector>

#include "gpu/check.h"
#include "ops/cuda/activations.cuh"
#include "ops/cuda/coded_moment.cuh"
#include "ops/cuda/launch_table.cuh"
#include "ops/cuda/optimizer_state.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr int kThreads = 256;
constexpr int kBlockElements = 16384;
constexpr int kMaxUpdates = 200;

__device__ constexpr auto kFirstCodes = MakeDynamicCodes<kMomentEncoding.is_signed, uint8_t>();
__device__ constexpr auto kSecondCodes =
    MakeDynamicCodes<kSecondMomentEncoding.is_signed, uint8_t>();

// The update of one parameter.
struct Update {
  int64_t elements;
  const void* gradient;
  StoredWeightRef weight;
  StoredMomentRef first, second;
  uint64_t key;          // key of the node's random stream
  uint64_t first_words;  // the block of it that its first four elements have
  double weight_decay, lr_factor;
  int32_t first_block;
  bool aligned;           // all addresses are aligned to 16 bytes
  bool rounded_gradient;  // bf16, not f32
};

// Arguments that the updates of a launch share.
struct Common {
  const float* lr;
  const int32_t* count;
  const float* clip;     // factor of clipping; may be nullptr
  const int32_t* apply;  // whether to apply the update; may be nullptr
  const int32_t* rng;    // seed and micro-step; may be nullptr
  double beta1, beta2, eps;
  double momentum;
  bool nesterov;
  bool operator==(const Common&) const = default;
};

struct Table {
  Common common;
  int32_t size;
  Update updates[kMaxUpdates];
};
static_assert(sizeof(Table) <= 30 << 10, "the argument of a launch is limited");

// Accurate to 1 ulp, like Reciprocal.
__device__ inline float SquareRoot(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

struct AdamWRule {
  float clip, decay, share1, keep2, share2, step, root, eps;

  // Computed in double and rounded, as on the CPU.
  __device__ AdamWRule(const Common& c, double weight_decay, double lr_factor)
      : clip(c.clip != nullptr ? *c.clip : 1.0f) {
    const double lr = *c.lr * lr_factor, count = *c.count;
    decay = static_cast<float>(1 - lr * weight_decay);
    share1 = static_cast<float>(1 - c.beta1);
    keep2 = static_cast<float>(c.beta2);
    share2 = static_cast<float>(1 - c.beta2);
    step = static_cast<float>(lr / (1 - pow(c.beta1, count)));
    root = static_cast<float>(1 / sqrt(1 - pow(c.beta2, count)));
    eps = static_cast<float>(c.eps);
  }

  __device__ void Apply(float g, float& p, float& m, float& v) const {
    const float clipped = __fmul_rn(g, clip);
    m = __fmaf_rn(__fmaf_rn(g, clip, -m), share1, m);
    v = __fmaf_rn(__fmul_rn(clipped, clipped), share2, __fmul_rn(v, keep2));
    const float direction = __fmul_rn(m, Reciprocal(__fmaf_rn(SquareRoot(v), root, eps)));
    p = __fmaf_rn(-direction, step, __fmul_rn(p, decay));
  }
};

template <bool kHasBuffer>
struct SgdRule {
  float clip, lr, momentum, decay;
  bool nesterov;

  __device__ SgdRule(const Common& c, double weight_decay, double lr_factor)
      : clip(c.clip != nullptr ? *c.clip : 1.0f),
        lr(static_cast<float>(*c.lr * lr_factor)),
        momentum(static_cast<float>(c.momentum)),
        decay(static_cast<float>(weight_decay)),
        nesterov(c.nesterov) {}

  __device__ void Apply(float g, float& p, float& buffer, float&) const {
    const float decayed = __fmaf_rn(g, clip, __fmul_rn(p, decay));
    float moved = decayed;
    if constexpr (kHasBuffer) {
      moved = __fmaf_rn(buffer, momentum, decayed);
      buffer = moved;
    }
    const float direction = nesterov ? __fmaf_rn(moved, momentum, decayed) : moved;
    p = __fmaf_rn(-direction, lr, p);
  }
};

// The kernel for one rule and one form of storage.
template <typename Rule, typename Weight, typename First, typename Second>
struct Updater {
  // The registers that a lane has read from a tile.
  struct Read {
    typename Weight::Raw weight;
    LaneValues<float> gradient;
    typename First::Raw first;
    typename Second::Raw second;
  };

  const Update& u;
  const uint2 rng;
  const MomentCodes* codes;

  template <bool kWhole>
  __device__ LaneValues<float> LoadGradient(const Tile<kWhole>& tile) const {
    if (u.rounded_gradient) return FromBf16(LoadTile<__nv_bfloat16>(u.gradient, tile));
    return LoadTile<float>(u.gradient, tile);
  }

  template <bool kWhole>
  __device__ Read Load(const Tile<kWhole>& tile) const {
    return {Weight::Load(u.weight, tile), LoadGradient(tile), First::Load(u.first, tile),
            Second::Load(u.second, tile)};
  }

  template <bool kWhole>
  __device__ void Finish(const Read& read, const Tile<kWhole>& tile, const Rule& rule) const {
    uint32_t moment_words[kLaneElements], weight_words[kLaneElements];
    if constexpr (First::kRounds || Second::kRounds) {
      DrawWords(rng, u.key, u.first_words, tile, moment_words);
    }
    if constexpr (Weight::kRounds)
      DrawWords(rng, u.key, u.first_words + kWeightWords, tile, weight_words);
    LaneValues<float> p = Weight::Unpack(read.weight);
    LaneValues<float> m = First::Unpack(read.first, codes);
    LaneValues<float> v = Second::Unpack(read.second, codes + 1);
#pragma unroll
    for (int i = 0; i < kLaneElements; ++i) rule.Apply(read.gradient[i], p[i], m[i], v[i]);
    Weight::Store(u.weight, tile, p, weight_words);
    First::Store(u.first, tile, m, moment_words, codes);
    Second::Store(u.second, tile, v, moment_words, codes + 1);
  }

  template <bool kWhole>
  __device__ void Copy(const Tile<kWhole>& tile) const {
    Weight::Copy(u.weight, tile);
    First::Copy(u.first, tile);
    Second::Copy(u.second, tile);
  }
};

// Codes take many instructions, which other warps hide. Other forms wait for memory, so they read
// one tile ahead.
template <typename First, typename Second>
constexpr bool kReadsAhead = !First::kCoded && !Second::kCoded;

template <typename Rule, typename Weight, typename First, typename Second>
__global__ __launch_bounds__(kThreads, kReadsAhead<First, Second> ? 2 : 4) void UpdateKernel(
    const __grid_constant__ Table table) {
  constexpr bool kCoded = First::kCoded || Second::kCoded;
  constexpr bool kRounds = Weight::kRounds || First::kRounds || Second::kRounds;
  constexpr int64_t kStep = kThreads / kWarp * kStateBlock;
  __shared__ MomentCodes codes[kCoded ? 2 : 1];
  __shared__ alignas(Rule) unsigned char rule_bytes[sizeof(Rule)];
  const Update& u = EntryOf(table.updates, table.size, static_cast<int>(blockIdx.x));
  const Common& common = table.common;
  using Kernel = Updater<Rule, Weight, First, Second>;
  const Kernel kernel{u, kRounds ? PhiloxKey(common.rng) : uint2{}, codes};

  // The warp's tiles: `first`, `first` + kStep, …. Those before `whole_end` are full.
  const int64_t begin = (int64_t{blockIdx.x} - u.first_block) * kBlockElements;
  const int64_t end = min(begin + kBlockElements, u.elements);
  const int64_t whole_end = u.aligned ? end - end % kStateBlock : begin;
  int64_t first = begin + threadIdx.x / kWarp * kStateBlock;

  if (common.apply != nullptr && *common.apply == 0) {
    for (; first < whole_end; first += kStep) kernel.Copy(Tile<true>{first, u.elements});
    for (; first < end; first += kStep) kernel.Copy(Tile<false>{first, u.elements});
    return;
  }

  constexpr bool kAhead = kReadsAhead<First, Second>;
  typename Kernel::Read read;  // loads while the rule's scalars are computed
  if (kAhead && first < whole_end) read = kernel.Load(Tile<true>{first, u.elements});
  if (threadIdx.x == 0) new (rule_bytes) Rule(common, u.weight_decay, u.lr_factor);
  if constexpr (kCoded) {
    static_assert(sizeof(MomentCodes) % 4 == 0);
    constexpr int kWords = sizeof(MomentCodes) / 4;
    for (int i = static_cast<int>(threadIdx.x); i < 2 * kWords; i += kThreads) {
      const MomentCodes& from = i < kWords ? kFirstCodes : kSecondCodes;
      reinterpret_cast<uint32_t*>(codes)[i] =
          reinterpret_cast<const uint32_t*>(&from)[i < kWords ? i : i - kWords];
    }
  }
  __syncthreads();
  const Rule rule = *reinterpret_cast<const Rule*>(rule_bytes);
#pragma unroll 1
  for (; first < whole_end; first += kStep) {
    const int64_t next = first + kStep;
    typename Kernel::Read following;
    if (!kAhead) read = kernel.Load(Tile<true>{first, u.elements});
    if (kAhead && next < whole_end) following = kernel.Load(Tile<true>{next, u.elements});
    kernel.Finish(read, Tile<true>{first, u.elements}, rule);
    if (kAhead) read = following;
  }
  for (; first < end; first += kStep) {
    const Tile<false> tile{first, u.elements};
    kernel.Finish(kernel.Load(tile), tile, rule);
  }
}

// Indices of an op's arguments.
struct Arguments {
  size_t first, second, lr, count, clip, apply, master, first_scales, second_scales, rng;
  size_t first_out, second_out, master_out, first_scales_out, second_scales_out;
};
constexpr size_t kNone = 99;
constexpr Arguments kAdamWArguments = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2, 3, 4, 5};
constexpr Arguments kSgdArguments = {2,     kNone, 3, kNone, 4, 5, 6,    7,
                                     kNone, 8,     1, kNone, 2, 3, kNone};

// How a parameter's weight and moments are stored. Absent moments have the type float64 here.
struct Form {
  DType weight, master, first, second;
  bool operator==(const Form&) const = default;
};

DType DTypeOf(const CudaContext& ctx, size_t input) {
  return ctx.has_input(input) ? ctx.inputs[input].type.dtype : DType::kFloat64;
}

Form FormOf(const CudaContext& ctx, const Arguments& a) {
  return {ctx.dtype(), DTypeOf(ctx, a.master), DTypeOf(ctx, a.first), DTypeOf(ctx, a.second)};
}

double RealOr0(const CudaContext& ctx, const char* name) {
  return ctx.attributes.Has(name) ? ctx.attributes.GetReal(name) : 0;
}

Common CommonOf(const CudaContext& ctx, const Arguments& a) {
  return {ctx.in<float>(a.lr),
          ctx.in<int32_t>(a.count),
          ctx.in<float>(a.clip),
          ctx.in<int32_t>(a.apply),
          ctx.in<int32_t>(a.rng),
          RealOr0(ctx, "beta1"),
          RealOr0(ctx, "beta2"),
          RealOr0(ctx, "eps"),
          RealOr0(ctx, "momentum"),
          ctx.attributes.Has("nesterov") && ctx.attributes.GetBool("nesterov")};
}

Update UpdateOf(const CudaContext& ctx, const Arguments& a) {
  Update u{};
  u.elements = ctx.in_shape(0).elements();
  u.gradient = ctx.in<void>(1);
  u.rounded_gradient = ctx.inputs[1].type.dtype == DType::kBFloat16;
  u.weight = {ctx.in<void>(0), ctx.out<void>(0), ctx.in<void>(a.master),
              ctx.out<void>(a.master_out)};
  u.first = {ctx.in<void>(a.first), ctx.out<void>(a.first_out), ctx.in<float>(a.first_scales),
             ctx.out<float>(a.first_scales_out)};
  u.second = {ctx.in<void>(a.second), ctx.out<void>(a.second_out), ctx.in<float>(a.second_scales),
              ctx.out<float>(a.second_scales_out)};
  u.key = ctx.attributes.Has("key") ? static_cast<uint64_t>(ctx.attributes.GetInt("key")) : 0;
  u.first_words = static_cast<uint64_t>(FirstElement(ctx.attributes)) / 4;
  u.weight_decay = ctx.attributes.GetReal("weight_decay");
  u.lr_factor = ctx.attributes.Has("lr_factor") ? ctx.attributes.GetReal("lr_factor") : 1;
  uintptr_t addresses = reinterpret_cast<uintptr_t>(u.gradient);
  for (const void* p : {u.weight.in, u.weight.master_in, u.first.in, u.second.in}) {
    addresses |= reinterpret_cast<uintptr_t>(p);
  }
  for (const void* p : {u.weight.out, u.weight.master_out, u.first.out, u.second.out}) {
    addresses |= reinterpret_cast<uintptr_t>(p);
  }
  u.aligned = addresses % 16 == 0;
  return u;
}

template <bool kSecond, typename Body>
void DispatchMoment(DType stored, Body&& body) {
  if (stored == DType::kFloat32) return body(WholeMoment<kSecond>{});
  if (stored == DType::kBFloat16) return body(RoundedMoment<kSecond>{});
  body(CodedMoment<kSecond>{});
}

template <typename Rule, typename Weight, typename First, typename Second>
void LaunchTable(const Table& table, int32_t blocks, cudaStream_t stream) {
  if (blocks == 0) return;
  UpdateKernel<Rule, Weight, First, Second><<<blocks, kThreads, 0, stream>>>(table);
  gpu::CheckLaunch("optimizer update");
}

void LaunchAdamW(const Form& form, const Table& table, int32_t blocks, cudaStream_t stream) {
  DispatchWeight(form.weight, form.master, [&]<typename Weight>(Weight) {
    DispatchMoment<false>(form.first, [&]<typename First>(First) {
      DispatchMoment<true>(form.second, [&]<typename Second>(Second) {
        LaunchTable<AdamWRule, Weight, First, Second>(table, blocks, stream);
      });
    });
  });
}

void LaunchSgd(const Form& form, const Table& table, int32_t blocks, cudaStream_t stream) {
  DispatchWeight(form.weight, form.master, [&]<typename Weight>(Weight) {
    if (form.first == DType::kFloat64) {
      return LaunchTable<SgdRule<false>, Weight, NoMoment, NoMoment>(table, blocks, stream);
    }
    DispatchMoment<false>(form.first, [&]<typename First>(First) {
      LaunchTable<SgdRule<true>, Weight, First, NoMoment>(table, blocks, stream);
    });
  });
}

using Launch = void (*)(const Form&, const Table&, int32_t blocks, cudaStream_t);

// Updates with the same storage and scalars share one launch, at any positions in the group.
void RunGroup(std::span<const CudaContext> group, const Arguments& arguments, Launch launch) {
  std::vector<bool> done(group.size(), false);
  for (size_t i = 0; i < group.size(); ++i) {
    if (done[i]) continue;
    const Form form = FormOf(group[i], arguments);
    Table table{};
    table.common = CommonOf(group[i], arguments);
    int32_t blocks = 0;
    for (size_t j = i; j < group.size() && table.size < kMaxUpdates; ++j) {
      if (done[j] || FormOf(group[j], arguments) != form) continue;
      if (CommonOf(group[j], arguments) != table.common) continue;
      done[j] = true;
      Update u = UpdateOf(group[j], arguments);
      u.first_block = blocks;
      blocks += static_cast<int32_t>((u.elements + kBlockElements - 1) / kBlockElements);
      if (u.elements > 0) table.updates[table.size++] = u;
    }
    launch(form, table, blocks, group[i].stream);
  }
}

void AdamWGroup(std::span<const CudaContext> group) {
  RunGroup(group, kAdamWArguments, &LaunchAdamW);
}
void SgdGroup(std::span<const CudaContext> group) { RunGroup(group, kSgdArguments, &LaunchSgd); }
void AdamW(const CudaContext& ctx) { AdamWGroup({&ctx, 1}); }
void Sgd(const CudaContext& ctx) { SgdGroup({&ctx, 1}); }

const CudaKernelRegistration kAdamW({"adamw", &AdamW, nullptr, &AdamWGroup});
const CudaKernelRegistration kSgd({"sgd", &Sgd, nullptr, &SgdGroup});

}  // namespace
}  // namespace plimsoll::ops
