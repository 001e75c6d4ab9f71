// Measured matrix products: their words in the file, and that choices are repeatable.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/choices/choice_store.h"
#include "ops/cuda/products/gemm.h"
#include "ops/cuda/products/gemm_choice.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

bool Equal(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(GemmChoice, IsAWordOfHexadecimalDigits) {
  const cublasLtMatmulAlgo_t algorithm{{1, 2, 3, 0xfedcba9876543210, 5, 6, 7, 8}};
  const std::string word = EncodeAlgorithm(algorithm);
  EXPECT_EQ(word.size(), 128u);
  EXPECT_EQ(word.substr(32, 32), "0000000000000003fedcba9876543210");
  ASSERT_TRUE(DecodeAlgorithm(word));
  EXPECT_TRUE(Equal(*DecodeAlgorithm(word), algorithm));
  EXPECT_FALSE(DecodeAlgorithm(word + "0"));
  EXPECT_FALSE(DecodeAlgorithm(word.substr(1)));
  EXPECT_FALSE(DecodeAlgorithm("x" + word.substr(1)));
}

// One product of some size, with everything that PrepareGemm needs.
class Product {
 public:
  Product() {
    problem_.m = problem_.n = problem_.k = 512;
    problem_.lda = problem_.ldb = problem_.ldc = 512;
    problem_.type_a = problem_.type_b = problem_.result = DType::kBFloat16;
    buffers_.a = a_.data();
    buffers_.b = b_.data();
    buffers_.d = d_.data();
    buffers_.workspace = workspace_.get();
    buffers_.workspace_bytes = kGemmWorkspaceBytes;
  }

  // The choice of a process that starts now.
  cublasLtMatmulAlgo_t Choose(const ChoiceOptions& options) {
    SetChoices(options);
    PrepareGemm(libraries_, nullptr, problem_, buffers_);
    Gemm(libraries_, nullptr, problem_, buffers_);
    gpu::Check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return *ChosenAlgorithm(libraries_, GemmCall(problem_, buffers_));
  }
  std::vector<cublasLtMatmulAlgo_t> Candidates() {
    return GemmCall(problem_, buffers_).Candidates(libraries_.cublas_lt(), 16);
  }
  std::string key() const { return GemmCall(problem_, buffers_).key(); }

 private:
  static TestTensor Numbers() { return NormalValues(DType::kBFloat16, {512, 512}, 1); }
  gpu::Libraries libraries_;
  CudaTensor a_{Numbers()}, b_{Numbers()}, d_{Numbers()};
  std::shared_ptr<void> workspace_ = CudaMemory(kGemmWorkspaceBytes);
  GemmProblem problem_;
  GemmBuffers buffers_;
};

TEST(GemmChoice, IsTakenFromTheFile) {
  PLIMSOLL_NEEDS_CUDA
  const TempFolder folder;
  std::vector<std::string> warnings;
  const ChoiceOptions options{.measure = true, .folder = folder.path(), .warn = [&](auto& text) {
                                warnings.push_back(text);
                              }};
  Product product;
  const cublasLtMatmulAlgo_t first = product.Choose(options);
  const std::vector<std::string> names = folder.Names();
  ASSERT_EQ(names.size(), 1u);
  const std::string written = folder.Read(names[0]);
  EXPECT_TRUE(Equal(product.Choose(options), first));
  EXPECT_EQ(folder.Read(names[0]), written) << "nothing was measured again";

  // Any entry in the file is used, if the library accepts it.
  const std::string device = written.substr(written.find('\n') + 1);
  const ChoiceFile file{folder / names[0], "plimsoll matrix products 4",
                        device.substr(0, device.find('\n'))};
  Choices measured = ReadChoices(file);
  ASSERT_TRUE(measured.count(product.key()));
  const std::vector<cublasLtMatmulAlgo_t> candidates = product.Candidates();
  ASSERT_GT(candidates.size(), 1u);
  measured[product.key()].way = EncodeAlgorithm(candidates.back());
  WriteChoices(file, measured);
  EXPECT_TRUE(Equal(product.Choose(options), candidates.back()));
  EXPECT_TRUE(warnings.empty());

  folder.Write(names[0], "nonsense\n");
  product.Choose(options);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            file.path + ":1: damaged: its checksum does not fit; algorithms are chosen anew");
  EXPECT_EQ(ReadChoices(file).size(), 1u);
  SetChoices({});
}

TEST(GemmChoice, IsTheLibrarysOwnWhenNothingIsMeasured) {
  PLIMSOLL_NEEDS_CUDA
  const TempFolder folder;
  Product product;
  const cublasLtMatmulAlgo_t chosen =
      product.Choose({.measure = false, .folder = folder.path(), .warn = {}});
  EXPECT_TRUE(Equal(chosen, product.Candidates()[0]));
  EXPECT_TRUE(folder.Names().empty());
  SetChoices({});
}

TEST(GemmChoice, IsTheLibrarysOwnWhenTheEnvironmentSaysSo) {
  PLIMSOLL_NEEDS_CUDA
  const TempFolder folder;
  Product product;
  setenv("PLIMSOLL_CUDA_GEMM", "first", 1);
  product.Choose({.measure = {}, .folder = folder.path(), .warn = {}});
  unsetenv("PLIMSOLL_CUDA_GEMM");
  EXPECT_TRUE(folder.Names().empty());
  product.Choose({.measure = {}, .folder = folder.path(), .warn = {}});
  EXPECT_EQ(folder.Names().size(), 1u);
  SetChoices({});
}

TEST(GemmChoice, WarnsOnceOfAFolderThatCannotBeWritten) {
  PLIMSOLL_NEEDS_CUDA
  std::vector<std::string> warnings;
  Product product;
  product.Choose({.measure = true, .folder = "/dev/null/none", .warn = [&](auto& text) {
                    warnings.push_back(text);
                  }});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("/dev/null/none"), std::string::npos) << warnings[0];
  SetChoices({});
}

}  // namespace
}  // namespace plimsoll::ops
