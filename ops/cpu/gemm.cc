// Splits a product into blocks that fit the caches, packs them into the workspace and hands tiles
// to the threads. The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008), with packed blocks shared by all threads.
//
//   for each block of columns, for each block of k, for each block of rows:
//     pack (parallel):      A block, and the B block if it is new, into the workspace
//     multiply (parallel):  tiles of the C block; a tile's B part stays in a thread's L2 cache,
//                           its current A panel in L1
//
// Block sizes are constants, and k is cut in the same way for both instruction sets: the bits
// depend on neither.
#include "ops/cpu/gemm.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ops/cpu/gemm_kernels.h"

namespace plimsoll::cpu {
namespace {

using internal::Epilogue;
using internal::KernelSet;
using internal::PanelSplit;

// Upper bounds of a block, for 4-byte values. kMaxK values of one A panel (14 rows) take 21 KiB of
// L1; kMaxK × kTileColumns of B take 384 KiB of L2; the whole blocks live in L3 and are large
// because every block of rows, or columns, repacks the other operand.
constexpr int64_t kMaxK = 384;
constexpr int64_t kMaxRows = 1512;
constexpr int64_t kMaxColumns = 3072;
// A tile is what one thread takes at a time.
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

// `total` in as few blocks of at most `most` as possible, all of about the same size.
int64_t BlockSize(int64_t total, int64_t most, int64_t multiple) {
  if (total <= 0) return 0;
  return std::min(total, RoundUp(CeilDiv(total, CeilDiv(total, most)), multiple));
}

struct Blocking {
  Blocking(int64_t m, int64_t n, int64_t k, size_t element_size)
      : rows(BlockSize(m, kMaxRows, 84)),
        columns(BlockSize(n, kMaxColumns * 4 / static_cast<int64_t>(element_size), 32)),
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

template <typename T>
int64_t WorkspaceBytes(const Blocking& block) {
  const KernelSet<T>& narrow = internal::Avx2Kernels<T>();
  const KernelSet<T>& wide = internal::Avx512Kernels<T>();
  return std::max(PackedABytes(narrow, block), PackedABytes(wide, block)) +
         std::max(PackedBBytes(narrow, block), PackedBBytes(wide, block));
}

GemmKernel ChooseKernel() {
  const bool wide = GemmKernelSupported(GemmKernel::kAvx512);
  const char* const text = std::getenv("PLIMSOLL_GEMM");
  const std::string_view wanted = text == nullptr ? "" : text;
  if (wanted.empty()) return wide ? GemmKernel::kAvx512 : GemmKernel::kAvx2;
  if (wanted == "avx2") return GemmKernel::kAvx2;
  if (wanted == "avx512" && wide) return GemmKernel::kAvx512;
  throw UserError("PLIMSOLL_GEMM=" + std::string(wanted) +
                  (wanted == "avx512" ? ": this processor has no AVX-512; " : ": unknown; ") +
                  "use avx2, " + (wide ? "avx512 " : "") + "or leave it unset");
}

std::atomic<GemmKernel>& KernelChoice() {
  static std::atomic<GemmKernel> choice{ChooseKernel()};
  return choice;
}

template <typename T>
const KernelSet<T>& ActiveKernels() {
  return ActiveGemmKernel() == GemmKernel::kAvx512 ? internal::Avx512Kernels<T>()
                                                   : internal::Avx2Kernels<T>();
}

// The two ways of running a loop over items.
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

// k = 0: C = beta · C + bias.
template <typename T>
void ScaleOnly(const GemmArgs<T>& args) {
  for (int64_t i = 0; i < args.m; ++i) {
    T* const row = args.c + i * args.ldc;
    for (int64_t j = 0; j < args.n; ++j) {
      const T start = args.bias == nullptr ? T(0) : args.bias[j];
      row[j] = args.beta == T(0) ? start : args.beta * row[j] + start;
    }
  }
}

template <typename T, typename ForEach>
void Product(const ForEach& for_each, const GemmArgs<T>& args, void* workspace) {
  const KernelSet<T>& kernels = ActiveKernels<T>();
  const Blocking block(args.m, args.n, args.k, sizeof(T));
  T* const packed_a = static_cast<T*>(workspace);
  T* const packed_b = packed_a + PackedABytes(kernels, block) / int64_t{sizeof(T)};

  for (int64_t j0 = 0; j0 < args.n; j0 += block.columns) {
    const int64_t columns = std::min(block.columns, args.n - j0);
    const int64_t strips = CeilDiv(columns, kernels.nr);
    for (int64_t p0 = 0; p0 < args.k; p0 += block.k) {
      const int64_t kc = std::min(block.k, args.k - p0);
      const int64_t panel_size = PanelSize(kernels, kc);
      const T* const b = args.b + (args.trans_b ? j0 * args.ldb + p0 : p0 * args.ldb + j0);
      const Epilogue<T> epilogue = {args.alpha, args.beta,
                                    args.bias == nullptr ? nullptr : args.bias + j0, p0 == 0};
      for (int64_t i0 = 0; i0 < args.m; i0 += block.rows) {
        const PanelSplit split(std::min(block.rows, args.m - i0), kernels.mr);
        const T* const a = args.a + (args.trans_a ? p0 * args.lda + i0 : i0 * args.lda + p0);

        const int64_t pack_panels = kPackRows / kernels.mr;
        const int64_t pack_strips = kPackColumns / kernels.nr;
        const int64_t b_items = i0 == 0 ? CeilDiv(strips, pack_strips) : 0;
        const int64_t a_items = CeilDiv(split.count, pack_panels);
        for_each(b_items + a_items, [&](int64_t item) {
          if (item < b_items) {
            const int64_t begin = item * pack_strips;
            kernels.pack_b(args.trans_b, b, args.ldb, columns, begin,
                           std::min(strips, begin + pack_strips), kc, packed_b);
          } else {
            const int64_t begin = (item - b_items) * pack_panels;
            kernels.pack_a(args.trans_a, a, args.lda, split, begin,
                           std::min(split.count, begin + pack_panels), kc, packed_a, panel_size);
          }
        });

        // Neighbouring items share their columns, so a thread's part of B stays in its cache.
        const int64_t tile_panels = kTileRows / kernels.mr;
        const int64_t tile_strips = kTileColumns / kernels.nr;
        const int64_t row_tiles = CeilDiv(split.count, tile_panels);
        const int64_t column_tiles = CeilDiv(strips, tile_strips);
        T* const c = args.c + i0 * args.ldc + j0;
        for_each(row_tiles * column_tiles, [&](int64_t item) {
          const int64_t panel = item % row_tiles * tile_panels;
          const int64_t strip = item / row_tiles * tile_strips;
          kernels.multiply(args.trans_a, packed_a, panel_size, split, panel,
                           std::min(split.count, panel + tile_panels), packed_b, columns, strip,
                           std::min(strips, strip + tile_strips), kc, c, args.ldc, epilogue);
        });
      }
    }
  }
}

// False when nothing is left to do.
template <typename T>
bool Prepare(const GemmArgs<T>& args, const void* workspace, int64_t workspace_bytes) {
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
  if (workspace_bytes < WorkspaceBytes<T>(Blocking(args.m, args.n, args.k, sizeof(T)))) {
    refuse("the workspace is smaller than GemmWorkspaceBytes");
  }
  return true;
}

}  // namespace

bool GemmKernelSupported(GemmKernel kernel) {
  return kernel == GemmKernel::kAvx2 || __builtin_cpu_supports("avx512f") != 0;
}

GemmKernel ActiveGemmKernel() { return KernelChoice().load(std::memory_order_relaxed); }

void SetGemmKernel(GemmKernel kernel) {
  if (!GemmKernelSupported(kernel)) {
    throw InternalError("SetGemmKernel: this processor has no AVX-512");
  }
  KernelChoice().store(kernel, std::memory_order_relaxed);
}

int64_t GemmWorkspaceBytes(int64_t m, int64_t n, int64_t k, size_t element_size, int /*threads*/) {
  const Blocking block(m, n, k, element_size);
  if (element_size == sizeof(float)) return WorkspaceBytes<float>(block);
  if (element_size == sizeof(double)) return WorkspaceBytes<double>(block);
  throw InternalError("GemmWorkspaceBytes: element_size must be 4 or 8");
}

template <typename T>
void Gemm(ThreadPool& pool, const GemmArgs<T>& args, void* workspace, int64_t workspace_bytes) {
  if (!Prepare(args, workspace, workspace_bytes)) return;
  if (pool.size() == 1 || args.m * args.n * args.k <= kSerialWork) {
    Product(OnThisThread{}, args, workspace);
  } else {
    Product(OnPool{pool}, args, workspace);
  }
}

template <typename T>
void GemmSerial(const GemmArgs<T>& args, void* workspace, int64_t workspace_bytes) {
  if (Prepare(args, workspace, workspace_bytes)) Product(OnThisThread{}, args, workspace);
}

template void Gemm(ThreadPool&, const GemmArgs<float>&, void*, int64_t);
template void Gemm(ThreadPool&, const GemmArgs<double>&, void*, int64_t);
template void GemmSerial(const GemmArgs<float>&, void*, int64_t);
template void GemmSerial(const GemmArgs<double>&, void*, int64_t);

}  // namespace plimsoll::cpu
