// Which of cuDNN's plans computes a convolution: measured ones, first ones, and ones from the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/choices/choice_store.h"
#include "ops/cuda/choices/result_bits.h"
#include "ops/cuda/cudnn_convolution_choice.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/ops/expect_tensor.h"
#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

// 3 × 3 pixels of 64 channels, on images of 28 × 28.
constexpr ConvGeometry kGeometry = {.batch = 8,
                                    .in_channels = 64,
                                    .out_channels = 64,
                                    .in = {1, 28, 28},
                                    .kernel = {1, 3, 3},
                                    .out = {1, 28, 28},
                                    .pad = {0, 1, 1}};
constexpr int64_t kWorkspace = int64_t{16} << 20;

ConvProblem ProblemOf(ConvPass pass, DType dtype, bool tf32 = false) {
  return {.pass = pass,
          .dtype = dtype,
          .tf32 = tf32,
          .geometry = kGeometry,
          .workspace_limit = kWorkspace};
}

// One convolution, with everything that it needs.
class Convolution {
 public:
  explicit Convolution(const ConvProblem& problem) : problem_(problem) { SetNumbers(1); }

  void SetNumbers(uint64_t seed) {
    const TestTensor image = NormalValues(problem_.dtype, {8, 28, 28, 64}, seed);
    const TestTensor weight = NormalValues(problem_.dtype, {64, 3, 3, 64}, seed + 1);
    const bool weighted = problem_.pass != ConvPass::kDw;
    a_ = CudaTensor(image);
    b_ = CudaTensor(weighted ? weight : NormalValues(problem_.dtype, {8, 28, 28, 64}, seed + 2));
    result_ = CudaTensor(weighted ? image.type() : weight.type());
    buffers_ = {a_.data(), b_.data(), result_.data(), workspace_.get()};
  }

  void Prepare() { ChooseConvolution(problem_, libraries_, nullptr, buffers_); }

  // The choice of a process that starts now.
  std::string Choose(const ChoiceOptions& options) {
    SetChoices(options);
    Prepare();
    return FindConvolution(problem_, libraries_)->name();
  }

  TestTensor Run() { return Run(*FindConvolution(problem_, libraries_)); }
  TestTensor Run(const ChosenConvolution& chosen) {
    FillResult();
    EXPECT_EQ(chosen.convolution->Run(chosen.plan, libraries_, nullptr, buffers_), "");
    return Result();
  }

  // Names of the plans that can run.
  std::vector<std::string> Candidates() {
    CudnnConvolution convolution(problem_, libraries_);
    std::vector<std::string> names;
    for (size_t plan = 0; plan < convolution.names().size(); ++plan) {
      if (convolution.Build(plan)) names.push_back(convolution.names()[plan]);
    }
    return names;
  }

  // With NaN.
  void FillResult() {
    gpu::Check(cudaMemset(result_.data(), 0xFF, static_cast<size_t>(result_.type().bytes())),
               "cudaMemset");
  }
  TestTensor Result() const {
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return result_.Download();
  }

  uint64_t Hash() const {
    const ResultMemory result(static_cast<std::byte*>(result_.data()),
                              static_cast<size_t>(result_.type().bytes()));
    return HashOf({{result}}, nullptr);
  }

  const ConvProblem& problem() const { return problem_; }
  gpu::Libraries& libraries() { return libraries_; }

 private:
  ConvProblem problem_;
  gpu::Libraries libraries_;
  CudaTensor a_, b_, result_;
  std::shared_ptr<void> workspace_ = CudaMemory(kWorkspace);
  ConvBuffers buffers_;
};

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The largest difference beside the largest value.
void ExpectClose(const TestTensor& got, const TestTensor& want, double tolerance) {
  double difference = 0, largest = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    const double d = std::abs(got.at(i) - want.at(i));
    difference = d > difference || std::isnan(d) ? d : difference;
    largest = std::max(largest, std::abs(want.at(i)));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LE(difference, tolerance * largest);
}

class ConvChoiceTest : public testing::Test {
 protected:
  void TearDown() override { SetChoices({}); }

  ChoiceOptions Measured() {
    return {.measure = true, .folder = folder_.path(), .warn = [&](const std::string& text) {
              warnings_.push_back(text);
            }};
  }
  // The only file in the folder.
  ChoiceFile File() const {
    const std::string name = folder_.Names().at(0);
    const std::string text = folder_.Read(name);
    const std::string device = text.substr(text.find('\n') + 1);
    return {folder_ / name, "plimsoll convolutions 2", device.substr(0, device.find('\n'))};
  }

  TempFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(ConvChoiceTest, IsTakenFromTheFile) {
  PLIMSOLL_NEEDS_CUDA
  Convolution convolution(ProblemOf(ConvPass::kForward, DType::kBFloat16));
  const std::string key = KeyOf(convolution.problem());
  const std::string first = convolution.Choose(Measured());
  ASSERT_EQ(folder_.Names().size(), 1u);
  const ChoiceFile file = File();
  EXPECT_TRUE(folder_.Names()[0].starts_with("convolutions-")) << folder_.Names()[0];
  EXPECT_NE(file.device.find(", cudnn "), std::string::npos) << file.device;
  const std::string written = ReadFile(file.path);
  EXPECT_EQ(convolution.Choose(Measured()), first);
  EXPECT_EQ(ReadFile(file.path), written) << "nothing was measured again";

  // Any entry in the file is used, if cuDNN offers it.
  Choices choices = ReadChoices(file);
  ASSERT_TRUE(choices.count(key));
  EXPECT_EQ(choices[key].way, first);
  const std::vector<std::string> candidates = convolution.Candidates();
  ASSERT_GT(candidates.size(), 1u);
  for (const std::string& candidate : {candidates.front(), candidates.back()}) {
    choices[key].way = candidate;
    WriteChoices(file, choices);
    EXPECT_EQ(convolution.Choose(Measured()), candidate);
  }
  choices[key].way = "eng999999_k1=1";
  WriteChoices(file, choices);
  EXPECT_TRUE(Contains(candidates, convolution.Choose(Measured())));
  EXPECT_TRUE(Contains(candidates, ReadChoices(file).at(key).way));
  EXPECT_TRUE(warnings_.empty());

  WriteFile(file.path, "nonsense\n");
  convolution.Choose(Measured());
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(warnings_[0],
            file.path + ":1: damaged: its checksum does not fit; algorithms are chosen anew");
  EXPECT_EQ(ReadChoices(file).size(), 1u);
}

TEST_F(ConvChoiceTest, GivesTheResultOfTheFirst) {
  PLIMSOLL_NEEDS_CUDA
  struct Type {
    DType dtype;
    bool tf32;
    double tolerance;
  };
  for (const Type& type : {Type{DType::kBFloat16, false, 0.01}, Type{DType::kFloat16, false, 0.01},
                           Type{DType::kFloat32, true, 0.01}, Type{DType::kFloat32, false, 1e-4}}) {
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kDx, ConvPass::kDw}) {
      Convolution convolution(ProblemOf(pass, type.dtype, type.tf32));
      SCOPED_TRACE(KeyOf(convolution.problem()));
      const std::vector<std::string> candidates = convolution.Candidates();
      ASSERT_FALSE(candidates.empty());
      const std::string first =
          convolution.Choose({.measure = false, .folder = folder_.path(), .warn = {}});
      EXPECT_EQ(first, candidates[0]);
      const TestTensor want = convolution.Run();
      const std::string chosen = convolution.Choose({.measure = true, .folder = "", .warn = {}});
      EXPECT_TRUE(Contains(candidates, chosen)) << chosen;
      const TestTensor got = convolution.Run();
      ExpectClose(got, want, type.tolerance);
      EXPECT_TRUE(SameBits(convolution.Run(), got)) << "a second run has other bits";
    }
  }
  EXPECT_TRUE(folder_.Names().empty());
}

// What could be chosen gives the same result, too, and the same bits twice.
TEST_F(ConvChoiceTest, EveryCandidateGivesTheResultOfTheFirst) {
  PLIMSOLL_NEEDS_CUDA
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kDx, ConvPass::kDw}) {
    Convolution convolution(ProblemOf(pass, DType::kBFloat16));
    convolution.Choose({.measure = false, .folder = "", .warn = {}});
    const TestTensor want = convolution.Run();
    ChosenConvolution other{
        std::make_unique<CudnnConvolution>(convolution.problem(), convolution.libraries())};
    for (; other.plan < other.convolution->names().size(); ++other.plan) {
      if (!other.convolution->Build(other.plan)) continue;
      SCOPED_TRACE(other.name());
      EXPECT_LE(other.convolution->WorkspaceBytes(other.plan), kWorkspace);
      const TestTensor got = convolution.Run(other);
      ExpectClose(got, want, 0.01);
      EXPECT_TRUE(SameBits(convolution.Run(other), got)) << "a second run has other bits";
    }
  }
}

// Plans with one hash have the same bits, on other numbers, too.
TEST_F(ConvChoiceTest, AHashTellsWhichPlansGiveTheSameBits) {
  PLIMSOLL_NEEDS_CUDA
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kDx, ConvPass::kDw}) {
    Convolution convolution(ProblemOf(pass, DType::kFloat16));
    std::map<uint64_t, TestTensor> results;
    ChosenConvolution plan{
        std::make_unique<CudnnConvolution>(convolution.problem(), convolution.libraries())};
    for (; plan.plan < plan.convolution->names().size(); ++plan.plan) {
      if (!plan.convolution->Build(plan.plan)) continue;
      SCOPED_TRACE(plan.name());
      convolution.SetNumbers(1);
      convolution.Run(plan);
      const uint64_t hash = convolution.Hash();
      EXPECT_EQ(convolution.Hash(), hash);
      convolution.SetNumbers(11);
      const TestTensor got = convolution.Run(plan);
      EXPECT_NE(convolution.Hash(), hash) << "of other numbers";
      EXPECT_TRUE(SameBits(results.try_emplace(hash, got).first->second, got));
    }
    EXPECT_FALSE(results.empty());
  }
}

// Measuring would overwrite the result.
TEST_F(ConvChoiceTest, IsMeasuredOnceInAProcess) {
  PLIMSOLL_NEEDS_CUDA
  Convolution convolution(ProblemOf(ConvPass::kDx, DType::kBFloat16));
  convolution.FillResult();
  const TestTensor filled = convolution.Result();
  const std::string chosen = convolution.Choose({.measure = true, .folder = "", .warn = {}});
  EXPECT_FALSE(SameBits(convolution.Result(), filled));
  convolution.FillResult();
  convolution.Prepare();
  EXPECT_TRUE(SameBits(convolution.Result(), filled));
  EXPECT_EQ(FindConvolution(convolution.problem(), convolution.libraries())->name(), chosen);

  // Nor does a process measure that finds the file.
  convolution.Choose(Measured());
  convolution.FillResult();
  convolution.Choose(Measured());
  EXPECT_TRUE(SameBits(convolution.Result(), filled));
}

TEST_F(ConvChoiceTest, IsTheLibrarysOwnWhenTheEnvironmentSaysSo) {
  PLIMSOLL_NEEDS_CUDA
  Convolution convolution(ProblemOf(ConvPass::kForward, DType::kFloat16));
  setenv("PLIMSOLL_CUDA_GEMM", "first", 1);
  const std::string chosen =
      convolution.Choose({.measure = {}, .folder = folder_.path(), .warn = {}});
  unsetenv("PLIMSOLL_CUDA_GEMM");
  EXPECT_EQ(chosen, convolution.Candidates().at(0));
  EXPECT_TRUE(folder_.Names().empty());
  convolution.Choose({.measure = {}, .folder = folder_.path(), .warn = {}});
  EXPECT_EQ(folder_.Names().size(), 1u);
}

// Without Prepare() nothing is measured, and the file is not asked.
TEST_F(ConvChoiceTest, IsTheLibrarysOwnWhenNothingWasPrepared) {
  PLIMSOLL_NEEDS_CUDA
  Convolution convolution(ProblemOf(ConvPass::kDw, DType::kBFloat16));
  SetChoices(Measured());
  const ChosenConvolution* const chosen =
      FindConvolution(convolution.problem(), convolution.libraries());
  ASSERT_NE(chosen, nullptr);
  EXPECT_EQ(chosen->name(), convolution.Candidates().at(0));
  EXPECT_TRUE(folder_.Names().empty());
}

TEST_F(ConvChoiceTest, KeepsToTheWorkspace) {
  PLIMSOLL_NEEDS_CUDA
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kDx, ConvPass::kDw}) {
    ConvProblem problem = ProblemOf(pass, DType::kBFloat16);
    problem.workspace_limit = 0;
    gpu::Libraries libraries;
    CudnnConvolution plans(problem, libraries);
    for (size_t plan = 0; plan < plans.names().size(); ++plan) {
      if (!plans.Build(plan)) continue;
      EXPECT_EQ(plans.WorkspaceBytes(plan), 0) << plans.names()[plan];
    }
  }
}

TEST(ConvChoice, DependsOnAllOfTheProblem) {
  const ConvProblem problem = ProblemOf(ConvPass::kForward, DType::kFloat32);
  EXPECT_EQ(KeyOf(problem),
            "forward-f32-n8-c64,64-g1-in1x28x28-kernel1x3x3-out1x28x28-stride1x1x1-pad0x1x1-"
            "dilation1x1x1-align16-workspace16777216");
  std::vector<ConvProblem> others(14, problem);
  others[0].pass = ConvPass::kDx;
  others[1].dtype = DType::kBFloat16;
  others[2].tf32 = true;
  others[3].workspace_limit = 0;
  others[4].geometry.batch = 9;
  others[5].geometry.in_channels = 32;
  others[6].geometry.out_channels = 32;
  others[7].geometry.groups = 2;
  others[8].geometry.in[2] = 29;
  others[9].geometry.kernel[1] = 1;
  others[10].geometry.out[2] = 27;
  others[11].geometry.stride[0] = 2;
  others[12].geometry.pad[2] = 0;
  others[13].geometry.dilation[1] = 2;
  for (const ConvProblem& other : others) EXPECT_NE(KeyOf(other), KeyOf(problem)) << KeyOf(other);
}

}  // namespace
}  // namespace plimsoll::ops
