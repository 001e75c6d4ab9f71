// The suite of communicators on GPUs: alone, and under mpirun through NCCL, with a GPU for each
// rank of a host:   tests/support/mpirun.sh 2,3,4 cuda_test --gtest_filter=*Communicators* And what
// only GPUs have: graphs, and buffers that communicators share.
#include "runtime/ranks/cuda_communicator.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpu/check.h"
#include "runtime/cuda/cuda_handles.h"
#include "tests/runtime/communicator_suite.h"
#include "tests/runtime/late_writer.h"
#include "tests/support/cuda_ranks.h"
#include "tests/support/expect_error.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll {
namespace {

using graph::DType;
using ops::Reduction;

class CudaBed : public CommunicatorBed {
 public:
  explicit CudaBed(runtime::World& world) : why_not_(WhyNoCudaDeviceForEachRank(world)) {
    if (!why_not_.empty()) return;
    gpu::Check(cudaSetDevice(world.local_rank()), "cudaSetDevice");
    stream_ = std::make_unique<runtime::CudaStream>();
  }

  std::string WhyNot() override { return why_not_; }
  std::unique_ptr<ops::Communicator> MakeCommunicator(runtime::RankGroup& group) override {
    return runtime::MakeCudaCommunicator(group, {});
  }
  std::vector<DType> ReducibleTypes() const override {
    using enum DType;
    return {kFloat32, kInt32, kBFloat16, kFloat16, kUInt8};
  }
  void* stream() override { return stream_->get(); }
  bool AddsInRankOrder() const override { return false; }

  std::byte* Allocate(int64_t bytes) override {
    void* memory = nullptr;
    gpu::Check(cudaMalloc(&memory, static_cast<size_t>(bytes)), "cudaMalloc");
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory) override { cudaFree(memory); }
  void Write(std::byte* to, const std::byte* from, int64_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void Read(const std::byte* from, std::byte* to, int64_t bytes) override {
    Copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }

 private:
  void Copy(std::byte* to, const std::byte* from, int64_t bytes, cudaMemcpyKind kind) {
    gpu::Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, stream_->get()),
               "cudaMemcpyAsync");
    gpu::Check(cudaStreamSynchronize(stream_->get()), "cudaStreamSynchronize");
  }

  std::string why_not_;
  std::unique_ptr<runtime::CudaStream> stream_;
};

// Each test has its own bed, and helpers that copy floats in and out of it.
class CudaCommunicators : public testing::Test {
 protected:
  void SetUp() override {
    bed_ = MakeCommunicatorBed(TestWorld());
    if (const std::string why = bed_->WhyNot(); !why.empty()) GTEST_SKIP() << why;
  }

  cudaStream_t stream() { return static_cast<cudaStream_t>(bed_->stream()); }
  float* Floats(const std::vector<float>& values) {
    std::byte* const memory = bed_->Allocate(static_cast<int64_t>(values.size() * sizeof(float)));
    float* const floats = reinterpret_cast<float*>(memory);
    Set(floats, values);
    return floats;
  }
  void Set(float* floats, const std::vector<float>& values) {
    bed_->Write(reinterpret_cast<std::byte*>(floats),
                reinterpret_cast<const std::byte*>(values.data()),
                static_cast<int64_t>(values.size() * sizeof(float)));
  }
  std::vector<float> Get(const float* floats, size_t count) {
    std::vector<float> values(count);
    bed_->Read(reinterpret_cast<const std::byte*>(floats),
               reinterpret_cast<std::byte*>(values.data()),
               static_cast<int64_t>(count * sizeof(float)));
    return values;
  }
  void Free(float* floats) { bed_->Free(reinterpret_cast<std::byte*>(floats)); }

  std::unique_ptr<CommunicatorBed> bed_;
};

TEST_F(CudaCommunicators, WorkIsCapturedInGraphs) {
  constexpr size_t kCount = 10'000;
  runtime::World& world = TestWorld();
  const auto communicator = runtime::MakeCudaCommunicator(world, {});
  float* const sums = Floats(std::vector<float>(kCount, 0));
  float* const parts = Floats(std::vector<float>(kCount * world.size(), 0));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  gpu::Check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  communicator->AllReduce(sums, sums, kCount, DType::kFloat32, Reduction::kSum, stream());
  communicator->AllGather(sums, parts, kCount, DType::kFloat32, stream());
  gpu::Check(cudaStreamEndCapture(stream(), &graph), "cudaStreamEndCapture");
  gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  for (int replay = 0; replay < 3; ++replay) {
    Set(sums, std::vector<float>(kCount, static_cast<float>(world.rank() + replay)));
    gpu::Check(cudaGraphLaunch(executable, stream()), "cudaGraphLaunch");
    float sum = 0;
    for (int r = 0; r < world.size(); ++r) sum += static_cast<float>(r + replay);
    EXPECT_EQ(Get(parts, kCount * world.size()), std::vector<float>(kCount * world.size(), sum));
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  Free(sums);
  Free(parts);
}

TEST_F(CudaCommunicators, OfPartsShareTheWholesBuffers) {
  constexpr size_t kCount = 100'000;
  runtime::World& world = TestWorld();
  const auto whole = runtime::MakeCudaCommunicator(world, {});
  const auto group = world.Split(world.rank() % 2, world.rank());
  const auto part = runtime::MakeCudaCommunicator(*group, {}, whole.get());
  ASSERT_EQ(part->size(), group->size());
  EXPECT_EQ(part->rank(), group->rank());
  // Both communicators in turn, on streams that don't wait for each other.
  const runtime::CudaStream other;
  float* const in_whole = Floats(std::vector<float>(kCount, 1));
  float* const in_part = Floats(std::vector<float>(kCount, 1));
  float expected_whole = 1, expected_part = 1;
  for (int i = 0; i < 5; ++i) {
    whole->AllReduce(in_whole, in_whole, kCount, DType::kFloat32, Reduction::kSum, stream());
    part->AllReduce(in_part, in_part, kCount, DType::kFloat32, Reduction::kSum, other.get());
    expected_whole *= static_cast<float>(world.size());
    expected_part *= static_cast<float>(group->size());
  }
  gpu::Check(cudaStreamSynchronize(other.get()), "cudaStreamSynchronize");
  EXPECT_EQ(Get(in_whole, kCount), std::vector<float>(kCount, expected_whole));
  EXPECT_EQ(Get(in_part, kCount), std::vector<float>(kCount, expected_part));
  Free(in_whole);
  Free(in_part);
}

// Few channels give the same sums as many.
TEST_F(CudaCommunicators, HaveAsManyChannelsAsTheyMay) {
  constexpr size_t kCount = 1'000'001;
  runtime::World& world = TestWorld();
  for (const int channels : {1, 2, 16}) {
    SCOPED_TRACE(channels);
    const auto communicator = runtime::MakeCudaCommunicator(
        world, {.min_channels = channels, .max_channels = channels, .name = "few channels"});
    float* const data = Floats(std::vector<float>(kCount, static_cast<float>(world.rank() + 1)));
    communicator->AllReduce(data, data, kCount, DType::kFloat32, Reduction::kSum, stream());
    const float sum = static_cast<float>(world.size() * (world.size() + 1) / 2);
    EXPECT_EQ(Get(data, kCount), std::vector<float>(kCount, sum));
    Free(data);
  }
}

// Several sizes, in place and apart, one call at a time and in groups, enqueued and as a graph.
TEST_F(CudaCommunicators, MoveRegisteredMemoryThemselves) {
  runtime::World& world = TestWorld();
  constexpr int64_t kParts[] = {4, 1000, 70'000, 2'000'000};  // floats of each rank
  const int64_t largest = kParts[3] * world.size();
  for (const bool copy_engines : {false, true}) {
    SCOPED_TRACE(copy_engines);
    const auto communicator =
        runtime::MakeCudaCommunicator(world, {.copy_engines = copy_engines, .name = "registered"});
    const runtime::CudaBuffer memory(runtime::CudaBuffer::Kind::kShared, 4 * 4 * largest, "memory");
    communicator->Register(memory.data(), memory.bytes());
    float* const sum = reinterpret_cast<float*>(memory.data());
    float *const scattered = sum + largest, *const own = scattered + largest,
                 *const gathered = own + largest;
    for (const int64_t part : kParts) {
      SCOPED_TRACE(part);
      const int64_t whole = part * world.size(), from = part * world.rank();
      const auto enqueue = [&] {
        communicator->BeginGroup(ops::Calls::kReduce);
        communicator->ReduceScatter(scattered, own, part, DType::kFloat32, Reduction::kSum,
                                    stream());
        communicator->ReduceScatter(scattered + part, own + part, part / 4, DType::kFloat32,
                                    Reduction::kSum, stream());
        communicator->EndGroup();
        communicator->AllReduce(sum, sum, whole, DType::kFloat32, Reduction::kSum, stream());
        communicator->BeginGroup(ops::Calls::kGather);
        communicator->AllGather(gathered + from, gathered, part, DType::kFloat32, stream());
        communicator->AllGather(own + part + from / 4, own + part, part / 4, DType::kFloat32,
                                stream());
        communicator->EndGroup();
      };
      const auto fill = [&](float value) {
        Set(sum, std::vector<float>(whole, value + world.rank()));
        Set(scattered, std::vector<float>(largest, value + world.rank()));
        Set(own, std::vector<float>(largest, value + world.rank()));
        Set(gathered, std::vector<float>(whole, value + world.rank()));
        world.Barrier();  // others still read it
      };
      const auto check = [&](float value) {
        float total = 0;
        std::vector<float> ranks;
        for (int r = 0; r < world.size(); ++r) {
          total += value + r;
          ranks.insert(ranks.end(), part, value + r);
        }
        EXPECT_EQ(Get(sum, whole), std::vector<float>(whole, total));
        EXPECT_EQ(Get(own, part), std::vector<float>(part, total));
        EXPECT_EQ(Get(gathered, whole), ranks);
        world.Barrier();
      };
      fill(1);
      enqueue();
      check(1);
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      gpu::Check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "capture");
      enqueue();
      gpu::Check(cudaStreamEndCapture(stream(), &graph), "cudaStreamEndCapture");
      gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
      for (const float value : {2.0f, 3.0f}) {
        fill(value);
        gpu::Check(cudaGraphLaunch(executable, stream()), "cudaGraphLaunch");
        check(value);
      }
      cudaGraphExecDestroy(executable);
      cudaGraphDestroy(graph);
    }
    communicator->Deregister(memory.data());
  }
}

// A kernel that lets the next one begin before it has written anything: work enqueued behind it
// must still read its results, on its own stream and, in a graph, on another.
TEST_F(CudaCommunicators, WaitForKernelsThatLetOthersBegin) {
  runtime::World& world = TestWorld();
  constexpr int64_t kPart = 1'000'000;
  const int64_t whole = kPart * world.size();
  for (const bool copy_engines : {false, true}) {
    SCOPED_TRACE(copy_engines);
    const auto communicator =
        runtime::MakeCudaCommunicator(world, {.copy_engines = copy_engines, .name = "late"});
    const runtime::CudaBuffer memory(runtime::CudaBuffer::Kind::kShared, 4 * 4 * whole, "memory");
    communicator->Register(memory.data(), memory.bytes());
    float* const summed = reinterpret_cast<float*>(memory.data());
    float *const scattered = summed + whole, *const gathered = scattered + whole,
                 *const own = gathered + whole;
    const runtime::CudaStream side;
    const runtime::CudaEvent fork, join;
    const auto enqueue = [&](float value, cudaStream_t other) {
      const auto beside = [&](float* data, int64_t count, const auto& call) {
        WriteLate(data, count, value, stream());
        if (other != stream()) {
          fork.Record(stream());
          fork.MakeWait(other);
        }
        call(other);
        if (other != stream()) {
          join.Record(other);
          join.MakeWait(stream());
        }
      };
      beside(scattered, whole, [&](cudaStream_t at) {
        communicator->ReduceScatter(scattered, own, kPart, DType::kFloat32, Reduction::kSum, at);
      });
      beside(summed, whole, [&](cudaStream_t at) {
        communicator->AllReduce(summed, summed, whole, DType::kFloat32, Reduction::kSum, at);
      });
      float* const mine = gathered + kPart * world.rank();
      beside(mine, kPart, [&](cudaStream_t at) {
        communicator->AllGather(mine, gathered, kPart, DType::kFloat32, at);
      });
    };
    const auto check = [&](float value) {
      const float sum = value * static_cast<float>(world.size());
      EXPECT_EQ(Get(own, kPart), std::vector<float>(kPart, sum));
      EXPECT_EQ(Get(summed, whole), std::vector<float>(whole, sum));
      EXPECT_EQ(Get(gathered, whole), std::vector<float>(whole, value));
      world.Barrier();
    };
    for (const cudaStream_t other : {stream(), side.get()}) {
      enqueue(1, other);
      check(1);
      cudaGraph_t graph;
      cudaGraphExec_t executable;
      gpu::Check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "capture");
      enqueue(2, other);
      gpu::Check(cudaStreamEndCapture(stream(), &graph), "cudaStreamEndCapture");
      gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
      for (int replay = 0; replay < 3; ++replay) {
        Set(scattered, std::vector<float>(whole, -7));  // would be summed if read too early
        world.Barrier();
        gpu::Check(cudaGraphLaunch(executable, stream()), "cudaGraphLaunch");
        check(2);
      }
      cudaGraphExecDestroy(executable);
      cudaGraphDestroy(graph);
    }
    communicator->Deregister(memory.data());
  }
}

TEST_F(CudaCommunicators, RefuseTwoRanksOnOneGpu) {
  runtime::World& world = TestWorld();
  if (world.local_size() == 1) GTEST_SKIP() << "there is one rank on this host";
  gpu::Check(cudaSetDevice(0), "cudaSetDevice");
  ExpectUserError([&] { runtime::MakeCudaCommunicator(world, {}); }, {"mpirun", "same GPU"});
  gpu::Check(cudaSetDevice(world.local_rank()), "cudaSetDevice");
}

}  // namespace

std::unique_ptr<CommunicatorBed> MakeCommunicatorBed(runtime::World& world) {
  return std::make_unique<CudaBed>(world);
}

}  // namespace plimsoll
