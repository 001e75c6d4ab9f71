// attention           a task is a block of queries of one head: cpu::RunAttention reads the keys
//                     and values that the block sees once
// attention_backward  a task is a key-value head with the query heads that share it, so that dk and
//                     dv have one writer and one order of summation
//
// Bytes: forward reads k and v once for every 128 queries (from L2 or L3), backward once for every
// 64. Scratch: a few tiles per thread, in the backward pass also dk and dv of a head; it is float
// when the operands have 16 bits. The largest magnitude of a result is found afterwards, in one
// more read.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/dropout_draws.h"
#include "base/error.h"
#include "ops/attention/attention.h"
#include "ops/cpu/attention_loops.h"
#include "ops/kernel.h"
#include "ops/reductions/cpu_largest.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;

// Shapes, and where the heads begin in a row of qkv.
struct Layout {
  Layout(const Shape& qkv, const graph::Attributes& attributes)
      : batch(qkv.dim(0)),
        sequence(qkv.dim(1)),
        stride(qkv.dim(2)),
        heads(attributes.GetInt("heads")),
        kv_heads(attributes.GetInt("kv_heads")),
        group(heads / kv_heads),
        head(stride / (heads + 2 * kv_heads)),
        divisor(attributes.Has("scale") ? 1 / attributes.GetReal("scale")
                                        : std::sqrt(static_cast<double>(head))),
        softcap(AttentionSoftcap(attributes)) {}

  int64_t Query(int64_t b, int64_t h) const { return b * sequence * stride + h * head; }
  int64_t Key(int64_t b, int64_t g) const { return Query(b, heads + g); }
  int64_t Value(int64_t b, int64_t g) const { return Query(b, heads + kv_heads + g); }
  int64_t Out(int64_t b, int64_t h) const { return (b * sequence * heads + h) * head; }
  int64_t Lse(int64_t b, int64_t h) const { return (b * heads + h) * sequence; }

  int64_t batch, sequence, stride, heads, kv_heads, group, head;
  double divisor, softcap;  // the divisor and the soft cap of scores
};

template <typename T>
cpu::AttentionDropout<T> Dropout(const CpuContext& ctx, const PhiloxStream* stream, int64_t b,
                                 int64_t h) {
  const double p = ctx.attributes.GetReal("dropout");
  if (p == 0) return {};
  const DropRule rule(p);
  const HeadsOfRanks heads(ctx.attributes.GetInt("heads"), ctx.ranks);
  return {stream, b * heads.all + heads.first + h, rule.threshold, static_cast<T>(rule.keep_scale)};
}

PhiloxStream Stream(const CpuContext& ctx, size_t rng) {
  constexpr int32_t kNone[2] = {0, 0};
  const int32_t* const given = ctx.in<int32_t>(rng);
  return DropoutStream(given == nullptr ? kNone : given, ctx.attributes.GetInt("key"));
}

// The number of tokens of row b that are not padding.
int64_t Length(const CpuContext& ctx, size_t lengths, const Layout& at, int64_t b) {
  const int32_t* const given = ctx.in<int32_t>(lengths);
  return given == nullptr ? at.sequence : given[b];
}

void CheckLengths(const CpuContext& ctx, size_t lengths, const Layout& at) {
  for (int64_t b = 0; b < at.batch; ++b) {
    const int64_t length = Length(ctx, lengths, at, b);
    if (length >= 0 && length <= at.sequence) continue;
    throw InternalError(ctx.op.name + ": length " + std::to_string(length) + " of row " +
                        std::to_string(b) + " is outside its " + std::to_string(at.sequence) +
                        " tokens");
  }
}

// The positions of row b's tokens in their documents; nullptr: all belong to one document.
const int32_t* Positions(const CpuContext& ctx, size_t positions, const Layout& at, int64_t b) {
  const int32_t* const given = ctx.in<int32_t>(positions);
  return given == nullptr ? nullptr : given + b * at.sequence;
}

// Throws InternalError on invalid positions. A document's tokens are consecutive, so that the first
// key that a query sees never decreases.
void CheckPositions(const CpuContext& ctx, size_t positions, const Layout& at) {
  if (!ctx.has_input(positions)) return;
  for (int64_t b = 0; b < at.batch; ++b) {
    const int32_t* const row = Positions(ctx, positions, at, b);
    for (int64_t i = 0; i < at.sequence; ++i) {
      if (row[i] == 0 || (i > 0 && row[i] == row[i - 1] + 1 && row[i] <= i)) continue;
      throw InternalError(ctx.op.name + ": position " + std::to_string(row[i]) + " of token " +
                          std::to_string(i) + " in row " + std::to_string(b) +
                          " is neither 0 nor one more than that of the token before");
    }
  }
}

// Fills the rows [begin, end) with zeros; each has `width` values, and rows are `stride` apart.
template <typename S>
void ZeroRows(S* rows, int64_t stride, int64_t width, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) std::fill_n(rows + i * stride, width, S(0.0f));
}

void Forward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Layout at(ctx.in_shape(0), ctx.attributes);
    CheckLengths(ctx, 2, at);
    CheckPositions(ctx, 3, at);
    const PhiloxStream stream = Stream(ctx, 1);
    const int64_t blocks = (at.sequence + cpu::kAttentionQueries - 1) / cpu::kAttentionQueries;
    const int64_t scratch = cpu::AttentionForwardScratch(at.head, sizeof(T));
    const int64_t tasks = at.batch * at.heads * blocks;
    ctx.pool.ParallelForWorker(tasks, 1, [&](int64_t begin, int64_t, int worker) {
      const int64_t b = begin / (at.heads * blocks);
      const int64_t h = begin / blocks % at.heads;
      cpu::AttentionForward<S> task;
      task.q = ctx.in<S>(0) + at.Query(b, h);
      task.k = ctx.in<S>(0) + at.Key(b, h / at.group);
      task.v = ctx.in<S>(0) + at.Value(b, h / at.group);
      task.stride = at.stride;
      task.out = ctx.out<S>(0) + at.Out(b, h);
      task.out_stride = at.heads * at.head;
      task.lse = ctx.has_output(1) ? ctx.out<T>(1) + at.Lse(b, h) : nullptr;
      task.sequence = at.sequence;
      task.length = Length(ctx, 2, at, b);
      task.head = at.head;
      task.causal = ctx.attributes.GetBool("causal");
      task.positions = Positions(ctx, 3, at, b);
      task.window = AttentionWindow(ctx.attributes);
      task.divisor = at.divisor;
      task.softcap = at.softcap;
      task.query_begin = begin % blocks * cpu::kAttentionQueries;
      const int64_t end = std::min(at.sequence, task.query_begin + cpu::kAttentionQueries);
      task.query_end = std::clamp(task.length, task.query_begin, end);
      ZeroRows(task.out, task.out_stride, at.head, task.query_end, end);
      if (task.lse != nullptr) ZeroRows(task.lse, 1, 1, task.query_end, end);
      if (task.query_begin == task.query_end) return;
      task.dropout = Dropout<T>(ctx, &stream, b, h);
      cpu::RunAttention(task, static_cast<char*>(ctx.workspace) + worker * scratch);
    });
  });
  StoreLargest(ctx);
}

void Backward(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const Layout at(ctx.in_shape(0), ctx.attributes);
    CheckLengths(ctx, 5, at);
    CheckPositions(ctx, 6, at);
    const PhiloxStream stream = Stream(ctx, 4);
    const int64_t scratch = cpu::AttentionBackwardScratch(at.sequence, at.head, sizeof(T));
    ctx.pool.ParallelForWorker(at.batch * at.kv_heads, 1, [&](int64_t begin, int64_t, int worker) {
      const int64_t b = begin / at.kv_heads;
      const int64_t g = begin % at.kv_heads;
      const int64_t h = g * at.group;
      cpu::AttentionBackward<S> task;
      task.q = ctx.in<S>(0) + at.Query(b, h);
      task.k = ctx.in<S>(0) + at.Key(b, g);
      task.v = ctx.in<S>(0) + at.Value(b, g);
      task.stride = at.stride;
      task.out = ctx.in<S>(1) + at.Out(b, h);
      task.dout = ctx.in<S>(3) + at.Out(b, h);
      task.out_stride = at.heads * at.head;
      task.lse = ctx.in<T>(2) + at.Lse(b, h);
      task.dq = ctx.out<S>(0) + at.Query(b, h);
      task.dk = ctx.out<S>(0) + at.Key(b, g);
      task.dv = ctx.out<S>(0) + at.Value(b, g);
      task.heads = at.group;
      task.sequence = at.sequence;
      task.length = Length(ctx, 5, at, b);
      task.head = at.head;
      task.causal = ctx.attributes.GetBool("causal");
      task.positions = Positions(ctx, 6, at, b);
      task.window = AttentionWindow(ctx.attributes);
      task.divisor = at.divisor;
      task.softcap = at.softcap;
      task.dropout = Dropout<T>(ctx, &stream, b, h);
      ZeroRows(task.dq, at.stride, at.group * at.head, task.length, at.sequence);
      ZeroRows(task.dk, at.stride, at.head, task.length, at.sequence);
      ZeroRows(task.dv, at.stride, at.head, task.length, at.sequence);
      cpu::RunAttention(task, static_cast<char*>(ctx.workspace) + worker * scratch);
    });
  });
  StoreLargest(ctx);
}

int64_t ForwardWorkspace(const OpCall& call, int threads) {
  const Layout at(call.input(0).shape, call.attributes);
  return threads * cpu::AttentionForwardScratch(
                       at.head, graph::ByteSize(graph::ComputeType(call.input(0).dtype)));
}

int64_t BackwardWorkspace(const OpCall& call, int threads) {
  const Layout at(call.input(0).shape, call.attributes);
  return threads *
         cpu::AttentionBackwardScratch(at.sequence, at.head,
                                       graph::ByteSize(graph::ComputeType(call.input(0).dtype)));
}

const CpuKernelRegistration kForward({"attention", &Forward, &ForwardWorkspace});
const CpuKernelRegistration kBackward({"attention_backward", &Backward, &BackwardWorkspace});

}  // namespace
}  // namespace plimsoll::ops
