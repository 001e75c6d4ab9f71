#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/check.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/cuda/cuda_recording.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/process_memory.h"
#include "tests/support/expect_error.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::runtime {
namespace {

// Many pieces, and an end within a page.
constexpr int64_t kPinnedBytes = (int64_t{192} << 20) + 12'347;

class CudaPinnedMemoryTest : public testing::Test {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_CUDA }

  static cudaMemoryType TypeOf(const void* memory) {
    cudaPointerAttributes attributes{};
    gpu::Check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
    return attributes.type;
  }
};

TEST_F(CudaPinnedMemoryTest, IsZeroAndRegisteredFromFirstToLastByte) {
  PinnedMemory memory(kPinnedBytes, "test");
  std::byte* const data = memory.data();
  EXPECT_EQ(memory.bytes(), kPinnedBytes);
  EXPECT_EQ(TypeOf(data), cudaMemoryTypeUnregistered);
  memory.Await();
  EXPECT_EQ(memory.data(), data);
  EXPECT_EQ(std::count(data, data + kPinnedBytes, std::byte{0}), kPinnedBytes);
  for (const int64_t at : {int64_t{0}, kPinnedBytes / 2, kPinnedBytes - 1}) {
    EXPECT_EQ(TypeOf(data + at), cudaMemoryTypeHost) << at;
    void* on_device = nullptr;
    gpu::Check(cudaHostGetDevicePointer(&on_device, data + at, 0), "cudaHostGetDevicePointer");
    EXPECT_EQ(on_device, data + at);
  }
  data[kPinnedBytes - 1] = std::byte{7};
  memory.Await();  // changes nothing
  EXPECT_EQ(data[kPinnedBytes - 1], std::byte{7});
}

// A step's copies are recorded, and one may span all of the memory.
TEST_F(CudaPinnedMemoryTest, ARecordedCopySpansAllOfIt) {
  PinnedMemory memory(kPinnedBytes, "test");
  memory.Await();
  const CudaBuffer device(CudaBuffer::Kind::kDevice, kPinnedBytes, "test");
  const CudaStream stream;
  const auto copy = [&](std::byte* to, const std::byte* from) {
    return CudaRecording::Make(stream.get(), [&] {
      gpu::Check(cudaMemcpyAsync(to, from, kPinnedBytes, cudaMemcpyDefault, stream.get()),
                 "cudaMemcpyAsync");
    });
  };
  const auto up = copy(device.data(), memory.data()), down = copy(memory.data(), device.data());
  ASSERT_NE(up, nullptr);
  ASSERT_NE(down, nullptr);
  for (const uint8_t seed : {1, 2}) {
    std::vector<uint8_t> expected(kPinnedBytes);
    for (int64_t i = 0; i < kPinnedBytes; ++i) {
      expected[i] = static_cast<uint8_t>((i * 2654435761u) >> 13) ^ seed;
    }
    std::memcpy(memory.data(), expected.data(), kPinnedBytes);
    up->Launch(stream.get());
    gpu::Check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    std::memset(memory.data(), 0, kPinnedBytes);
    down->Launch(stream.get());
    gpu::Check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
    EXPECT_EQ(std::memcmp(memory.data(), expected.data(), kPinnedBytes), 0);
  }
}

TEST_F(CudaPinnedMemoryTest, NothingStaysBehind) {
  gpu::Check(cudaFree(nullptr), "cudaFree");  // makes the context
  const int64_t before = MeasureProcessMemory().anonymous_bytes;
  for (const bool awaited : {false, true}) {
    PinnedMemory memory(kPinnedBytes, "test");
    if (!awaited) continue;  // its threads are touching it still
    memory.Await();
    EXPECT_GE(MeasureProcessMemory().anonymous_bytes, before + kPinnedBytes);
  }
  EXPECT_LT(MeasureProcessMemory().anonymous_bytes, before + kPinnedBytes / 2);
}

TEST_F(CudaPinnedMemoryTest, NoBytesAreNoMemory) {
  PinnedMemory memory(0, "test");
  memory.Await();
  EXPECT_EQ(memory.data(), nullptr);
}

TEST_F(CudaPinnedMemoryTest, WhatTheSystemRefusesIsNamed) {
  ExpectUserError([] { PinnedMemory memory(int64_t{1} << 50, "pinned rows"); },
                  {"memory.host_budget", "refuses pinned rows of 1.00 PiB", "memory.weights"});
}

// On both sides of the size from which buffers are such memory.
TEST_F(CudaPinnedMemoryTest, BuffersArePinnedWhateverTheirSize) {
  for (const int64_t bytes : {int64_t{1}, (int64_t{32} << 20) - 1, int64_t{32} << 20}) {
    const CudaBuffer buffer(CudaBuffer::Kind::kPinned, bytes, "test");
    EXPECT_EQ(TypeOf(buffer.data()), cudaMemoryTypeHost) << bytes;
    EXPECT_EQ(TypeOf(buffer.data() + bytes - 1), cudaMemoryTypeHost) << bytes;
  }
}

}  // namespace
}  // namespace plimsoll::runtime
