#include "runtime/cuda/cuda_recording.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "gpu/check.h"
#include "runtime/cuda/cuda_handles.h"
#include "tests/support/needs_cuda.h"

namespace plimsoll::runtime {
namespace {

class CudaRecordingTest : public testing::Test {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_CUDA
    stream_ = std::make_unique<CudaStream>();
    device_ = std::make_unique<CudaBuffer>(CudaBuffer::Kind::kDevice, sizeof(int), "test");
  }

  void EnqueueCopy(const int* from) {
    gpu::Check(
        cudaMemcpyAsync(device_->data(), from, sizeof(int), cudaMemcpyHostToDevice, stream_->get()),
        "cudaMemcpyAsync");
  }
  int Read() {
    int value = 0;
    gpu::Check(cudaMemcpyAsync(&value, device_->data(), sizeof(int), cudaMemcpyDeviceToHost,
                               stream_->get()),
               "cudaMemcpyAsync");
    gpu::Check(cudaStreamSynchronize(stream_->get()), "cudaStreamSynchronize");
    return value;
  }

  std::unique_ptr<CudaStream> stream_;
  std::unique_ptr<CudaBuffer> device_;
};

TEST_F(CudaRecordingTest, ReplaysCopiesFromPinnedMemory) {
  const CudaBuffer pinned(CudaBuffer::Kind::kPinned, sizeof(int), "test");
  int& number = *reinterpret_cast<int*>(pinned.data());
  number = 1;
  const auto recording = CudaRecording::Make(stream_->get(), [&] { EnqueueCopy(&number); });
  ASSERT_NE(recording, nullptr);
  recording->Upload(stream_->get());
  for (const int value : {2, 3}) {
    number = value;
    recording->Launch(stream_->get());
    EXPECT_EQ(Read(), value);
  }
}

TEST_F(CudaRecordingTest, RefusesCopiesFromPageableMemory) {
  const auto gone = std::make_unique<int>(7);
  EXPECT_EQ(CudaRecording::Make(stream_->get(), [&] { EnqueueCopy(gone.get()); }), nullptr);
  // Also on a stream that was forked from the recorded one.
  const CudaStream side;
  const CudaEvent fork, join;
  const auto beside = [&] {
    fork.Record(stream_->get());
    fork.MakeWait(side.get());
    gpu::Check(cudaMemcpyAsync(device_->data(), gone.get(), sizeof(int), cudaMemcpyHostToDevice,
                               side.get()),
               "cudaMemcpyAsync");
    join.Record(side.get());
    join.MakeWait(stream_->get());
  };
  EXPECT_EQ(CudaRecording::Make(stream_->get(), beside), nullptr);
  EnqueueCopy(gone.get());  // the stream still works
  EXPECT_EQ(Read(), 7);
}

TEST_F(CudaRecordingTest, EndsWithAnException) {
  EXPECT_THROW(CudaRecording::Make(stream_->get(), [] { throw std::runtime_error("no"); }),
               std::runtime_error);
  const int value = 5;
  EnqueueCopy(&value);
  EXPECT_EQ(Read(), 5);
}

}  // namespace
}  // namespace plimsoll::runtime
