// y = weight[token] + position[first + t] (or positions[b,t]): threads share the rows of y. Bytes:
// 3·N·D·s (2 without position).
//
// dweight[token] += dy: threads share slabs of columns; within a slab the rows of dy are added in
// the order of the tokens, so that no two threads meet and the order of a sum is fixed.
// Bytes: 3·N·D·s, and V·D·s to clear (or copy) the gradient first.
//
// dposition[first + t] = Σ_b dy[b,t]: threads share the rows t. Bytes: N·D·s + P·D·s.
#include <algorithm>
#include <cstring>
#include <string>

#include "ops/collectives/vocabulary_shard.h"
#include "ops/kernel.h"
#include "ops/linear/low_gradient_cpu.h"
#include "ops/reductions/row_partials.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// 256 or 512 bytes of a row: complete cache lines, and enough slabs for many threads.
constexpr int64_t kSlab = 64;

// Throws InternalError on a position outside the table. `positions`: the tokens' positions in their
// documents, or nullptr.
void CheckPositions(const int32_t* positions, int64_t n, int64_t rows) {
  for (int64_t i = 0; positions != nullptr && i < n; ++i) {
    if (positions[i] >= 0 && positions[i] < rows) continue;
    throw InternalError("embedding: position " + std::to_string(positions[i]) +
                        " outside the table of " + std::to_string(rows));
  }
}

void CheckTokens(const int32_t* tokens, int64_t n, int64_t vocabulary, const char* op) {
  for (int64_t i = 0; i < n; ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocabulary) {
      throw InternalError(std::string(op) + ": token " + std::to_string(tokens[i]) +
                          " outside the vocabulary of " + std::to_string(vocabulary));
    }
  }
}

// The position of the first token. Checks that `length` rows from there on are within the table.
int64_t FirstPosition(const CpuContext& ctx, size_t input, int64_t length, int64_t rows) {
  const int32_t* given = ctx.in<int32_t>(input);
  const int64_t first = given == nullptr ? 0 : *given;
  if (first < 0 || first + length > rows) {
    throw InternalError(ctx.op.name + ": positions from " + std::to_string(first) + " to " +
                        std::to_string(first + length - 1) + " outside the table of " +
                        std::to_string(rows));
  }
  return first;
}

// out = acc, or zero; does nothing if out is acc.
template <typename T>
void StartFrom(ThreadPool& pool, const T* acc, T* out, int64_t n) {
  if (acc == out) return;
  pool.ParallelFor(n, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    if (acc != nullptr) {
      std::memcpy(out + begin, acc + begin, (end - begin) * sizeof(T));
    } else {
      std::memset(out + begin, 0, (end - begin) * sizeof(T));
    }
  });
}

// Adds n elements of `term` to `sum`. Either type may have 16 bits; the sum is then rounded once.
template <typename Sum, typename Term>
void AddTo(Sum* sum, const Term* term, int64_t n) {
  using T = Compute<Term>;
  ForVectors<T>(0, n, [&](int64_t i, auto count) {
    Store<T>(sum + i, Load<T>(sum + i, count) + Load<T>(term + i, count), count);
  });
}

void Embedding(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[1].type.dtype, [&]<typename S>() {
    const int32_t* tokens = ctx.in<int32_t>(0);
    const S* weight = ctx.in<S>(1);
    const S* position = ctx.in<S>(2);
    S* y = ctx.out<S>(0);
    const int64_t rows = ctx.in_shape(0).elements();
    const int64_t sequence = ctx.in_shape(0).dim(1);
    const int64_t width = ctx.in_shape(1).dim(1);
    const VocabularyShard shard(ctx.attributes, ctx.ranks, ctx.in_shape(1).dim(0));
    CheckTokens(tokens, rows, shard.whole, "embedding");
    const int32_t* const positions = ctx.in<int32_t>(4);
    const int64_t places = position == nullptr ? 0 : ctx.in_shape(2).dim(0);
    CheckPositions(positions, rows, places);
    const bool from_first = position != nullptr && positions == nullptr;
    const int64_t first = from_first ? FirstPosition(ctx, 3, sequence, places) : 0;
    ctx.pool.ParallelFor(rows, RowGrain(width), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (shard.Has(tokens[row])) {
          std::memcpy(y + row * width, weight + shard.Row(tokens[row]) * width, width * sizeof(S));
        } else {
          std::memset(y + row * width, 0, width * sizeof(S));
        }
        if (position != nullptr && shard.first()) {
          const int64_t place = positions == nullptr ? first + row % sequence : positions[row];
          AddTo(y + row * width, position + place * width, width);
        }
      }
    });
  });
}

void EmbeddingDw(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[1].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int32_t* tokens = ctx.in<int32_t>(0);
    const S* dy = ctx.in<S>(1);
    const bool low = ctx.outputs[0].type.dtype == graph::DType::kBFloat16;
    T* const dweight = low ? static_cast<T*>(ctx.workspace) : ctx.out<T>(0);
    const int64_t rows = ctx.in_shape(0).elements();
    const int64_t width = ctx.out_shape(0).dim(1);
    const VocabularyShard shard(ctx.attributes, ctx.ranks, ctx.out_shape(0).dim(0));
    CheckTokens(tokens, rows, shard.whole, "embedding_dw");
    StartFrom(ctx.pool, low ? nullptr : ctx.in<T>(2), dweight, ctx.out_shape(0).elements());
    ctx.pool.ParallelFor(width, kSlab, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < rows; ++row) {
        if (!shard.Has(tokens[row])) continue;
        T* const sum = dweight + shard.Row(tokens[row]) * width;
        AddTo(sum + begin, dy + row * width + begin, end - begin);
      }
    });
    if constexpr (std::is_same_v<S, BFloat16>) {
      if (low) StoreLowGradient(ctx, dweight, 2, 3, 0);
    }
  });
}

// A low gradient is computed in float32 first, in the workspace.
int64_t EmbeddingDwWorkspace(const graph::OpCall& call, int /*threads*/) {
  const graph::TensorType& dweight = call.output(0);
  return dweight.dtype == graph::DType::kBFloat16
             ? dweight.shape.elements() * int64_t{sizeof(float)}
             : 0;
}

void PositionDw(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const S* dy = ctx.in<S>(0);
    const T* acc = ctx.in<T>(1);
    T* dposition = ctx.out<T>(0);
    const int64_t batch = ctx.in_shape(0).dim(0);
    const int64_t sequence = ctx.in_shape(0).dim(1);
    const int64_t width = ctx.in_shape(0).dim(2);
    const int64_t first = FirstPosition(ctx, 2, sequence, ctx.out_shape(0).dim(0));
    const int64_t grain = std::max<int64_t>(1, RowGrain(width) / (batch + 1));
    ctx.pool.ParallelFor(ctx.out_shape(0).dim(0), grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        T* row = dposition + t * width;
        if (acc == nullptr) {
          std::memset(row, 0, width * sizeof(T));
        } else if (acc != dposition) {
          std::memcpy(row, acc + t * width, width * sizeof(T));
        }
        if (t < first || t >= first + sequence) continue;
        for (int64_t b = 0; b < batch; ++b) {
          AddTo(row, dy + (b * sequence + t - first) * width, width);
        }
      }
    });
  });
}

const CpuKernelRegistration kEmbedding({"embedding", &Embedding});
const CpuKernelRegistration kEmbeddingDw({"embedding_dw", &EmbeddingDw, &EmbeddingDwWorkspace});
const CpuKernelRegistration kPositionDw({"position_dw", &PositionDw});

}  // namespace
}  // namespace plimsoll::ops
