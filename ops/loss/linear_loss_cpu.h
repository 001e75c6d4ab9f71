// The CPU kernels that linear_cross_entropy and linear_log_probs share: logits by chunks of rows,
// and the results of a chunk.   R rows of a chunk, V logits a row.
//   logits = x · weightᵀ (+ bias)                          GEMM; with a soft cap c, then
//             c · tanh(logits / c), and dlogits below times 1 − (logits / c)²
//   m = max, lse = m + log Σ exp(logits − m), nll          a row at a time, while it is in cache
//   dlogits = f · (exp(logits − lse) − [v = target]), in place of the logits; 16-bit types are
//             rounded, each row at the start of its logits' row
//   dx = dlogits · weight,  dweight += dlogitsᵀ · x        GEMM
//   dbias += column sums of dlogits
//
// With a sharded vocabulary, m and the sums are found for all rows of a chunk first. The ranks then
// combine them, before the first lse is known.
//
// Threads: GEMM's, and rows. Sums of exponentials are taken in the compute type over pieces of
// kPiece and in double over the pieces.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "ops/collectives/vocabulary_shard.h"
#include "ops/cpu/packed_gemm.h"
#include "ops/kernel.h"
#include "ops/linear/gemm_workspace.h"
#include "ops/linear/low_gradient_cpu.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/linear_loss_call.h"
#include "ops/reductions/cpu_column_sums.h"
#include "ops/simd.h"

namespace plimsoll::ops::linear_loss {

inline constexpr int64_t kPiece = 4096;
// The least number of elements for a task.
inline constexpr int64_t kTaskElements = 1 << 15;

inline int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// For a sharded vocabulary: the layout of the ranks' numbers for the rows of a chunk.
struct SharesLayout {
  int64_t maxima_bytes = 0;  // [2,chunk]: maxima of this rank and of all ranks, in the compute type
  int64_t sums_bytes = 0;    // f64[2,chunk]: sums of exponentials, and logits of targets

  SharesLayout(bool split, int64_t chunk, int64_t element_size) {
    if (!split) return;
    maxima_bytes = Align(2 * chunk * element_size);
    sums_bytes = Align(2 * chunk * int64_t{sizeof(double)});
  }
};

// The indices of the arguments that differ between the ops. x, weight and targets are inputs 0 to 2
// of all.
struct Arguments {
  size_t bias, acc_weight, acc_bias, rng;  // indices of inputs
  size_t dx, dweight, dbias;               // indices of outputs
};

inline bool IsLow(const graph::TensorType& gradient) {
  return gradient.dtype == graph::DType::kBFloat16;
}

// The op's arguments, with x and weight stored as S, and its scratch memory.
template <typename S>
struct Loss {
  using T = Compute<S>;
  static constexpr bool kRounds = !std::is_same_v<S, T>;
  static constexpr graph::DType kComputed =
      std::is_same_v<T, double> ? graph::DType::kFloat64 : graph::DType::kFloat32;

  int64_t rows, width, vocabulary;  // the vocabulary of the table
  VocabularyShard shard;
  const S* x;
  const S* weight;
  const int32_t* targets;
  T cap;           // soft cap of logits; 0 means no cap
  T* bias;         // [V], in the workspace; nullptr means no bias
  T* logits;       // [chunk,V], in the workspace
  double* losses;  // [rows], in the workspace
  T* maxima;       // laid out by SharesLayout
  double* sums;
  T* wide;  // [V,D], in the workspace: dweight in float32 if it is stored as bf16; else nullptr
  void* gemm_workspace;
  int64_t gemm_bytes;
  int64_t chunk;
  ThreadPool& pool;

  Loss(const CpuContext& ctx, const Arguments& arguments)
      : rows(ctx.in_shape(0).rows()),
        width(ctx.in_shape(0).dim(-1)),
        vocabulary(ctx.in_shape(1).dim(0)),
        shard(ctx.attributes, ctx.ranks, vocabulary),
        x(ctx.in<S>(0)),
        weight(ctx.in<S>(1)),
        targets(ctx.in<int32_t>(2)),
        cap(static_cast<T>(LossSoftcap(ctx.attributes))),
        chunk(LossChunkRows(rows, vocabulary, sizeof(T))),
        pool(ctx.pool) {
    char* at = static_cast<char*>(ctx.workspace);
    logits = reinterpret_cast<T*>(at);
    at += Align(chunk * vocabulary * int64_t{sizeof(T)});
    losses = reinterpret_cast<double*>(at);
    at += Align(rows * int64_t{sizeof(double)});
    const SharesLayout shares(shard.split, chunk, sizeof(T));
    maxima = reinterpret_cast<T*>(at);
    at += shares.maxima_bytes;
    sums = reinterpret_cast<double*>(at);
    at += shares.sums_bytes;
    bias = ctx.has_input(arguments.bias) ? reinterpret_cast<T*>(at) : nullptr;
    if (bias != nullptr) {
      const S* const stored = ctx.in<S>(arguments.bias);
      ForVectors<T>(0, vocabulary, [&](int64_t i, auto count) {
        Store<T>(bias + i, Load<T>(stored + i, count), count);
      });
      at += Align(vocabulary * int64_t{sizeof(T)});
    }
    wide = nullptr;
    if (ctx.has_output(arguments.dweight) && IsLow(ctx.outputs[arguments.dweight].type)) {
      wide = reinterpret_cast<T*>(at);
      at += Align(vocabulary * width * int64_t{sizeof(T)});
    }
    gemm_workspace = at;
    gemm_bytes = ctx.workspace_bytes - (at - static_cast<char*>(ctx.workspace));
    for (int64_t r = 0; r < rows; ++r) {
      if (targets[r] >= shard.whole) {
        throw InternalError(ctx.op.name + ": target " + std::to_string(targets[r]) + " of row " +
                            std::to_string(r) + " is outside the vocabulary of " +
                            std::to_string(shard.whole));
      }
    }
  }

  // The gradient of a chunk's logits, which replaces them, and its row stride.
  const S* dlogits() const { return reinterpret_cast<const S*>(logits); }
  int64_t dlogits_stride() const { return vocabulary * int64_t{sizeof(T) / sizeof(S)}; }

  template <typename C>
  void Multiply(const cpu::GemmArgs<S, S, C>& args) const {
    cpu::Gemm(pool, args, gemm_workspace, gemm_bytes);
  }

  // Calls body(first row, number of rows) for each chunk.
  template <typename Body>
  void ForChunks(Body body) const {
    for (int64_t r = 0; r < rows; r += chunk) body(r, std::min(chunk, rows - r));
  }

  // Calls body(row within the chunk) for each row, on all threads.
  template <typename Body>
  void ForRows(int64_t count, Body body) const {
    const int64_t grain = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(1, vocabulary));
    pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) body(r);
    });
  }

  void MakeLogits(int64_t first, int64_t count) const {
    cpu::GemmArgs<S, S, T> args;
    args.trans_b = true;
    args.m = count;
    args.n = vocabulary;
    args.k = width;
    args.a = x + first * width;
    args.lda = width;
    args.b = weight;
    args.ldb = width;
    args.c = logits;
    args.ldc = vocabulary;
    args.bias = bias;
    Multiply(args);
    if (cap > 0) CapLogits(count);
  }

  void CapLogits(int64_t count) const {
    ForRows(count, [&](int64_t r) {
      T* const row = logits + r * vocabulary;
      ForVectors<T>(0, vocabulary, [&](int64_t i, auto lanes) {
        Store<T>(row + i, Tanh<T>(Load<T>(row + i, lanes) / cap) * cap, lanes);
      });
    });
  }

  void GradientOfX(int64_t first, int64_t count, S* dx) const {
    cpu::GemmArgs<S> args;
    args.m = count;
    args.n = width;
    args.k = vocabulary;
    args.a = dlogits();
    args.lda = dlogits_stride();
    args.b = weight;
    args.ldb = width;
    args.c = dx + first * width;
    args.ldc = width;
    Multiply(args);
  }

  // The first chunk starts from acc (which may be dweight itself); later chunks add to dweight.
  void GradientOfWeight(int64_t first, int64_t count, const T* acc, T* dweight) const {
    cpu::GemmArgs<S, S, T> args;
    args.trans_a = true;
    args.m = vocabulary;
    args.n = width;
    args.k = count;
    args.a = dlogits();
    args.lda = dlogits_stride();
    args.b = x + first * width;
    args.ldb = width;
    args.c = dweight;
    args.ldc = width;
    args.beta = first > 0 || acc != nullptr ? 1 : 0;
    if (first == 0 && acc != nullptr && acc != dweight) {
      pool.ParallelFor(vocabulary * width, 1 << 16, [&](int64_t begin, int64_t end) {
        std::copy(acc + begin, acc + end, dweight + begin);
      });
    }
    Multiply(args);
  }

  void GradientOfBias(int64_t first, int64_t count, const T* acc, T* dbias) const {
    ColumnSums(dlogits(), count, vocabulary, dlogits_stride(), first == 0 ? acc : dbias, dbias,
               pool);
  }

  // The largest of n values, with eight vectors in parallel.
  static T Max(const T* row, int64_t n) {
    constexpr int kLane = kLanes<T>;
    constexpr int kSide = 8;
    T largest = -std::numeric_limits<T>::infinity();
    int64_t i = 0;
    if (n >= kSide * kLane) {
      Vec<T> side[kSide];
      for (int s = 0; s < kSide; ++s) side[s] = Load<T>(row + s * kLane);
      for (i = kSide * kLane; i + kSide * kLane <= n; i += kSide * kLane) {
        for (int s = 0; s < kSide; ++s) {
          const Vec<T> value = Load<T>(row + i + s * kLane);
          side[s] = value > side[s] ? value : side[s];
        }
      }
      for (const Vec<T>& v : side) {
        for (int lane = 0; lane < kLane; ++lane) largest = std::max(largest, T(v[lane]));
      }
    }
    for (; i < n; ++i) largest = std::max(largest, row[i]);
    return largest;
  }

  // Σ exp(row − max), in double.
  double SumOfExponentials(const T* row, T max) const {
    const Vec<T> m = Splat<T>(max);
    double sum = 0;
    for (int64_t i = 0; i < vocabulary; i += kPiece) {
      const T* const piece = row + i;
      sum += SumVectors<T>(std::min(kPiece, vocabulary - i), [&](int64_t j, auto count) {
        return Exp<T>(Load<T>(piece + j, count) - m);
      });
    }
    return sum;
  }

  // Combines maxima, sums and targets' logits of a chunk over the full vocabulary. Does nothing
  // when this rank has all of it.
  void CombineRanks(int64_t first, int64_t count) const {
    if (!shard.split) return;
    T* const own_maxima = maxima;
    T* const all_maxima = maxima + count;
    ForRows(count, [&](int64_t r) {
      const T* const row = logits + r * vocabulary;
      const int32_t target = targets[first + r];
      own_maxima[r] = all_maxima[r] = Max(row, vocabulary);
      sums[r] = SumOfExponentials(row, own_maxima[r]);
      sums[count + r] = shard.Has(target) ? static_cast<double>(row[shard.Row(target)]) : 0.0;
    });
    if (shard.ranks == nullptr) return;
    shard.ranks->AllReduce(own_maxima, all_maxima, count, kComputed, Reduction::kMax, nullptr);
    for (int64_t r = 0; r < count; ++r) {
      sums[r] *= std::exp(static_cast<double>(own_maxima[r]) - static_cast<double>(all_maxima[r]));
    }
    shard.ranks->AllReduce(sums, sums, 2 * count, graph::DType::kFloat64, Reduction::kSum, nullptr);
  }

  // Returns the lse of row r of a chunk of `count`, and stores its loss.
  T FinishRow(int64_t first, int64_t count, int64_t r) const {
    const T* const row = logits + r * vocabulary;
    const int32_t target = targets[first + r];
    const T max = shard.split ? maxima[count + r] : Max(row, vocabulary);
    const double sum = shard.split ? sums[r] : SumOfExponentials(row, max);
    const double lse = static_cast<double>(max) + std::log(sum);
    losses[first + r] = 0;
    if (target >= 0) {
      losses[first + r] = lse - (shard.split ? sums[count + r] : static_cast<double>(row[target]));
    }
    return static_cast<T>(lse);
  }

  // Replaces the row's logits by factor · (softmax − one-hot), stored as S.
  void GradientOfRow(int64_t row, T lse, T factor, T* row_logits) const {
    const int32_t target = targets[row];
    if (target < 0) {
      std::fill(row_logits, row_logits + vocabulary, T(0));
      return;
    }
    const Vec<T> shift = Splat<T>(lse);
    const Vec<T> f = Splat<T>(factor);
    if (cap > 0) {
      const T own = shard.Has(target) ? row_logits[shard.Row(target)] / cap : T(0);
      ForVectors<T>(0, vocabulary, [&](int64_t i, auto count) {
        const Vec<T> logit = Load<T>(row_logits + i, count);
        const Vec<T> t = logit / cap;
        Store<T>(row_logits + i, Exp<T>(logit - shift) * f * (1 - t * t), count);
      });
      if (shard.Has(target)) row_logits[shard.Row(target)] -= factor * (1 - own * own);
    } else {
      ForVectors<T>(0, vocabulary, [&](int64_t i, auto count) {
        Store<T>(row_logits + i, Exp<T>(Load<T>(row_logits + i, count) - shift) * f, count);
      });
      if (shard.Has(target)) row_logits[shard.Row(target)] -= factor;
    }
    if constexpr (kRounds) {
      // Rows become half as wide, in place: every element has been read before it is overwritten.
      S* const rounded = reinterpret_cast<S*>(row_logits);
      ForVectors<T>(0, vocabulary, [&](int64_t i, auto count) {
        Store<T>(rounded + i, Load<T>(row_logits + i, count), count);
      });
    }
  }

  T TotalLoss(float scale) const {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += losses[r];
    return static_cast<T>(sum * static_cast<double>(scale));
  }
};

// Adds the gradients of a chunk whose logits have been replaced by dlogits.
template <typename S>
void ChunkGradients(const CpuContext& ctx, const Arguments& at, const Loss<S>& loss, int64_t first,
                    int64_t count) {
  using T = Compute<S>;
  if (S* const dx = ctx.out<S>(at.dx)) loss.GradientOfX(first, count, dx);
  if (loss.wide != nullptr) {
    loss.GradientOfWeight(first, count, nullptr, loss.wide);
    if constexpr (std::is_same_v<S, BFloat16>) {
      if (first + count == loss.rows) {
        StoreLowGradient(ctx, loss.wide, at.acc_weight, at.rng, at.dweight);
      }
    }
  } else if (T* const dweight = ctx.out<T>(at.dweight)) {
    loss.GradientOfWeight(first, count, ctx.in<T>(at.acc_weight), dweight);
  }
  if (T* const dbias = ctx.has_input(at.bias) ? ctx.out<T>(at.dbias) : nullptr) {
    loss.GradientOfBias(first, count, ctx.in<T>(at.acc_bias), dbias);
  }
}

// The workspace of a call. `forward_only`: the op computes no gradients.
inline int64_t Workspace(const graph::OpCall& call, const Arguments& at, bool forward_only) {
  const int64_t rows = call.input(0).shape.rows();
  const int64_t width = call.input(0).shape.dim(-1);
  const int64_t vocabulary = call.input(1).shape.dim(0);
  const graph::DType stored = call.input(0).dtype;
  const graph::DType computed = graph::ComputeType(stored);
  const int64_t size = graph::ByteSize(computed);
  const int64_t chunk = LossChunkRows(rows, vocabulary, size);
  int64_t gemm = 0;
  // The last chunk may have fewer rows, and GEMM may divide a smaller shape into other blocks.
  const int64_t last = rows % std::max<int64_t>(1, chunk);
  for (const int64_t count : {chunk, last}) {
    gemm = std::max(gemm, GemmBytes(computed, count, vocabulary, width));
    if (forward_only) continue;
    gemm = std::max(gemm, GemmBytes(stored, count, width, vocabulary));
    gemm = std::max(gemm, GemmBytes(computed, vocabulary, width, count));
  }
  const SharesLayout shares(SplitsVocabulary(call.attributes), chunk, size);
  const bool low = call.has_output(at.dweight) && IsLow(call.output(at.dweight));
  return Align(chunk * vocabulary * size) + Align(rows * int64_t{sizeof(double)}) +
         shares.maxima_bytes + shares.sums_bytes +
         (call.has_input(at.bias) ? Align(vocabulary * size) : 0) +
         (low ? Align(vocabulary * width * size) : 0) + gemm;
}

}  // namespace plimsoll::ops::linear_loss
