// attention_cached runs in two rounds over the threads:
//   append   a task copies the new keys and values of one key-value head of one text to its cache
//   attend   a task is one new token of such a head: for each of the query heads that share it, all
//            scores, their softmax, and the sum of values, computed in float32 (or float64)
//
// Each query head of a group reads every key and value that its token sees once. The query heads of
// a key-value head are computed together, so that keys and values come from memory once. Bytes: the
// caches up to the tokens' positions. Scratch: for each thread, a row of C scores, and the query
// and the sum of a head.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "ops/attention/attention.h"
#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;

struct Sizes {
  Sizes(const Shape& qkv, const Shape& keys, int64_t query_heads)
      : rows(qkv.dim(0)),
        window(qkv.dim(1)),
        stride(qkv.dim(2)),
        heads(query_heads),
        kv_heads(keys.dim(1)),
        group(query_heads / keys.dim(1)),
        capacity(keys.dim(2)),
        head(keys.dim(3)) {}

  int64_t rows, window, stride, heads, kv_heads, group, capacity, head;
};

int64_t Padded(int64_t elements) { return (elements + 15) / 16 * 16; }

// The number of elements of a thread's scratch.
int64_t Scratch(const Sizes& at) { return Padded(at.capacity) + 2 * Padded(at.head); }

template <typename S>
void Append(const CpuContext& ctx, const Sizes& at, int64_t position) {
  for (const int output : {1, 2}) {
    S* const cache = ctx.out<S>(output);
    const S* const before = ctx.in<S>(output);
    const int64_t first = at.heads + (output - 1) * at.kv_heads;  // the first of its heads in a row
                                                                  // of qkv
    ctx.pool.ParallelFor(at.rows * at.kv_heads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t size = at.capacity * at.head;
        S* const to = cache + task * size;
        if (cache != before) std::memcpy(to, before + task * size, size * sizeof(S));
        const S* const from = ctx.in<S>(0) + task / at.kv_heads * at.window * at.stride +
                              (first + task % at.kv_heads) * at.head;
        for (int64_t i = 0; i < at.window; ++i) {
          std::memcpy(to + (position + i) * at.head, from + i * at.stride, at.head * sizeof(S));
        }
      }
    });
  }
}

// out = softmax(scale · q · keysᵀ) · values over `count` positions. cap: the soft cap of scores; 0:
// no cap.
template <typename S>
void Attend(const S* q, const S* keys, const S* values, int64_t count, int64_t head,
            Compute<S> scale, Compute<S> cap, Compute<S>* scores, Compute<S>* query,
            Compute<S>* sum, S* out) {
  using T = Compute<S>;
  ForVectors<T>(0, head, [&](int64_t d, auto lanes) {
    Store<T>(query + d, Load<T>(q + d, lanes) * scale, lanes);
    Store<T>(sum + d, Vec<T>{}, lanes);
  });
  T largest = -INFINITY;
  for (int64_t j = 0; j < count; ++j) {
    const S* const key = keys + j * head;
    scores[j] = SumVectors<T>(head, [&](int64_t d, auto lanes) {
      return Load<T>(query + d, lanes) * Load<T>(key + d, lanes);
    });
    largest = std::max(largest, scores[j]);
  }
  if (cap > 0) {
    ForVectors<T>(0, count, [&](int64_t j, auto lanes) {
      Store<T>(scores + j, Tanh<T>(Load<T>(scores + j, lanes) / cap) * cap, lanes);
    });
    largest = *std::max_element(scores, scores + count);
  }
  ForVectors<T>(0, count, [&](int64_t j, auto lanes) {
    Store<T>(scores + j, Exp<T>(Load<T>(scores + j, lanes) - largest), lanes);
  });
  const T total =
      SumVectors<T>(count, [&](int64_t j, auto lanes) { return Load<T>(scores + j, lanes); });
  for (int64_t j = 0; j < count; ++j) {
    const S* const value = values + j * head;
    const T weight = scores[j];
    ForVectors<T>(0, head, [&](int64_t d, auto lanes) {
      Store<T>(sum + d, Load<T>(sum + d, lanes) + weight * Load<T>(value + d, lanes), lanes);
    });
  }
  ForVectors<T>(0, head, [&](int64_t d, auto lanes) {
    Store<T>(out + d, Load<T>(sum + d, lanes) / total, lanes);
  });
}

template <typename S>
void AttendAll(const CpuContext& ctx, const Sizes& at, int64_t position) {
  using T = Compute<S>;
  const S* const keys = ctx.out<S>(1);
  const S* const values = ctx.out<S>(2);
  const int64_t reach = AttentionWindow(ctx.attributes);
  const T scale = ctx.attributes.Has("scale") ? static_cast<T>(ctx.attributes.GetReal("scale"))
                                              : 1 / std::sqrt(static_cast<T>(at.head));
  const T cap = static_cast<T>(AttentionSoftcap(ctx.attributes));
  const int64_t tasks = at.rows * at.kv_heads * at.window;
  ctx.pool.ParallelForWorker(tasks, 1, [&](int64_t begin, int64_t end, int worker) {
    T* const scores = static_cast<T*>(ctx.workspace) + worker * Scratch(at);
    T* const query = scores + Padded(at.capacity);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t i = task % at.window;
      const int64_t cache = task / at.window;  // the index r·G + g
      const int64_t row = cache / at.kv_heads * at.window + i;
      const int64_t first = cache % at.kv_heads * at.group;  // the first query head of the cache
      const int64_t seen = reach == 0 ? position + i + 1 : std::min(position + i + 1, reach);
      const int64_t from = (cache * at.capacity + position + i + 1 - seen) * at.head;
      for (int64_t h = first; h < first + at.group; ++h) {
        Attend<S>(ctx.in<S>(0) + row * at.stride + h * at.head, keys + from, values + from, seen,
                  at.head, scale, cap, scores, query, query + Padded(at.head),
                  ctx.out<S>(0) + (row * at.heads + h) * at.head);
      }
    }
  });
}

void AttentionCached(const CpuContext& ctx) {
  const Sizes at(ctx.in_shape(0), ctx.in_shape(1), ctx.attributes.GetInt("heads"));
  const int64_t position = *ctx.in<int32_t>(3);
  if (position < 0 || position + at.window > at.capacity) {
    throw InternalError("attention_cached: " + std::to_string(at.window) +
                        " tokens from position " + std::to_string(position) +
                        " on don't fit a cache of " + std::to_string(at.capacity));
  }
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    Append<S>(ctx, at, position);
    AttendAll<S>(ctx, at, position);
  });
}

int64_t Workspace(const OpCall& call, int threads) {
  const Sizes at(call.input(0).shape, call.input(1).shape, call.attributes.GetInt("heads"));
  return threads * Scratch(at) * graph::ByteSize(graph::ComputeType(call.input(0).dtype));
}

const CpuKernelRegistration kAttentionCached({"attention_cached", &AttentionCached, &Workspace});

}  // namespace
}  // namespace plimsoll::ops
