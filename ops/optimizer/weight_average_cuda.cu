// weight_average and exchange_average for many parameters in one launch. Formulas in
// ops/optimizer/weight_average.h, storage in ops/cuda/optimizer_state.cuh.
//
// A launch takes up to kMaxParameters with the same storage, in a table passed as its argument. A
// block takes kBlockElements of one parameter, a warp 256 at a time, eight to a lane. Bytes: each
// argument once in its stored form, as on the CPU; with bf16 + remainder weight_average 12 per
// element and exchange_average 16. The average has the CPU's bits: sums and products are fused in
// the same places.
#include <algorithm>
#include <vector>

#include "gpu/check.h"
#include "ops/cuda/launch_table.cuh"
#include "ops/cuda/optimizer_state.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr int kThreads = 256;
constexpr int kBlockElements = 16384;
constexpr int kMaxParameters = 400;

// A parameter and its average.
struct Averaged {
  int64_t elements;
  StoredWeightRef weight;
  const float* average;
  float* average_out;
  int32_t first_block;
  bool aligned;  // all addresses are aligned to 16 bytes
};

// Arguments that the averages of a launch share.
struct Common {
  const int32_t* count;
  const int32_t* apply;  // whether to apply the update; may be nullptr
  double decay;
  bool warmup;
  bool operator==(const Common&) const = default;
};

struct Table {
  Common common;
  int32_t size;
  Averaged parameters[kMaxParameters];
};
static_assert(sizeof(Table) <= 30 << 10, "the argument of a launch is limited");

// 1 − decay, computed in double and rounded, as on the CPU.
__device__ float ShareOf(const Common& common) {
  const double count = *common.count;
  if (!common.warmup) return static_cast<float>(1 - common.decay);
  return static_cast<float>(1 - min(common.decay, (1 + count) / (10 + count)));
}

template <typename Weight>
struct Average {
  const bool applies, first;
  const float share;

  __device__ explicit Average(const Common& common)
      : applies(common.apply == nullptr || *common.apply != 0),
        first(*common.count == 1),
        share(ShareOf(common)) {}

  template <bool kWhole>
  __device__ void Apply(const Averaged& a, const Tile<kWhole>& tile) const {
    if (!applies) return CopyTile<float>(a.average, a.average_out, tile);
    LaneValues<float> value = Weight::Unpack(Weight::Load(a.weight, tile));
    if (!first) {
      const LaneValues<float> average = LoadTile<float>(a.average, tile);
#pragma unroll
      for (int i = 0; i < kLaneElements; ++i) {
        value[i] = __fmaf_rn(__fsub_rn(value[i], average[i]), share, average[i]);
      }
    }
    StoreTile(a.average_out, tile, value);
  }
};

template <typename Weight>
struct Exchange {
  __device__ explicit Exchange(const Common&) {}

  template <bool kWhole>
  __device__ void Apply(const Averaged& a, const Tile<kWhole>& tile) const {
    const LaneValues<float> average = LoadTile<float>(a.average, tile);
    LaneValues<float> value = Weight::Unpack(Weight::Load(a.weight, tile));
    if constexpr (Weight::kRounds) {
      ExchangeUpperHalves(a, tile, value, average);
    } else {
      Weight::Store(a.weight, tile, average, {});
      StoreTile(a.average_out, tile, value);
    }
  }

  // The counterpart of Split and Join (base/low_precision.h).
  template <bool kWhole>
  static __device__ void ExchangeUpperHalves(const Averaged& a, const Tile<kWhole>& tile,
                                             LaneValues<float>& value,
                                             const LaneValues<float>& average) {
    LaneValues<__nv_bfloat16> upper;
#pragma unroll
    for (int i = 0; i < kLaneElements; i += 2) {
      uint32_t rounded[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        uint32_t bits = __float_as_uint(average[i + k]);
        if (isnan(average[i + k])) bits = (bits & 0x80000000) | 0x7fc00000;
        rounded[k] = bits + 0x8000;
        const auto lower = static_cast<int16_t>(bits & 0xffff);
        value[i + k] = __int_as_float(__float_as_int(value[i + k]) + lower);
      }
      SetPair(upper, i, UpperHalves(rounded[0], rounded[1]));
    }
    StoreTile(a.weight.out, tile, upper);
    StoreTile(a.average_out, tile, value);
  }
};

template <typename Rule>
__global__ __launch_bounds__(kThreads) void AverageKernel(const __grid_constant__ Table table) {
  constexpr int64_t kStep = kThreads / kWarp * kStateBlock;
  const Averaged& a = EntryOf(table.parameters, table.size, static_cast<int>(blockIdx.x));
  const Rule rule(table.common);
  // The warp's tiles: `first`, `first` + kStep, …. Those before `whole_end` are full.
  const int64_t begin = (int64_t{blockIdx.x} - a.first_block) * kBlockElements;
  const int64_t end = min(begin + kBlockElements, a.elements);
  const int64_t whole_end = a.aligned ? end - end % kStateBlock : begin;
  int64_t first = begin + threadIdx.x / kWarp * kStateBlock;
  for (; first < whole_end; first += kStep) rule.Apply(a, Tile<true>{first, a.elements});
  for (; first < end; first += kStep) rule.Apply(a, Tile<false>{first, a.elements});
}

// Indices of an op's arguments.
struct Arguments {
  size_t weight, average, master, count, apply;
  size_t weight_out, average_out, master_out;
};
constexpr size_t kNone = 99;
constexpr Arguments kAverageArguments = {1, 0, 3, 2, 4, kNone, 0, kNone};
constexpr Arguments kExchangeArguments = {0, 1, 2, kNone, kNone, 0, 1, 2};

Common CommonOf(const CudaContext& ctx, const Arguments& a) {
  Common common{ctx.in<int32_t>(a.count), ctx.in<int32_t>(a.apply), 0, false};
  if (common.count == nullptr) return common;
  common.decay = ctx.attributes.GetReal("decay");
  common.warmup = ctx.attributes.GetBool("warmup");
  return common;
}

Averaged AveragedOf(const CudaContext& ctx, const Arguments& a) {
  Averaged averaged{ctx.in_shape(0).elements(),
                    {ctx.in<void>(a.weight), ctx.out<void>(a.weight_out), ctx.in<void>(a.master),
                     ctx.out<void>(a.master_out)},
                    ctx.in<float>(a.average),
                    ctx.out<float>(a.average_out),
                    0,
                    false};
  uintptr_t addresses = 0;
  for (const void* p : {averaged.weight.in, averaged.weight.master_in,
                        static_cast<const void*>(averaged.average)}) {
    addresses |= reinterpret_cast<uintptr_t>(p);
  }
  for (const void* p : {averaged.weight.out, averaged.weight.master_out,
                        static_cast<void*>(averaged.average_out)}) {
    addresses |= reinterpret_cast<uintptr_t>(p);
  }
  averaged.aligned = addresses % 16 == 0;
  return averaged;
}

// Parameters with the same storage and scalars share one launch, at any positions in the group.
template <template <typename> typename Rule>
void RunGroup(std::span<const CudaContext> group, const Arguments& arguments) {
  // How the weight and its master are stored. Without a master, its type is float64 here.
  const auto form = [&](const CudaContext& ctx) {
    const bool extended = ctx.has_input(arguments.master);
    return std::pair(ctx.inputs[arguments.weight].type.dtype,
                     extended ? ctx.inputs[arguments.master].type.dtype : DType::kFloat64);
  };
  std::vector<bool> done(group.size(), false);
  for (size_t i = 0; i < group.size(); ++i) {
    if (done[i]) continue;
    Table table{};
    table.common = CommonOf(group[i], arguments);
    int32_t blocks = 0;
    for (size_t j = i; j < group.size() && table.size < kMaxParameters; ++j) {
      if (done[j] || form(group[j]) != form(group[i])) continue;
      if (CommonOf(group[j], arguments) != table.common) continue;
      done[j] = true;
      Averaged averaged = AveragedOf(group[j], arguments);
      averaged.first_block = blocks;
      blocks += static_cast<int32_t>((averaged.elements + kBlockElements - 1) / kBlockElements);
      if (averaged.elements > 0) table.parameters[table.size++] = averaged;
    }
    if (blocks == 0) continue;
    const auto [weight, master] = form(group[i]);
    const cudaStream_t stream = group[i].stream;
    DispatchWeight(weight, master, [&]<typename Weight>(Weight) {
      AverageKernel<Rule<Weight>><<<blocks, kThreads, 0, stream>>>(table);
    });
    gpu::CheckLaunch(group[i].op.name.c_str());
  }
}

void WeightAverageGroup(std::span<const CudaContext> group) {
  RunGroup<Average>(group, kAverageArguments);
}
void ExchangeAverageGroup(std::span<const CudaContext> group) {
  RunGroup<Exchange>(group, kExchangeArguments);
}
void WeightAverage(const CudaContext& ctx) { WeightAverageGroup({&ctx, 1}); }
void ExchangeAverage(const CudaContext& ctx) { ExchangeAverageGroup({&ctx, 1}); }

const CudaKernelRegistration kWeightAverage({"weight_average", &WeightAverage, nullptr,
                                             &WeightAverageGroup});
const CudaKernelRegistration kExchangeAverage({"exchange_average", &ExchangeAverage, nullptr,
                                               &ExchangeAverageGroup});

}  // namespace
}  // namespace plimsoll::ops
