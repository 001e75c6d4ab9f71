// Products of a warpgroup on Hopper's tensor cores with both operands in shared memory: 64 rows by
// 128 to 256 columns, 16 of the inner dimension at a time, added up in registers. Only in code for
// sm_90a. ResultPlace (wgmma.cuh) says which element of the result each register is, at any width.
//
// An operand's tile is 64 elements along the inner dimension. It has the layout in which the copy
// engine stores boxes of 128-byte rows in shared memory (tensor_map.h), in one of two ways:
//
//   kInner   the inner dimension is contiguous: row r of the operand is row r of the tile
//   kOuter   the other one is: boxes of 64 rows (the inner dimension) by 64 columns, one box for
//            each 64 rows of the operand, one after another
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cuda/wgmma.cuh"

namespace plimsoll::ops {

enum class Contiguous { kInner, kOuter };

// The tensor cores' descriptor for a tile at this address, a multiple of 1024.
template <Contiguous kContiguous>
__device__ uint64_t TileDescriptor(uint32_t address) {
  constexpr uint64_t kEightRows = 1024 >> 4;
  constexpr uint64_t kNextBox = kOperandTile >> 4;
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kLeading = kContiguous == Contiguous::kInner ? 1 : kNextBox;
  return kSwizzle128 | kEightRows << 32 | kLeading << 16 | (address & 0x3FFFF) >> 4;
}

// The increment of a descriptor for the next 16 elements of the inner dimension.
template <Contiguous kContiguous>
inline constexpr uint64_t kNextSixteen = kContiguous == Contiguous::kInner ? 32 >> 4 : 2048 >> 4;

#define PLIMSOLL_NAMES_16            \
  "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define PLIMSOLL_NAMES_32                      \
  PLIMSOLL_NAMES_16                            \
  ", %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define PLIMSOLL_NAMES_48                      \
  PLIMSOLL_NAMES_32                            \
  ", %32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define PLIMSOLL_NAMES_64                      \
  PLIMSOLL_NAMES_48                            \
  ", %48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define PLIMSOLL_NAMES_80                      \
  PLIMSOLL_NAMES_64                            \
  ", %64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define PLIMSOLL_NAMES_96                      \
  PLIMSOLL_NAMES_80                            \
  ", %80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define PLIMSOLL_NAMES_68 PLIMSOLL_NAMES_64 ", %64, %65, %66, %67"
#define PLIMSOLL_NAMES_100 PLIMSOLL_NAMES_96 ", %96, %97, %98, %99"
#define PLIMSOLL_NAMES_112                         \
  PLIMSOLL_NAMES_96                                \
  ", %96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define PLIMSOLL_NAMES_128                             \
  PLIMSOLL_NAMES_112                                   \
  ", %112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"

#define PLIMSOLL_FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define PLIMSOLL_RESULTS_16(d, i) \
  PLIMSOLL_FOUR(d, i), PLIMSOLL_FOUR(d, i + 4), PLIMSOLL_FOUR(d, i + 8), PLIMSOLL_FOUR(d, i + 12)
#define PLIMSOLL_RESULTS_32(d, i) PLIMSOLL_RESULTS_16(d, i), PLIMSOLL_RESULTS_16(d, i + 16)
#define PLIMSOLL_RESULTS_64(d, i) PLIMSOLL_RESULTS_32(d, i), PLIMSOLL_RESULTS_32(d, i + 32)
#define PLIMSOLL_RESULTS_68(d, i) PLIMSOLL_RESULTS_64(d, i), PLIMSOLL_FOUR(d, i + 64)
#define PLIMSOLL_RESULTS_80(d, i) PLIMSOLL_RESULTS_64(d, i), PLIMSOLL_RESULTS_16(d, i + 64)
#define PLIMSOLL_RESULTS_96(d, i) PLIMSOLL_RESULTS_64(d, i), PLIMSOLL_RESULTS_32(d, i + 64)
#define PLIMSOLL_RESULTS_100(d, i) PLIMSOLL_RESULTS_96(d, i), PLIMSOLL_FOUR(d, i + 96)
#define PLIMSOLL_RESULTS_112(d, i) PLIMSOLL_RESULTS_96(d, i), PLIMSOLL_RESULTS_16(d, i + 96)
#define PLIMSOLL_RESULTS_128(d, i) PLIMSOLL_RESULTS_64(d, i), PLIMSOLL_RESULTS_64(d, i + 64)

#define PLIMSOLL_MULTIPLY(columns, type, count, a_, b_, add_, ta, tb)                         \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_                                       \
               ", 0;\n"                                                                       \
               "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type           \
               " {" PLIMSOLL_NAMES_##count "}, " a_ ", " b_ ", p, 1, 1, " ta ", " tb ";\n}\n" \
               : PLIMSOLL_RESULTS_##count(d, 0)                                               \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)),                                  \
                 "n"(kA == Contiguous::kOuter ? 1 : 0), "n"(kB == Contiguous::kOuter ? 1 : 0))
#define PLIMSOLL_MULTIPLY_TYPES(columns, count, a_, b_, add_, ta, tb) \
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {                   \
    PLIMSOLL_MULTIPLY(columns, "bf16", count, a_, b_, add_, ta, tb);  \
  } else {                                                            \
    PLIMSOLL_MULTIPLY(columns, "f16", count, a_, b_, add_, ta, tb);   \
  }

// d = (add ? d : 0) + 64 rows of a times kCount · 2 columns of b, 16 of the inner dimension.
template <typename T, Contiguous kA, Contiguous kB, int kCount>
__device__ void MultiplyWide(float (&d)[kCount], uint64_t a, uint64_t b, bool add) {
  if constexpr (kCount == 64) {
    PLIMSOLL_MULTIPLY_TYPES("128", 64, "%64", "%65", "%66", "%67", "%68");
  } else if constexpr (kCount == 68) {
    PLIMSOLL_MULTIPLY_TYPES("136", 68, "%68", "%69", "%70", "%71", "%72");
  } else if constexpr (kCount == 80) {
    PLIMSOLL_MULTIPLY_TYPES("160", 80, "%80", "%81", "%82", "%83", "%84");
  } else if constexpr (kCount == 96) {
    PLIMSOLL_MULTIPLY_TYPES("192", 96, "%96", "%97", "%98", "%99", "%100");
  } else if constexpr (kCount == 100) {
    PLIMSOLL_MULTIPLY_TYPES("200", 100, "%100", "%101", "%102", "%103", "%104");
  } else if constexpr (kCount == 112) {
    PLIMSOLL_MULTIPLY_TYPES("224", 112, "%112", "%113", "%114", "%115", "%116");
  } else if constexpr (kCount == 128) {
    PLIMSOLL_MULTIPLY_TYPES("256", 128, "%128", "%129", "%130", "%131", "%132");
  } else {
    static_assert(kCount == 128, "no product this wide");
  }
}

#undef PLIMSOLL_NAMES_68
#undef PLIMSOLL_NAMES_16
#undef PLIMSOLL_NAMES_32
#undef PLIMSOLL_NAMES_48
#undef PLIMSOLL_NAMES_64
#undef PLIMSOLL_NAMES_80
#undef PLIMSOLL_NAMES_96
#undef PLIMSOLL_NAMES_100
#undef PLIMSOLL_NAMES_112
#undef PLIMSOLL_NAMES_128
#undef PLIMSOLL_FOUR
#undef PLIMSOLL_RESULTS_68
#undef PLIMSOLL_RESULTS_16
#undef PLIMSOLL_RESULTS_32
#undef PLIMSOLL_RESULTS_64
#undef PLIMSOLL_RESULTS_80
#undef PLIMSOLL_RESULTS_96
#undef PLIMSOLL_RESULTS_100
#undef PLIMSOLL_RESULTS_112
#undef PLIMSOLL_RESULTS_128
#undef PLIMSOLL_MULTIPLY
#undef PLIMSOLL_MULTIPLY_TYPES

// Called before the registers of a product are read, and after they are written: keeps the compiler
// from moving accesses across this point.
template <int kCount>
__device__ void HoldRegisters(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Waits until at most kPending groups of products are in flight.
template <int kPending>
__device__ void AwaitProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}

}  // namespace plimsoll::ops
