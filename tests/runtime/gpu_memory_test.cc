#include "runtime/cuda/gpu_memory.h"

#include <gtest/gtest.h>

namespace plimsoll::runtime {
namespace {

TEST(NameByKernels, TellsKernelsOfAnotherGpu) {
  constexpr ComputeCapability kHopper{9, 0};
  EXPECT_EQ(NameByKernels("NVIDIA H200", kHopper, kHopper), "NVIDIA H200");
  EXPECT_EQ(NameByKernels("NVIDIA H200", kHopper, {8, 6}), "NVIDIA H200 as 8.6");
}

}  // namespace
}  // namespace plimsoll::runtime
