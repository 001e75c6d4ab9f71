#include "ops/cuda/tensor_map.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <span>
#include <string>

#include "base/error.h"
#include "gpu/check.h"

namespace plimsoll::ops {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Finds the driver's function without linking the driver.
Encode FindEncode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  constexpr unsigned kVersion = 12000;  // the first version with it
  gpu::Check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion,
                                              cudaEnableDefault, &found),
             "cudaGetDriverEntryPointByVersion");
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw InternalError("the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<Encode>(function);
}

struct Dimension {
  int64_t size, stride;  // elements; the first dimension's stride is 1
  int64_t box;
};

CUtensorMap Map(const void* data, graph::DType dtype, std::span<const Dimension> dimensions) {
  static const Encode encode = FindEncode();
  constexpr size_t kMost = 4;
  cuuint64_t sizes[kMost], strides[kMost];
  cuuint32_t box[kMost], steps[kMost];
  std::string shown;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    const Dimension& d = dimensions[i];
    sizes[i] = static_cast<cuuint64_t>(d.size);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(d.stride * graph::ByteSize(dtype));
    box[i] = static_cast<cuuint32_t>(d.box);
    steps[i] = 1;
    shown += fmt::format(" {} (stride {})", d.size, d.stride);
  }
  CUtensorMap map;
  const CUresult result =
      encode(&map,
             dtype == graph::DType::kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
             static_cast<cuuint32_t>(dimensions.size()), const_cast<void*>(data), sizes, strides,
             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw InternalError(fmt::format("cuTensorMapEncodeTiled: error {} for dimensions{}",
                                    static_cast<int>(result), shown));
  }
  return map;
}

}  // namespace

bool CanMap(const MappedMatrix& m) {
  constexpr int64_t kMost = int64_t{1} << 31;  // coordinates are 32 bits
  const bool sixteen_bits = m.dtype == graph::DType::kBFloat16 || m.dtype == graph::DType::kFloat16;
  return sixteen_bits && m.rows > 0 && m.columns > 0 && m.rows < kMost && m.columns < kMost &&
         m.stride % 8 == 0 && m.stride < kMost && reinterpret_cast<uintptr_t>(m.data) % 16 == 0;
}

CUtensorMap MapMatrix(const MappedMatrix& m, int box_rows) {
  const Dimension dimensions[] = {{m.columns, 0, 64}, {m.rows, m.stride, box_rows}};
  return Map(m.data, m.dtype, dimensions);
}

CUtensorMap MapHeads(const MappedHeads& m) {
  const int64_t row = m.heads * m.width;
  const Dimension dimensions[] = {
      {m.width, 0, 64}, {m.heads, m.width, 1}, {m.rows, row, 64}, {m.batch, m.rows * row, 1}};
  return Map(m.data, m.dtype, dimensions);
}

}  // namespace plimsoll::ops
