// y = weight[token] + position[first + t] (or positions[b,t]): a thread takes two packs of 16 bytes
// of y. Bytes: 2·N·D·s and, with position, its T rows once (they stay in the cache). A token or a
// position outside its table gives NaN, because a kernel cannot throw and must not read outside the
// table. A token of another rank (ops/collectives/vocabulary_shard.h) gives zeros.
#include "gpu/check.h"
#include "ops/collectives/vocabulary_shard.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/cuda_kernel.h"

namespace plimsoll::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 2;

template <typename S>
struct Arguments {
  const int32_t* tokens;
  const S* weight;
  const S* position;         // position embedding; may be nullptr
  const int32_t* first;      // position of the first token; nullptr means 0
  const int32_t* of_tokens;  // the tokens' positions; nullptr if positions count from `first` on
  S* y;
  int64_t rows, sequence, vocabulary, positions;
  int64_t before, after;  // number of tokens of ranks before and after this one
  int64_t packs_per_row;
};

// A pack of a row of the table. Rows of other ranks' tables give zeros: `before` rows precede this
// table's, and `after` rows follow.
template <int N, typename S>
__device__ Pack<S, N> Row(const S* table, int64_t row, int64_t rows, int64_t packs_per_row,
                          int64_t pack, int64_t before = 0, int64_t after = 0) {
  if (row >= 0 && row < rows) {
    return *reinterpret_cast<const Pack<S, N>*>(table + (row * packs_per_row + pack) * N);
  }
  const bool elsewhere = row >= -before && row < rows + after;
  Pack<S, N> nothing;
#pragma unroll
  for (int i = 0; i < N; ++i) nothing.values[i] = FromFloat<S>(elsewhere ? 0.0f : nanf(""));
  return nothing;
}

// A block's threads are distributed along rows (x) and over rows (y).
template <int N, typename S>
__global__ void __launch_bounds__(kThreads) EmbeddingKernel(const Arguments<S> args) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (row >= args.rows) return;
  const int64_t token = args.tokens[row] - args.before;
  const int64_t first = args.first == nullptr ? 0 : *args.first;
  const int64_t t = args.of_tokens != nullptr ? args.of_tokens[row] : first + row % args.sequence;
  for (int64_t begin = threadIdx.x; begin < args.packs_per_row; begin += blockDim.x * kUnroll) {
    Pack<S, N> words[kUnroll], places[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t pack = begin + u * blockDim.x;
      if (pack >= args.packs_per_row) break;
      words[u] = Row<N>(args.weight, token, args.vocabulary, args.packs_per_row, pack, args.before,
                        args.after);
      if (args.position != nullptr) {
        places[u] = Row<N>(args.position, t, args.positions, args.packs_per_row, pack);
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int64_t pack = begin + u * blockDim.x;
      if (pack >= args.packs_per_row) break;
      if (args.position != nullptr) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
          words[u].values[i] =
              FromFloat<S>(ToFloat(words[u].values[i]) + ToFloat(places[u].values[i]));
        }
      }
      *reinterpret_cast<Pack<S, N>*>(args.y + (row * args.packs_per_row + pack) * N) = words[u];
    }
  }
}

void Embedding(const CudaContext& ctx) {
  const int64_t width = ctx.in_shape(1).dim(1);
  const int64_t rows = ctx.in_shape(0).elements();
  if (rows == 0 || width == 0) return;
  DispatchCuda(ctx.inputs[1].type.dtype, [&]<typename S>() {
    const VocabularyShard shard(ctx.attributes, ctx.ranks, ctx.in_shape(1).dim(0));
    Arguments<S> args{.tokens = ctx.in<int32_t>(0),
                      .weight = ctx.in<S>(1),
                      .position = shard.first() ? ctx.in<S>(2) : nullptr,
                      .first = ctx.in<int32_t>(3),
                      .of_tokens = ctx.in<int32_t>(4),
                      .y = ctx.out<S>(0),
                      .rows = rows,
                      .sequence = ctx.in_shape(0).dim(1),
                      .vocabulary = shard.rows,
                      .positions = ctx.has_input(2) ? ctx.in_shape(2).dim(0) : 0,
                      .before = shard.begin,
                      .after = shard.whole - shard.begin - shard.rows,
                      .packs_per_row = 0};
    constexpr int N = kPackSize<S>;
    const bool aligned = width % N == 0 && IsAligned(args.weight, 16) &&
                         IsAligned(args.position, 16) && IsAligned(args.y, 16);
    args.packs_per_row = aligned ? width / N : width;
    // Rows shorter than the block share it.
    unsigned along = 32;
    while (along < kThreads && along * kUnroll < args.packs_per_row) along *= 2;
    const dim3 block(along, kThreads / along);
    const auto blocks = static_cast<unsigned>((rows + block.y - 1) / block.y);
    const auto launch = [&](auto* kernel) { kernel<<<blocks, block, 0, ctx.stream>>>(args); };
    aligned ? launch(&EmbeddingKernel<N, S>) : launch(&EmbeddingKernel<1, S>);
    gpu::CheckLaunch("embedding");
  });
}

const CudaKernelRegistration kEmbedding({"embedding", &Embedding});

}  // namespace
}  // namespace plimsoll::ops
