// The suite of split vocabularies on CPUs: alone, and through MPI.
#include <gtest/gtest.h>

#include "ops/loss/linear_cross_entropy.h"
#include "tests/ops/vocabulary_parallel_suite.h"
#include "tests/support/mpi_test_main.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

class CpuBed : public OpBed {
 public:
  explicit CpuBed(runtime::World& world) : communicator_(world.MakeCpuCommunicator()) {}

  std::vector<TestTensor> Run(const std::string& op, const std::vector<const TestTensor*>& inputs,
                              const graph::Attributes& attributes) override {
    return RunOp(op, inputs, attributes, 2, {}, {{"tensor", communicator_.get()}});
  }

 private:
  std::unique_ptr<Communicator> communicator_;
};

// Several chunks of a split vocabulary, with other boundaries than those of the whole one.
TEST(CpuVocabularyParallel, LossComesInChunks) {
  constexpr int64_t kRows = 540, kShard = 52000;
  const int64_t vocabulary = kShard * TestWorld().size();
  ASSERT_LT(LossChunkRows(kRows, kShard, sizeof(float)), kRows);
  const LossProblem p(DType::kFloat32, kRows, vocabulary, 2);
  const TestTensor weight = ShardOf(p.weight);
  CpuBed bed(TestWorld());
  const std::vector<TestTensor> train =
      bed.Run("linear_cross_entropy_train",
              {&p.x, &weight, &p.targets, &p.scale, &p.dloss, nullptr}, SplitByTensorAxis());
  const std::vector<TestTensor> whole = bed.Run(
      "linear_cross_entropy_train", {&p.x, &p.weight, &p.targets, &p.scale, &p.dloss, nullptr}, {});
  EXPECT_NEAR(train[0].at(0), whole[0].at(0), 1e-6 * whole[0].at(0));
  const TestTensor dweight = ShardOf(whole[2]);
  for (int64_t i = 0; i < dweight.size(); ++i) ASSERT_NEAR(train[2].at(i), dweight.at(i), 1e-5);
}

TEST(CpuVocabularyParallel, RefusesWhatIsOutsideTheWholeVocabulary) {
  const int64_t own = 10, vocabulary = own * TestWorld().size();
  CpuBed bed(TestWorld());
  LossProblem p(DType::kFloat32, 4, vocabulary, 3);
  const TestTensor weight = ShardOf(p.weight);
  p.targets.set(2, static_cast<double>(vocabulary));
  EXPECT_THROW(
      bed.Run("linear_cross_entropy", {&p.x, &weight, &p.targets, &p.scale}, SplitByTensorAxis()),
      InternalError);
  const TestTensor tokens = Values(DType::kInt32, {1, 2}, {static_cast<double>(vocabulary) - 1, 0});
  const TestTensor beyond = Values(DType::kInt32, {1, 2}, {static_cast<double>(vocabulary), 0});
  EXPECT_NO_THROW(bed.Run("embedding", {&tokens, &weight, nullptr}, SplitByTensorAxis()));
  EXPECT_THROW(bed.Run("embedding", {&beyond, &weight, nullptr}, SplitByTensorAxis()),
               InternalError);
}

TEST(CpuVocabularyParallel, RefusesAnUnknownAxis) {
  CpuBed bed(TestWorld());
  const LossProblem p(DType::kFloat32, 4, 10, 3);
  EXPECT_THROW(bed.Run("linear_cross_entropy", {&p.x, &p.weight, &p.targets, &p.scale},
                       {{"axis", std::string("width")}}),
               InternalError);
}

}  // namespace

std::unique_ptr<OpBed> MakeOpBed(runtime::World& world) { return std::make_unique<CpuBed>(world); }

}  // namespace plimsoll::ops
