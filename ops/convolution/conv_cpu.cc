// conv     y = columns(x) · weightᵀ + bias
// conv_dx  dx = columns(dy) · weight' + acc,  one product for each phase of the stride
// conv_dw  dweight = dyᵀ · columns(x) + acc,  dbias = column sums of dy + acc
//
// Row p of columns(x) holds the patch of x that output pixel p sees: [taps, I/G], zeros outside x.
// Channels are last, so a row is `taps` copies of I/G elements. Columns are made for a block of
// pixels at a time, on all threads, and multiplied by one GEMM on all threads, which sums 16-bit
// types in float32. A pointwise convolution is one product with x itself.
//
// A transposed convolution is dx of x, plus bias.
//
// dx is gathered. Input pixels p, p + stride, … (a phase) use the same taps of the kernel, each tap
// in one output pixel; pixels of other phases use other taps. So dx costs the same products as y.
// weight' holds the weights of the phase's taps as [taps, O/G, I/G].
//
// Bytes: every argument once, columns written and read once, GEMM's packing.
#include <algorithm>
#include <array>
#include <numeric>

#include "ops/convolution/conv_geometry.h"
#include "ops/cpu/packed_gemm.h"
#include "ops/definition.h"
#include "ops/kernel.h"
#include "ops/linear/gemm_workspace.h"
#include "ops/reductions/cpu_column_sums.h"

namespace plimsoll::ops {
namespace {

using graph::OpCall;
using graph::Shape;

ConvGeometry Geometry(const CpuContext& ctx, const Shape& x, const Shape& weight) {
  return GeometryOf({ctx.op, {}, {}, ctx.attributes}, x, weight);
}

// The number of elements of columns that are made at a time. With this number, the packed panels of
// their product fit a core's cache. The block does not depend on the number of threads, because the
// order of dweight's sums must not.
constexpr int64_t kColumns = 1 << 19;
constexpr int64_t kGrain = 32;  // rows that a thread fills at a time

int64_t BlockRows(int64_t rows, int64_t width) {
  return std::clamp<int64_t>(kColumns / std::max<int64_t>(width, 1), 1, std::max<int64_t>(rows, 1));
}

// The largest gemm_bytes(rows of the block) of all blocks. The last block may need more than a full
// one, although it has fewer rows, because GEMM cuts it differently.
template <typename GemmBytesOf>
int64_t MostOfBlocks(int64_t rows, int64_t block, const GemmBytesOf& gemm_bytes) {
  const int64_t last = rows % block;
  return std::max(gemm_bytes(block), last > 0 ? gemm_bytes(last) : int64_t{0});
}

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// A call's scratch memory, handed out piece by piece.
class Scratch {
 public:
  explicit Scratch(const CpuContext& ctx)
      : at_(static_cast<std::byte*>(ctx.workspace)), left_(ctx.workspace_bytes) {}
  template <typename T>
  T* Take(int64_t elements) {
    T* const taken = reinterpret_cast<T*>(at_);
    const int64_t bytes = Aligned(elements * static_cast<int64_t>(sizeof(T)));
    at_ += bytes;
    left_ -= bytes;
    return taken;
  }
  void* rest() const { return at_; }
  int64_t rest_bytes() const { return left_; }

 private:
  std::byte* at_;
  int64_t left_;
};

// The coordinates of the element `index` of an array [batch, extent].
struct Pixel {
  int64_t image;
  Spatial at;
};
Pixel PixelOf(int64_t index, const Spatial& extent) {
  Pixel pixel;
  for (int i = 2; i >= 0; --i) {
    pixel.at[i] = index % extent[i];
    index /= extent[i];
  }
  pixel.image = index;
  return pixel;
}

// The pixels of a source array that pixel p of another array reads ("sees") along one dimension:
// `count` pixels, `step` apart, from p · scale + first on.
struct Sight {
  int64_t scale = 1, first = 0, step = 1, count = 1;
};

// The pixels of an array [batch, extent], and what they see of the source along each dimension.
struct View {
  Spatial extent;
  std::array<Sight, 3> along;
  int64_t seen() const { return along[0].count * along[1].count * along[2].count; }
};

template <typename S>
struct Source {
  const S* data;     // the first channel of the group
  Spatial extent;    // the size of an image
  int64_t channels;  // channels of a pixel
  int64_t taken;     // channels of the group
};

// Writes `taken` channels of each pixel that `pixel` sees, and zeros for pixels outside the source.
template <typename S>
void FillRow(const View& view, const Source<S>& from, const Pixel& pixel, S* to) {
  const auto seen = [&](int i, int64_t k) {
    const Sight& sight = view.along[i];
    const int64_t at = pixel.at[i] * sight.scale + sight.first + k * sight.step;
    return at >= 0 && at < from.extent[i] ? at : -1;
  };
  for (int64_t q = 0; q < view.along[0].count; ++q) {
    const int64_t d = seen(0, q);
    for (int64_t r = 0; r < view.along[1].count; ++r) {
      const int64_t h = seen(1, r);
      for (int64_t s = 0; s < view.along[2].count; ++s, to += from.taken) {
        const int64_t w = seen(2, s);
        if (d < 0 || h < 0 || w < 0) {
          std::fill_n(to, from.taken, S(0.0f));
          continue;
        }
        const int64_t at =
            ((pixel.image * from.extent[0] + d) * from.extent[1] + h) * from.extent[2] + w;
        std::copy_n(from.data + at * from.channels, from.taken, to);
      }
    }
  }
}

// Fills the rows [begin, end) of columns.
template <typename S>
void FillColumns(const View& view, const Source<S>& from, int64_t begin, int64_t end, S* columns,
                 ThreadPool& pool) {
  const int64_t width = view.seen() * from.taken;
  pool.ParallelFor(end - begin, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      FillRow(view, from, PixelOf(begin + row, view.extent), columns + row * width);
    }
  });
}

// How output pixels see x.
View PatchView(const ConvGeometry& g) {
  View view{g.out, {}};
  for (int i = 0; i < 3; ++i) {
    view.along[i] = {g.stride[i], -g.pad[i], g.dilation[i], g.kernel[i]};
  }
  return view;
}

// A phase: the input pixels first, first + stride, …, and how they see y. They use the taps of the
// kernel from `tap` on, every `tap_step`.
struct Phase {
  Spatial first, tap, tap_step;
  View view;
};

Phase PhaseAt(const ConvGeometry& g, const Spatial& first) {
  Phase phase{first, {}, {}, {}};
  for (int i = 0; i < 3; ++i) {
    const int64_t stride = g.stride[i], dilation = g.dilation[i];
    phase.view.extent[i] = std::max<int64_t>(0, (g.in[i] - first[i] + stride - 1) / stride);
    phase.tap_step[i] = stride / std::gcd(stride, dilation);
    // Pixel first + j·stride uses a tap in output pixel j + distance / stride.
    const auto distance = [&](int64_t tap) { return first[i] + g.pad[i] - tap * dilation; };
    int64_t& tap = phase.tap[i];
    while (tap < g.kernel[i] && distance(tap) % stride != 0) ++tap;
    const int64_t left = g.kernel[i] - tap;
    phase.view.along[i] = {.scale = 1,
                           .first = distance(tap) / stride,
                           .step = -(phase.tap_step[i] * dilation / stride),
                           .count = (left + phase.tap_step[i] - 1) / phase.tap_step[i]};
  }
  return phase;
}

// Calls visit(phase) for all phases that have pixels.
template <typename Visit>
void ForEachPhase(const ConvGeometry& g, const Visit& visit) {
  for (int64_t number = 0; number < Volume(g.stride); ++number) {
    const Phase phase = PhaseAt(g, PixelOf(number, g.stride).at);
    if (Volume(phase.view.extent) > 0) visit(phase);
  }
}

template <typename S>
void RunConv(const CpuContext& ctx, const ConvGeometry& g) {
  const int64_t rows = g.rows_out(), patch = g.patch();
  const int64_t block = g.pointwise() ? rows : BlockRows(rows, patch);
  Scratch scratch(ctx);
  S* const columns = g.pointwise() ? nullptr : scratch.Take<S>(block * patch);
  const View view = PatchView(g);
  for (int64_t group = 0; group < g.groups; ++group) {
    const S* const x = ctx.in<S>(0) + group * g.group_in();
    for (int64_t begin = 0; begin < rows; begin += block) {
      const int64_t end = std::min(rows, begin + block);
      if (columns != nullptr) {
        FillColumns<S>(view, {x, g.in, g.in_channels, g.group_in()}, begin, end, columns, ctx.pool);
      }
      cpu::GemmArgs<S> args;
      args.trans_b = true;
      args.m = end - begin;
      args.n = g.group_out();
      args.k = patch;
      args.a = columns != nullptr ? columns : x;
      args.lda = columns != nullptr ? patch : g.in_channels;
      args.b = ctx.in<S>(1) + group * g.group_out() * patch;
      args.ldb = patch;
      args.c = ctx.out<S>(0) + begin * g.out_channels + group * g.group_out();
      args.ldc = g.out_channels;
      args.bias = ctx.has_input(2) ? ctx.in<S>(2) + group * g.group_out() : nullptr;
      cpu::Gemm(ctx.pool, args, scratch.rest(), scratch.rest_bytes());
    }
  }
}

void Conv(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    RunConv<S>(ctx, Geometry(ctx, ctx.in_shape(0), ctx.in_shape(1)));
  });
}

int64_t ConvWorkspace(const OpCall& call, int /*threads*/) {
  const ConvGeometry g = GeometryOf(call);
  const graph::DType dtype = call.input(0).dtype;
  const int64_t rows = g.rows_out(), patch = g.patch();
  const int64_t block = g.pointwise() ? rows : BlockRows(rows, patch);
  return (g.pointwise() ? 0 : Aligned(block * patch * graph::ByteSize(dtype))) +
         MostOfBlocks(rows, block, [&](int64_t of_block) {
           return GemmBytes(dtype, of_block, g.group_out(), patch);
         });
}

// Copies the weights of a group for the taps that a phase uses, as [taps, O/G, I/G].
template <typename S>
void CopyWeights(const ConvGeometry& g, const Phase& phase, const S* weight, S* to,
                 ThreadPool& pool) {
  const std::array<Sight, 3>& along = phase.view.along;
  const int64_t in = g.group_in(), out = g.group_out();
  pool.ParallelFor(phase.view.seen(), 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      const Spatial k = PixelOf(n, {along[0].count, along[1].count, along[2].count}).at;
      int64_t tap = 0;
      for (int i = 0; i < 3; ++i) {
        tap = tap * g.kernel[i] + phase.tap[i] + k[i] * phase.tap_step[i];
      }
      for (int64_t o = 0; o < out; ++o) {
        std::copy_n(weight + (o * g.taps() + tap) * in, in, to + (n * out + o) * in);
      }
    }
  });
}

// Calls visit(at, row) for a phase's pixels [begin, end): `at` is the pixel's index in dx, `row`
// its index in the range.
template <typename Visit>
void ForEachPixel(const ConvGeometry& g, const Phase& phase, int64_t begin, int64_t end,
                  ThreadPool& pool, const Visit& visit) {
  pool.ParallelFor(end - begin, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const Pixel pixel = PixelOf(begin + row, phase.view.extent);
      int64_t at = pixel.image;
      for (int i = 0; i < 3; ++i) at = at * g.in[i] + phase.first[i] + pixel.at[i] * g.stride[i];
      visit(at, row);
    }
  });
}

// The term that is added to a product: nothing, acc, or a bias for each channel of dx.
template <typename S>
struct Added {
  const S *acc = nullptr, *bias = nullptr;
};

template <typename S>
void RunConvDx(const CpuContext& ctx, const ConvGeometry& g, const Added<S>& added) {
  const int64_t in = g.group_in(), out = g.group_out();
  for (int64_t group = 0; group < g.groups; ++group) {
    const S* const weight = ctx.in<S>(1) + group * out * g.patch();
    const S* const dy = ctx.in<S>(0) + group * out;
    const S* const acc = added.acc != nullptr ? added.acc + group * in : nullptr;
    S* const dx = ctx.out<S>(0) + group * in;
    ForEachPhase(g, [&](const Phase& phase) {
      const int64_t rows = g.batch * Volume(phase.view.extent);
      const int64_t width = phase.view.seen() * out;
      const int64_t block = BlockRows(rows, width);
      Scratch scratch(ctx);
      S* const weights = scratch.Take<S>(width * in);
      S* const columns = scratch.Take<S>(block * width);
      S* const result = scratch.Take<S>(block * in);
      CopyWeights(g, phase, weight, weights, ctx.pool);
      for (int64_t begin = 0; begin < rows; begin += block) {
        const int64_t end = std::min(rows, begin + block);
        FillColumns<S>(phase.view, {dy, g.out, g.out_channels, out}, begin, end, columns, ctx.pool);
        if (acc != nullptr) {
          ForEachPixel(g, phase, begin, end, ctx.pool, [&](int64_t at, int64_t row) {
            std::copy_n(acc + at * g.in_channels, in, result + row * in);
          });
        }
        cpu::GemmArgs<S> args;
        args.m = end - begin;
        args.n = in;
        args.k = width;
        args.a = columns;
        args.lda = width;
        args.b = weights;
        args.ldb = in;
        args.c = result;
        args.ldc = in;
        args.beta = acc != nullptr;
        args.bias = added.bias != nullptr ? added.bias + group * in : nullptr;
        cpu::Gemm(ctx.pool, args, scratch.rest(), scratch.rest_bytes());
        ForEachPixel(g, phase, begin, end, ctx.pool, [&](int64_t at, int64_t row) {
          std::copy_n(result + row * in, in, dx + at * g.in_channels);
        });
      }
    });
  }
}

void ConvDx(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    RunConvDx<S>(ctx, Geometry(ctx, ctx.out_shape(0), ctx.in_shape(1)), {.acc = ctx.in<S>(2)});
  });
}

void ConvTranspose(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    RunConvDx<S>(ctx, Geometry(ctx, ctx.out_shape(0), ctx.in_shape(1)), {.bias = ctx.in<S>(2)});
  });
}

int64_t ConvDxWorkspace(const OpCall& call, int /*threads*/) {
  const ConvGeometry g = GeometryOf(call);
  const graph::DType dtype = call.input(0).dtype;
  int64_t most = 0;
  ForEachPhase(g, [&](const Phase& phase) {
    const int64_t rows = g.batch * Volume(phase.view.extent);
    const int64_t width = phase.view.seen() * g.group_out();
    const int64_t block = BlockRows(rows, width);
    int64_t bytes = MostOfBlocks(rows, block, [&](int64_t of_block) {
      return GemmBytes(dtype, of_block, g.group_in(), width);
    });
    for (const int64_t elements : {width * g.group_in(), block * width, block * g.group_in()}) {
      bytes += Aligned(elements * graph::ByteSize(dtype));
    }
    most = std::max(most, bytes);
  });
  return most;
}

template <typename S>
void RunConvDw(const CpuContext& ctx, const ConvGeometry& g) {
  using T = Compute<S>;
  const int64_t rows = g.rows_out(), patch = g.patch();
  const int64_t block = g.pointwise() ? rows : BlockRows(rows, patch);
  if (ctx.has_output(1)) {
    ColumnSums(ctx.in<S>(1), rows, g.out_channels, g.out_channels, ctx.in<T>(3), ctx.out<T>(1),
               ctx.pool);
  }
  if (!ctx.has_output(0)) return;
  const T* const acc = ctx.in<T>(2);
  T* const dweight = ctx.out<T>(0);
  if (acc != nullptr && acc != dweight) {
    ctx.pool.ParallelFor(ctx.out_shape(0).elements(), 1 << 16, [&](int64_t begin, int64_t end) {
      std::copy(acc + begin, acc + end, dweight + begin);
    });
  }
  Scratch scratch(ctx);
  S* const columns = g.pointwise() ? nullptr : scratch.Take<S>(block * patch);
  const View view = PatchView(g);
  for (int64_t group = 0; group < g.groups; ++group) {
    const S* const x = ctx.in<S>(0) + group * g.group_in();
    for (int64_t begin = 0; begin < rows; begin += block) {
      const int64_t end = std::min(rows, begin + block);
      if (columns != nullptr) {
        FillColumns<S>(view, {x, g.in, g.in_channels, g.group_in()}, begin, end, columns, ctx.pool);
      }
      cpu::GemmArgs<S, S, T> args;
      args.trans_a = true;
      args.m = g.group_out();
      args.n = patch;
      args.k = end - begin;
      args.a = ctx.in<S>(1) + begin * g.out_channels + group * g.group_out();
      args.lda = g.out_channels;
      args.b = columns != nullptr ? columns : x;
      args.ldb = columns != nullptr ? patch : g.in_channels;
      args.c = dweight + group * g.group_out() * patch;
      args.ldc = patch;
      args.beta = acc != nullptr || begin > 0;
      cpu::Gemm(ctx.pool, args, scratch.rest(), scratch.rest_bytes());
    }
  }
}

void ConvDw(const CpuContext& ctx) {
  DispatchStored(ctx.inputs[0].type.dtype, [&]<typename S>() {
    RunConvDw<S>(ctx, Geometry(ctx, ctx.in_shape(0), GetShape(ctx.attributes)));
  });
}

int64_t ConvDwWorkspace(const OpCall& call, int /*threads*/) {
  if (!call.has_output(0)) return 0;
  const ConvGeometry g = GeometryOf(call);
  const graph::DType dtype = call.input(0).dtype;
  const int64_t rows = g.rows_out(), patch = g.patch();
  const int64_t block = g.pointwise() ? rows : BlockRows(rows, patch);
  return (g.pointwise() ? 0 : Aligned(block * patch * graph::ByteSize(dtype))) +
         MostOfBlocks(rows, block, [&](int64_t of_block) {
           return GemmBytes(graph::ComputeType(dtype), g.group_out(), patch, of_block);
         });
}

const CpuKernelRegistration kConv({"conv", &Conv, &ConvWorkspace});
const CpuKernelRegistration kConvDx({"conv_dx", &ConvDx, &ConvDxWorkspace});
const CpuKernelRegistration kConvDw({"conv_dw", &ConvDw, &ConvDwWorkspace});
const CpuKernelRegistration kConvTranspose({"conv_transpose", &ConvTranspose, &ConvDxWorkspace});

}  // namespace
}  // namespace plimsoll::ops
