// The suite of split vocabularies on GPUs: alone, and under mpirun through NCCL, with a GPU for
// each rank of a host:   tests/support/mpirun.sh 2,4 cuda_test --gtest_filter=*VocabularyParallel*
// And what only GPUs have: graphs, and results in the place of errors.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gpu/check.h"
#include "gpu/libraries.h"
#include "ops/loss/linear_cross_entropy.h"
#include "runtime/cuda/cuda_handles.h"
#include "runtime/ranks/cuda_communicator.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/ops/vocabulary_parallel_suite.h"
#include "tests/support/cuda_ranks.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

class CudaBed : public OpBed {
 public:
  explicit CudaBed(runtime::World& world) : why_not_(WhyNoCudaDeviceForEachRank(world)) {
    if (!why_not_.empty()) return;
    gpu::Check(cudaSetDevice(world.local_rank()), "cudaSetDevice");
    libraries_ = std::make_unique<gpu::Libraries>();
    communicator_ = runtime::MakeCudaCommunicator(world, {});
  }

  std::string WhyNot() override { return why_not_; }
  std::vector<TestTensor> Run(const std::string& op, const std::vector<const TestTensor*>& inputs,
                              const graph::Attributes& attributes) override {
    return RunCudaOp(op, inputs, *libraries_, attributes, {}, communicators());
  }
  // In fp16 exponentials, and what they are multiplied with, are bf16
  // (ops/cuda/loss_exponentials.h).
  double LossRounding(DType dtype) override { return dtype == DType::kFloat16 ? 0x1p-7 : 0; }

  gpu::Libraries& libraries() { return *libraries_; }
  AxisCommunicators communicators() const { return {{"tensor", communicator_.get()}}; }

 private:
  std::string why_not_;
  std::unique_ptr<gpu::Libraries> libraries_;
  std::unique_ptr<Communicator> communicator_;
};

class CudaVocabularyParallel : public testing::Test {
 protected:
  void SetUp() override {
    bed_ = std::make_unique<CudaBed>(TestWorld());
    if (const std::string why = bed_->WhyNot(); !why.empty()) GTEST_SKIP() << why;
  }

  std::vector<TestTensor> Train(const LossProblem& p) {
    const TestTensor weight = ShardOf(p.weight);
    return bed_->Run("linear_cross_entropy_train",
                     {&p.x, &weight, &p.targets, &p.scale, &p.dloss, nullptr}, SplitByTensorAxis());
  }

  std::unique_ptr<CudaBed> bed_;
};

// Several chunks, and long rows, only a few of which count.
TEST_F(CudaVocabularyParallel, LossComesInChunks) {
  constexpr int64_t kRows = 1100, kShard = 210000;
  LossProblem p(DType::kFloat32, kRows, kShard * TestWorld().size(), 2);
  const int64_t chunk = LayOutCudaLoss(kRows, kShard, 2, DType::kFloat32, {.split = true}).chunk;
  ASSERT_LT(chunk, kRows);
  for (int64_t r = 0; r < kRows - 1; ++r) {
    if (r % 64 != 0 && r != chunk - 1) p.targets.set(r, -100);
  }
  const std::vector<TestTensor> train = Train(p);
  const std::vector<TestTensor> whole = bed_->Run(
      "linear_cross_entropy_train", {&p.x, &p.weight, &p.targets, &p.scale, &p.dloss, nullptr}, {});
  EXPECT_NEAR(train[0].at(0), whole[0].at(0), 1e-5 * whole[0].at(0));
  const TestTensor dweight = ShardOf(whole[2]);
  for (int64_t i = 0; i < dweight.size(); ++i) ASSERT_NEAR(train[2].at(i), dweight.at(i), 1e-5);
}

TEST_F(CudaVocabularyParallel, LossRunsFromAGraph) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const LossProblem p(dtype, 300, 3000 * TestWorld().size(), 40);
    const std::vector<TestTensor> expected = Train(p);
    const CudaTensor x(p.x), weight(ShardOf(p.weight)), targets(p.targets), scale(p.scale),
        dloss(p.dloss);
    const CudaOpRunner runner("linear_cross_entropy_train",
                              {&x, &weight, &targets, &scale, &dloss, nullptr}, SplitByTensorAxis(),
                              {}, bed_->communicators());
    const runtime::CudaStream stream;
    runner.Prepare(bed_->libraries(), stream.get());
    gpu::Check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    runner.Enqueue(bed_->libraries(), stream.get());
    cudaGraph_t graph;
    gpu::Check(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable;
    gpu::Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    for (int replay = 0; replay < 3; ++replay) {
      for (size_t i = 0; i < expected.size(); ++i) {
        gpu::Check(cudaMemset(runner.output(i).data(), 0xFF,
                              static_cast<size_t>(runner.output(i).type().bytes())),
                   "cudaMemset");
      }
      gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      gpu::Check(cudaGraphLaunch(executable, stream.get()), "cudaGraphLaunch");
      gpu::Check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize");
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(SameBits(runner.output(i).Download(), expected[i])) << replay << ", " << i;
      }
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
}

TEST_F(CudaVocabularyParallel, WhatIsOutsideTheWholeVocabularyIsNoNumber) {
  const int64_t vocabulary = 56 * TestWorld().size();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    LossProblem p(dtype, 20, vocabulary, 8);
    EXPECT_TRUE(std::isfinite(Train(p)[0].at(0)));
    p.targets.set(7, static_cast<double>(vocabulary));
    EXPECT_TRUE(std::isnan(Train(p)[0].at(0)));
    const TestTensor weight = ShardOf(p.weight);
    const TestTensor tokens = Values(DType::kInt32, {1, 2}, {static_cast<double>(vocabulary), 0});
    const TestTensor y =
        bed_->Run("embedding", {&tokens, &weight, nullptr}, SplitByTensorAxis())[0];
    EXPECT_TRUE(std::isnan(y.at(0)));
    EXPECT_FALSE(std::isnan(y.at(8)));
  }
}

}  // namespace

std::unique_ptr<OpBed> MakeOpBed(runtime::World& world) { return std::make_unique<CudaBed>(world); }

}  // namespace plimsoll::ops
