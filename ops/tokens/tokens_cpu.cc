// slice_tokens, place_tokens  a row's tokens are contiguous: one copy for each row. Bytes: the
// copied
//                             tokens twice, zeros once.
// prepend_token               threads share the tokens of y. Bytes: x and y once, position from
//                             cache.
#include <cstring>

#include "ops/kernel.h"
#include "ops/simd.h"

namespace plimsoll::ops {
namespace {

// Sizes in bytes.
struct Part {
  Part(const CpuContext& ctx, const graph::TensorType& whole, const graph::TensorType& part)
      : rows(whole.shape.dim(0)),
        token(whole.shape.dim(2) * graph::ByteSize(whole.dtype)),
        begin(ctx.attributes.GetInt("first") * token),
        size(part.shape.dim(1) * token),
        row(whole.shape.dim(1) * token) {}

  int64_t rows, token, begin, size, row;
};

void Slice(const CpuContext& ctx) {
  const Part part(ctx, ctx.inputs[0].type, ctx.outputs[0].type);
  ctx.pool.ParallelFor(part.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      std::memcpy(ctx.out<char>(0) + b * part.size, ctx.in<char>(0) + b * part.row + part.begin,
                  static_cast<size_t>(part.size));
    }
  });
}

void Place(const CpuContext& ctx) {
  const Part part(ctx, ctx.outputs[0].type, ctx.inputs[0].type);
  ctx.pool.ParallelFor(part.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      char* const row = ctx.out<char>(0) + b * part.row;
      const int64_t behind = part.begin + part.size;
      std::memset(row, 0, static_cast<size_t>(part.begin));
      std::memcpy(row + part.begin, ctx.in<char>(0) + b * part.size,
                  static_cast<size_t>(part.size));
      std::memset(row + behind, 0, static_cast<size_t>(part.row - behind));
    }
  });
}

void Prepend(const CpuContext& ctx) {
  const graph::Shape& y = ctx.out_shape(0);
  const int64_t tokens = y.dim(1), width = y.dim(2);
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    using T = Compute<S>;
    const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, width));
    ctx.pool.ParallelFor(y.dim(0) * tokens, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t b = i / tokens, t = i % tokens;
        const S* const from =
            t == 0 ? ctx.in<S>(1) : ctx.in<S>(0) + (b * (tokens - 1) + t - 1) * width;
        const S* const position = ctx.in<S>(2) + t * width;
        ForVectors<T>(0, width, [&](int64_t d, auto count) {
          Store<T>(ctx.out<S>(0) + i * width + d,
                   Load<T>(from + d, count) + Load<T>(position + d, count), count);
        });
      }
    });
  });
}

const CpuKernelRegistration kSliceTokens({"slice_tokens", &Slice});
const CpuKernelRegistration kPlaceTokens({"place_tokens", &Place});
const CpuKernelRegistration kPrependToken({"prepend_token", &Prepend});

}  // namespace
}  // namespace plimsoll::ops
