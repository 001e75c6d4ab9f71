#include "ops/cuda/tensor_map.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "base/error.h"
#include "gpu/check.h"

namespace plimsoll::ops {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, without linking the driver.
Encode FindEncode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  constexpr unsigned kVersion = 12000;  // that brought it
  gpu::Check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion,
                                              cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw InternalError("the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<Encode>(function);
}

}  // namespace

bool CanMap(const MappedMatrix& m) {
  constexpr int64_t kMost = int64_t{1} << 31;  // coordinates are 32 bits
  const bool sixteen_bits = m.dtype == graph::DType::kBFloat16 || m.dtype == graph::DType::kFloat16;
  return sixteen_bits && m.rows > 0 && m.columns > 0 && m.rows < kMost && m.columns < kMost &&
         m.stride % 8 == 0 && m.stride < kMost && reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
}

CUtensorMap MapMatrix(const MappedMatrix& m, int box_rows) {
  static const Encode encode = FindEncode();
  CUtensorMap map;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(m.columns), static_cast<cuuint64_t>(m.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(m.stride * graph::ByteSize(m.dtype))};
  const cuuint32_t box[] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result =
      encode(&map,
             m.dtype == graph::DType::kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
             2, const_cast<void*>(m.data), sizes, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw InternalError(fmt::format("cuTensorMapEncodeTiled: error {} for [{}, {}] with rows of {}",
                                    static_cast<int>(result), m.rows, m.columns, m.stride));
  }
  return map;
}

}  // namespace plimsoll::ops
