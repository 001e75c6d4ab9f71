// Splits a product into blocks that fit the caches, packs them into the workspace and hands tiles
// to the threads. The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008), with packed blocks shared by all threads.
//
//   for each block of columns, for each block of k, for each block of rows:
//     pack (parallel):      A block, and the B block if it is new, into the workspace
//     multiply (parallel):  tiles of the C block; a tile's B part stays in a thread's L2 cache,
//                           its current A panel in L1
//
// A 16-bit C must not be rounded between blocks of k. So for 16-bit results the loop over blocks of
// k is innermost, and the C block is summed in float32 in the workspace. The thread that has just
// finished a tile rounds it, from its cache. B is packed again for each block of rows, which costs
// little compared with the products of 1512 rows.
//
// Block sizes are constants, and k is divided in the same way for both instruction sets: the bits
// depend on neither.
#include "ops/cpu/packed_gemm.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "ops/cpu/packed_gemm_kernels.h"
#include "ops/simd.h"

namespace plimsoll::cpu {
namespace {

using internal::Epilogue;
using internal::KernelSet;
using internal::PanelSplit;

// Upper bounds of a block, for 4-byte values. kMaxK values of one A panel (14 rows) take 21 KiB of
// L1; kMaxK × kTileColumns of B take 384 KiB of L2. The complete blocks live in L3. They are large
// because every block of rows, or of columns, repacks the other operand.
constexpr int64_t kMaxK = 384;
constexpr int64_t kMaxRows = 1512;
constexpr int64_t kMaxColumns = 3072;
// The bound of columns if the block of C is summed in the workspace: 9 MiB.
constexpr int64_t kMaxSummedColumns = 1536;
// A tile is the work that a thread takes at a time.
constexpr int64_t kTileRows = 84;
constexpr int64_t kTileColumns = 256;
// Panels and strips packed at a time, in rows and columns.
constexpr int64_t kPackRows = 84;
constexpr int64_t kPackColumns = 128;
// Below this many multiply-adds, waking threads costs more than they save.
constexpr int64_t kSerialWork = 64 * 64 * 32;

constexpr int64_t kAlignment = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t multiple) { return CeilDiv(a, multiple) * multiple; }

// Divides `total` into as few blocks of at most `most` as possible, of nearly equal size.
int64_t BlockSize(int64_t total, int64_t most, int64_t multiple) {
  if (total <= 0) return 0;
  return std::min(total, RoundUp(CeilDiv(total, CeilDiv(total, most)), multiple));
}

template <typename C>
using ComputeOf = typename GemmArgs<C>::Compute;

// Whether the block of C is summed in the workspace.
template <typename C>
inline constexpr bool kSummed = !std::is_same_v<C, ComputeOf<C>>;

template <typename C>
int64_t MostColumns() {
  if constexpr (kSummed<C>) return kMaxSummedColumns;
  return kMaxColumns * int64_t{sizeof(float)} / int64_t{sizeof(C)};
}

// The sizes of blocks. The division of k must depend only on k, because it determines the bits.
struct Blocking {
  Blocking(int64_t m, int64_t n, int64_t k, int64_t most_columns)
      : rows(BlockSize(m, kMaxRows, 84)),
        columns(BlockSize(n, most_columns, 32)),
        k(BlockSize(k, kMaxK, 16)) {}
  int64_t rows;
  int64_t columns;
  int64_t k;
};

template <typename T>
int64_t PanelSize(const KernelSet<T>& kernels, int64_t kc) {
  return kernels.a_stride * RoundUp(kc, kernels.vec);
}

template <typename T>
int64_t PackedABytes(const KernelSet<T>& kernels, const Blocking& block) {
  return CeilDiv(block.rows, kernels.mr) * PanelSize(kernels, block.k) * int64_t{sizeof(T)};
}

template <typename T>
int64_t PackedBBytes(const KernelSet<T>& kernels, const Blocking& block) {
  return RoundUp(block.columns, kernels.nr) * block.k * int64_t{sizeof(T)};
}

// The row stride of the summed C. The extra cache line keeps rows whose length is a power of two
// from mapping to the same cache sets.
int64_t SumStride(const Blocking& block) { return RoundUp(block.columns, 16) + 16; }

template <typename T>
const KernelSet<T>& ActiveKernels() {
  return ActiveGemmKernel() == GemmKernel::kAvx512 ? internal::Avx512Kernels<T>()
                                                   : internal::Avx2Kernels<T>();
}

template <typename S>
const internal::Packing<S>& ActivePacking() {
  return ActiveGemmKernel() == GemmKernel::kAvx512 ? internal::Avx512Packing<S>()
                                                   : internal::Avx2Packing<S>();
}

// Two ways to run a loop over items: on all threads, or on the calling thread.
struct OnPool {
  template <typename Body>
  void operator()(int64_t n, const Body& body) const {
    pool.ParallelFor(n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  }
  ThreadPool& pool;
};

struct OnThisThread {
  template <typename Body>
  void operator()(int64_t n, const Body& body) const {
    for (int64_t i = 0; i < n; ++i) body(i);
  }
};

// Convert 16-bit values to float and back, rounded to nearest even.
template <typename C>
void Widen(const C* from, int64_t n, float* to) {
  ops::ForVectors<float>(0, n, [&](int64_t i, auto count) {
    ops::Store<float>(to + i, ops::Load<float>(from + i, count), count);
  });
}
template <typename C>
void Round(const float* from, int64_t n, C* to) {
  ops::ForVectors<float>(0, n, [&](int64_t i, auto count) {
    ops::Store<float>(to + i, ops::Load<float>(from + i, count), count);
  });
}

// Computes the case k = 0: C = beta · C + bias.
template <typename A, typename B, typename C>
void ScaleOnly(const GemmArgs<A, B, C>& args) {
  using T = ComputeOf<C>;
  for (int64_t i = 0; i < args.m; ++i) {
    C* const row = args.c + i * args.ldc;
    for (int64_t j = 0; j < args.n; ++j) {
      T start = 0;
      if constexpr (kSummed<C>) {
        if (args.bias != nullptr) start = ToFloat(args.bias[j]);
        if (args.beta != T(0)) start += args.beta * ToFloat(row[j]);
        Round(&start, 1, row + j);
      } else {
        if (args.bias != nullptr) start = args.bias[j];
        row[j] = args.beta == T(0) ? start : args.beta * row[j] + start;
      }
    }
  }
}

// A range of rows and columns of C, or of its current block.
struct Range {
  int64_t row, rows, column, columns;
};

template <typename A, typename B, typename C>
class Product {
 public:
  using T = ComputeOf<C>;

  Product(const GemmArgs<A, B, C>& args, void* workspace)
      : args_(args),
        kernels_(ActiveKernels<T>()),
        pack_a_(ActivePacking<A>().pack_a),
        pack_b_(ActivePacking<B>().pack_b),
        block_(args.m, args.n, args.k, MostColumns<C>()),
        packed_a_(static_cast<T*>(workspace)),
        packed_b_(packed_a_ + PackedABytes(kernels_, block_) / int64_t{sizeof(T)}) {
    if constexpr (kSummed<C>) {
      bias_ = packed_b_ + PackedBBytes(kernels_, block_) / int64_t{sizeof(T)};
      sums_ = bias_ + RoundUp(block_.columns, 16);
    }
  }

  static int64_t WorkspaceBytes(int64_t m, int64_t n, int64_t k) {
    const Blocking block(m, n, k, MostColumns<C>());
    const KernelSet<T>& narrow = internal::Avx2Kernels<T>();
    const KernelSet<T>& wide = internal::Avx512Kernels<T>();
    int64_t bytes = std::max(PackedABytes(narrow, block), PackedABytes(wide, block)) +
                    std::max(PackedBBytes(narrow, block), PackedBBytes(wide, block));
    if constexpr (kSummed<C>) {
      const int64_t bias = RoundUp(block.columns, 16);
      bytes += (bias + block.rows * SumStride(block)) * int64_t{sizeof(T)};
    }
    return bytes;
  }

  // ForEach is one of the two ways to run a loop.
  template <typename ForEach>
  void Run(const ForEach& for_each) const {
    for (int64_t j0 = 0; j0 < args_.n; j0 += block_.columns) {
      if constexpr (kSummed<C>) {
        const int64_t columns = std::min(block_.columns, args_.n - j0);
        if (args_.bias != nullptr) Widen(args_.bias + j0, columns, bias_);
        for (int64_t i0 = 0; i0 < args_.m; i0 += block_.rows) {
          for (int64_t p0 = 0; p0 < args_.k; p0 += block_.k) {
            const bool new_b = i0 == 0 || block_.k < args_.k;
            MultiplyBlock(for_each, i0, j0, p0, new_b);
          }
        }
      } else {
        for (int64_t p0 = 0; p0 < args_.k; p0 += block_.k) {
          for (int64_t i0 = 0; i0 < args_.m; i0 += block_.rows) {
            MultiplyBlock(for_each, i0, j0, p0, /*new_b=*/i0 == 0);
          }
        }
      }
    }
  }

 private:
  // Packs the block of A at (i0, p0) and, if `new_b`, that of B at (p0, j0), and adds their product
  // to C at (i0, j0).
  template <typename ForEach>
  void MultiplyBlock(const ForEach& for_each, int64_t i0, int64_t j0, int64_t p0,
                     bool new_b) const {
    const int64_t kc = std::min(block_.k, args_.k - p0);
    const int64_t columns = std::min(block_.columns, args_.n - j0);
    const int64_t strips = CeilDiv(columns, kernels_.nr);
    const PanelSplit split(std::min(block_.rows, args_.m - i0), kernels_.mr);
    const int64_t panel_size = PanelSize(kernels_, kc);
    const A* const a = args_.a + (args_.trans_a ? p0 * args_.lda + i0 : i0 * args_.lda + p0);
    const B* const b = args_.b + (args_.trans_b ? j0 * args_.ldb + p0 : p0 * args_.ldb + j0);

    const int64_t pack_panels = kPackRows / kernels_.mr;
    const int64_t pack_strips = kPackColumns / kernels_.nr;
    const int64_t b_items = new_b ? CeilDiv(strips, pack_strips) : 0;
    const int64_t a_items = CeilDiv(split.count, pack_panels);
    for_each(b_items + a_items, [&](int64_t item) {
      if (item < b_items) {
        const int64_t begin = item * pack_strips;
        pack_b_(args_.trans_b, b, args_.ldb, columns, begin, std::min(strips, begin + pack_strips),
                kc, packed_b_);
      } else {
        const int64_t begin = (item - b_items) * pack_panels;
        pack_a_(args_.trans_a, a, args_.lda, split, begin,
                std::min(split.count, begin + pack_panels), kc, packed_a_, panel_size);
      }
    });

    // Neighbouring items share their columns, so a thread's part of B stays in its cache.
    const int64_t tile_panels = kTileRows / kernels_.mr;
    const int64_t tile_strips = kTileColumns / kernels_.nr;
    const int64_t row_tiles = CeilDiv(split.count, tile_panels);
    const int64_t column_tiles = CeilDiv(strips, tile_strips);
    C* const c = args_.c + i0 * args_.ldc + j0;
    const bool first = p0 == 0;
    const bool last = p0 + kc == args_.k;
    for_each(row_tiles * column_tiles, [&](int64_t item) {
      const int64_t panel = item % row_tiles * tile_panels;
      const int64_t panel_end = std::min(split.count, panel + tile_panels);
      const int64_t strip = item / row_tiles * tile_strips;
      const int64_t strip_end = std::min(strips, strip + tile_strips);
      const auto multiply = [&](T* to, int64_t stride, const T* bias) {
        kernels_.multiply(args_.trans_a, packed_a_, panel_size, split, panel, panel_end, packed_b_,
                          columns, strip, strip_end, kc, to, stride,
                          Epilogue<T>{args_.alpha, args_.beta, bias, first});
      };
      if constexpr (kSummed<C>) {
        const int64_t column = strip * kernels_.nr;
        const Range tile = {split.Begin(panel), split.Begin(panel_end) - split.Begin(panel), column,
                            std::min(columns, strip_end * kernels_.nr) - column};
        if (first && args_.beta != T(0)) WidenTile(c, tile);
        multiply(sums_, SumStride(block_), args_.bias == nullptr ? nullptr : bias_);
        if (last) RoundTile(tile, c);
      } else {
        multiply(c, args_.ldc, args_.bias == nullptr ? nullptr : args_.bias + j0);
      }
    });
  }

  // Copies a tile of the block of C at `c` to the sums (WidenTile), or back.
  void WidenTile(const C* c, const Range& tile) const {
    for (int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
      Widen(c + i * args_.ldc + tile.column, tile.columns,
            sums_ + i * SumStride(block_) + tile.column);
    }
  }
  void RoundTile(const Range& tile, C* c) const {
    for (int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
      Round(sums_ + i * SumStride(block_) + tile.column, tile.columns,
            c + i * args_.ldc + tile.column);
    }
  }

  const GemmArgs<A, B, C>& args_;
  const KernelSet<T>& kernels_;
  decltype(internal::Packing<A>::pack_a) pack_a_;
  decltype(internal::Packing<B>::pack_b) pack_b_;
  Blocking block_;
  T* packed_a_;
  T* packed_b_;
  T* bias_ = nullptr;  // bias of the current columns; this member and the next only if kSummed
  T* sums_ = nullptr;  // sums of the current block of C
};

// Checks the arguments. Returns false when nothing is left to do.
template <typename A, typename B, typename C>
bool Prepare(const GemmArgs<A, B, C>& args, const void* workspace, int64_t workspace_bytes) {
  const auto refuse = [](const char* what) { throw InternalError(std::string("Gemm: ") + what); };
  if (args.m < 0 || args.n < 0 || args.k < 0) refuse("a dimension is negative");
  if (args.m == 0 || args.n == 0) return false;
  if (args.ldc < args.n) refuse("ldc is smaller than n");
  if (args.k == 0) {
    ScaleOnly(args);
    return false;
  }
  if (args.lda < (args.trans_a ? args.m : args.k)) refuse("lda is smaller than a row of A");
  if (args.ldb < (args.trans_b ? args.k : args.n)) refuse("ldb is smaller than a row of B");
  if (reinterpret_cast<uintptr_t>(workspace) % kAlignment != 0) {
    refuse("the workspace is not aligned to 64 bytes");
  }
  if (workspace_bytes < GemmWorkspaceBytes<C>(args.m, args.n, args.k)) {
    refuse("the workspace is smaller than GemmWorkspaceBytes");
  }
  return true;
}

}  // namespace

template <typename C>
int64_t GemmWorkspaceBytes(int64_t m, int64_t n, int64_t k) {
  return Product<C, C, C>::WorkspaceBytes(m, n, k);
}

template <typename A, typename B, typename C>
void Gemm(ThreadPool& pool, const GemmArgs<A, B, C>& args, void* workspace,
          int64_t workspace_bytes) {
  if (!Prepare(args, workspace, workspace_bytes)) return;
  const Product<A, B, C> product(args, workspace);
  if (pool.size() == 1 || args.m * args.n * args.k <= kSerialWork) {
    product.Run(OnThisThread{});
  } else {
    product.Run(OnPool{pool});
  }
}

template <typename A, typename B, typename C>
void GemmSerial(const GemmArgs<A, B, C>& args, void* workspace, int64_t workspace_bytes) {
  if (Prepare(args, workspace, workspace_bytes)) {
    Product<A, B, C>(args, workspace).Run(OnThisThread{});
  }
}

template int64_t GemmWorkspaceBytes<float>(int64_t, int64_t, int64_t);
template int64_t GemmWorkspaceBytes<double>(int64_t, int64_t, int64_t);
template int64_t GemmWorkspaceBytes<BFloat16>(int64_t, int64_t, int64_t);
template int64_t GemmWorkspaceBytes<Float16>(int64_t, int64_t, int64_t);

template void Gemm(ThreadPool&, const GemmArgs<float>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<double>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<BFloat16>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<BFloat16, BFloat16, float>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<BFloat16, float, float>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<float, BFloat16, float>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<Float16>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<Float16, Float16, float>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<Float16, float, float>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<float, Float16, float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<double>&, void*, int64_t);
template void GemmSerial(const GemmArgs<BFloat16>&, void*, int64_t);
template void GemmSerial(const GemmArgs<BFloat16, BFloat16, float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<BFloat16, float, float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<float, BFloat16, float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<Float16>&, void*, int64_t);
template void GemmSerial(const GemmArgs<Float16, Float16, float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<Float16, float, float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<float, Float16, float>&, void*, int64_t);

}  // namespace plimsoll::cpu
