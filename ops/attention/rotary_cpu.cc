// Rotation of query and key heads by position (formula in rotary.h). A task takes a few positions:
// the cosines and sines of a position are computed once for all heads of all sequences. With the
// input `positions`, tasks first fill a table for the positions 0 to T − 1, then take a few tokens
// each: a token's bits depend only on its own position. Bytes: qkv is read and written once; in
// place, the values that pass unchanged are not accessed. The largest magnitude of the result is
// found afterwards, in one more read.
#include <algorithm>
#include <cmath>
#include <string>

#include "ops/attention/rotary_frequencies.h"
#include "ops/kernel.h"
#include "ops/reductions/cpu_largest.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;

constexpr int64_t kPositions = 4;

// Rotates one head. May work in place: a pair is read before it is written.
template <typename S, typename T>
void RotateHead(const S* x, S* y, const T* cosines, const T* sines, int64_t pairs, int64_t head) {
  const S* const x2 = x + pairs;
  S* const y2 = y + pairs;
  ForVectors<T>(0, pairs, [&](int64_t i, auto count) {
    const Vec<T> first = Load<T>(x + i, count);
    const Vec<T> second = Load<T>(x2 + i, count);
    const Vec<T> cosine = Load<T>(cosines + i, count);
    const Vec<T> sine = Load<T>(sines + i, count);
    Store<T>(y + i, first * cosine - second * sine, count);
    Store<T>(y2 + i, second * cosine + first * sine, count);
  });
  if (x != y) std::copy(x + 2 * pairs, x + head, y + 2 * pairs);
}

// The workspace holds frequencies, and then rows of cosines and sines: one of each for each thread
// or, with the input `positions`, for each position.
template <typename T>
int64_t RowElements(int64_t pairs) {
  return (pairs * int64_t{sizeof(T)} + 63) / 64 * 64 / int64_t{sizeof(T)};
}

void CheckPositions(const CpuContext& ctx, const int32_t* positions) {
  const int64_t length = ctx.in_shape(2).dim(1);
  for (int64_t i = 0; i < ctx.in_shape(2).elements(); ++i) {
    if (positions[i] >= 0 && positions[i] < length) continue;
    throw InternalError("rotary: position " + std::to_string(positions[i]) + " in a row of " +
                        std::to_string(length) + " tokens");
  }
}

template <typename S>
void Run(const CpuContext& ctx) {
  using T = Compute<S>;
  const graph::Shape& shape = ctx.in_shape(0);
  const int64_t sequences = shape.dim(0);
  const int64_t length = shape.dim(1);
  const int64_t width = shape.dim(2);
  const int64_t rotated = ctx.attributes.GetInt("heads") + ctx.attributes.GetInt("kv_heads");
  const int64_t head = width / (rotated + ctx.attributes.GetInt("kv_heads"));
  const int64_t pairs = RotaryWidth(ctx.attributes, head) / 2;
  const float scale = RotaryScale(ctx.attributes);
  const T sign = ctx.attributes.GetBool("inverse") ? -1 : 1;
  const int64_t first = ctx.has_input(1) ? *ctx.in<int32_t>(1) : 0;
  const int32_t* const positions = ctx.in<int32_t>(2);
  const S* const in = ctx.in<S>(0);
  S* const out = ctx.out<S>(0);

  float* const frequencies = static_cast<float*>(ctx.workspace);
  RotaryFrequencies(ctx.attributes, pairs, 0, {frequencies, static_cast<size_t>(pairs)});
  T* const tables = reinterpret_cast<T*>(frequencies + RowElements<float>(pairs));

  // A row of the table: cosines, then sines.
  const int64_t table = 2 * RowElements<T>(pairs);
  const auto fill = [&](int64_t position, T* cosines) {
    T* const sines = cosines + RowElements<T>(pairs);
    for (int64_t i = 0; i < pairs; ++i) {
      const double angle = static_cast<float>(position) * frequencies[i];
      cosines[i] = static_cast<T>(scale * static_cast<float>(std::cos(angle)));
      sines[i] = sign * static_cast<T>(scale * static_cast<float>(std::sin(angle)));
    }
  };
  const auto rotate = [&](int64_t token, const T* cosines) {
    const S* const x = in + token * width;
    S* const y = out + token * width;
    for (int64_t h = 0; h < rotated; ++h) {
      RotateHead(x + h * head, y + h * head, cosines, cosines + RowElements<T>(pairs), pairs, head);
    }
    if (x != y) std::copy(x + rotated * head, x + width, y + rotated * head);
  };

  if (positions != nullptr) {
    CheckPositions(ctx, positions);
    ctx.pool.ParallelFor(length, kPositions, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) fill(t, tables + t * table);
    });
    ctx.pool.ParallelFor(sequences * length, kPositions, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) rotate(i, tables + positions[i] * table);
    });
    return;
  }
  ctx.pool.ParallelForWorker(length, kPositions, [&](int64_t begin, int64_t end, int worker) {
    T* const cosines = tables + worker * table;
    for (int64_t t = begin; t < end; ++t) {
      fill(first + t, cosines);
      for (int64_t b = 0; b < sequences; ++b) rotate(b * length + t, cosines);
    }
  });
}

void Rotary(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() { Run<S>(ctx); });
  StoreLargest(ctx);
}

int64_t Workspace(const OpCall& call, int threads) {
  const int64_t heads = call.attributes.GetInt("heads") + 2 * call.attributes.GetInt("kv_heads");
  const int64_t pairs = RotaryWidth(call.attributes, call.input(0).shape.dim(2) / heads) / 2;
  const int64_t row = call.input(0).dtype == graph::DType::kFloat64 ? 8 * RowElements<double>(pairs)
                                                                    : 4 * RowElements<float>(pairs);
  const int64_t rows = call.has_input(2) ? call.input(0).shape.dim(1) : threads;
  return 4 * RowElements<float>(pairs) + 2 * rows * row;
}

const CpuKernelRegistration kRotary({"rotary", &Rotary, &Workspace});

}  // namespace
}  // namespace plimsoll::ops
