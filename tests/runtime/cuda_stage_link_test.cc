// Links between stages on GPUs, one for each rank of a host, under mpirun:
//   tests/support/mpirun.sh 2,3,4 cuda_test --gtest_filter='CudaStageLinks.*'
#include "runtime/cuda/cuda_stage_link.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "gpu/check.h"
#include "runtime/cuda/cuda_handles.h"
#include "tests/runtime/late_writer.h"
#include "tests/support/cuda_ranks.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::runtime {
namespace {

using enum LinkDirection;

class CudaStageLinks : public testing::Test {
 protected:
  void SetUp() override {
    World& world = TestWorld();
    if (world.size() == 1) GTEST_SKIP() << "for mpirun";
    if (const std::string why = WhyNoCudaDeviceForEachRank(world); !why.empty()) {
      GTEST_SKIP() << why;
    }
    gpu::Check(cudaSetDevice(world.local_rank()), "cudaSetDevice");
    compute_ = std::make_unique<CudaStream>();
    std::vector<int64_t> ranks(static_cast<size_t>(world.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
    link_ = MakeCudaStageLink(world, ranks, 0, compute());
  }

  StageLink& link() { return *link_; }
  cudaStream_t compute() const { return compute_->get(); }

 private:
  std::unique_ptr<CudaStream> compute_;
  std::unique_ptr<StageLink> link_;
};

// A step as one forward, one backward, all of which the host enqueues before the GPU has done the
// first run. Runs are slow kernels that write what is sent and let the next work begin early, and
// copies of what came: messages that don't wait for them, or are not waited for, are old or lost.
TEST_F(CudaStageLinks, KeepTheOrderOfRunsAndMessages) {
  constexpr int64_t kMicroBatches = 9;
  const int64_t stage = link().stage(), stages = link().stages(), slots = stages - stage;
  const auto value = [](LinkDirection direction, int64_t sender, int64_t micro_batch) {
    return static_cast<float>(1000 * sender + 10 * micro_batch + (direction == kUp ? 1 : 2));
  };
  for (const int64_t count : {int64_t{1}, int64_t{5000}, int64_t{4} << 20}) {
    SCOPED_TRACE(count);
    const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
    // What a slot sends and receives in each direction, and all that has come.
    const CudaBuffer memory(CudaBuffer::Kind::kDevice, 4 * slots * bytes, "slots");
    const CudaBuffer came(CudaBuffer::Kind::kDevice, 2 * kMicroBatches * bytes, "results");
    gpu::Check(cudaMemsetAsync(came.data(), 0, static_cast<size_t>(came.bytes()), compute()),
               "cudaMemsetAsync");
    const auto tensor = [&](LinkDirection direction, bool sent, int64_t slot) {
      const int64_t number = 4 * slot + 2 * static_cast<int64_t>(direction) + (sent ? 1 : 0);
      return std::span(memory.data() + number * bytes, static_cast<size_t>(bytes));
    };
    const auto neighbour = [&](LinkDirection direction, bool receiver) {
      return (direction == kDown) == receiver ? stage + 1 : stage - 1;
    };
    const auto exists = [&](int64_t other) { return other >= 0 && other < stages; };
    const auto pass = [&](LinkDirection direction, int64_t micro_batch) {
      const int64_t slot = micro_batch % slots;
      if (exists(neighbour(direction, false))) {
        const std::span<std::byte> in = tensor(direction, false, slot);
        link().StartReceive({direction, slot, micro_batch}, in);
        link().AwaitReceive(direction, slot);
        const int64_t place = 2 * micro_batch + static_cast<int64_t>(direction);
        gpu::Check(cudaMemcpyAsync(came.data() + place * bytes, in.data(), in.size(),
                                   cudaMemcpyDeviceToDevice, compute()),
                   "cudaMemcpyAsync");
      }
      if (!exists(neighbour(direction, true))) return;
      const std::span<std::byte> out = tensor(direction, true, slot);
      link().AwaitSend(direction, slot);
      WriteLate(reinterpret_cast<float*>(out.data()), count, value(direction, stage, micro_batch),
                compute());
      link().StartSend({direction, slot, micro_batch}, out);
    };
    int64_t forwards = 0, backwards = 0;
    while (backwards < kMicroBatches) {
      if (forwards < kMicroBatches && forwards - backwards < slots) {
        pass(kDown, forwards++);
      } else {
        pass(kUp, backwards++);
      }
    }
    link().AwaitSends();
    std::vector<float> all(static_cast<size_t>(2 * kMicroBatches * count));
    gpu::Check(cudaMemcpyAsync(all.data(), came.data(), all.size() * sizeof(float),
                               cudaMemcpyDeviceToHost, compute()),
               "cudaMemcpyAsync");
    gpu::Check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
    for (int64_t micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      for (const LinkDirection direction : {kDown, kUp}) {
        const int64_t sender = neighbour(direction, false);
        const float expected = exists(sender) ? value(direction, sender, micro_batch) : 0;
        const int64_t place = 2 * micro_batch + static_cast<int64_t>(direction);
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(all[static_cast<size_t>(place * count + i)], expected)
              << "micro-batch " << micro_batch << (direction == kDown ? " down" : " up");
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::runtime
