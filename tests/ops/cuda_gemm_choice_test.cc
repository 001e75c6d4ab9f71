// The file of measured matrix products, and that choices are repeatable.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cuda/products/gemm_cache.h"
#include "ops/cuda/products/gemm_choice.h"
#include "tests/ops/cuda_op_runner.h"
#include "tests/support/needs_cuda.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::ops {
namespace {

using graph::DType;

constexpr const char* kDevice = "a device, its library";

GemmMeasurements Some() {
  GemmMeasurements measurements;
  measurements["first-8x8x8"] = {{{1, 2, 3, 0xfedcba9876543210, 5, 6, 7, 8}}, 12.5};
  measurements["second"] = {{{9, 0, 0, 0, 0, 0, 0, 1}}, 0.125};
  return measurements;
}

std::string ErrorOf(const std::string& path, const std::string& device = kDevice) {
  try {
    ReadGemmMeasurements(path, device);
  } catch (const UserError& error) {
    return error.what();
  }
  return "none";
}

TEST(GemmCache, ReadsWhatWasWritten) {
  const TempFolder folder;
  const std::string path = folder / "below/products.txt";
  EXPECT_TRUE(ReadGemmMeasurements(path, kDevice).empty());
  WriteGemmMeasurements(path, kDevice, Some());
  const GemmMeasurements read = ReadGemmMeasurements(path, kDevice);
  ASSERT_EQ(read.size(), 2u);
  for (const auto& [key, measurement] : Some()) {
    ASSERT_TRUE(read.count(key)) << key;
    EXPECT_EQ(
        std::memcmp(&read.at(key).algorithm, &measurement.algorithm, sizeof(measurement.algorithm)),
        0);
    EXPECT_EQ(read.at(key).microseconds, measurement.microseconds);
  }
  EXPECT_EQ(folder.Names("below"), std::vector<std::string>{"products.txt"});
}

TEST(GemmCache, BelievesNoDamagedFile) {
  const TempFolder folder;
  const std::string path = folder / "products.txt";
  WriteGemmMeasurements(path, kDevice, Some());
  const std::string good = folder.Read("products.txt");
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 1;
    folder.Write("products.txt", bad);
    ASSERT_NE(ErrorOf(path), "none") << "byte " << i;
    folder.Write("products.txt", good.substr(0, i));
    ASSERT_NE(ErrorOf(path), "none") << "the first " << i << " bytes";
  }
  folder.Write("products.txt", good + good);
  EXPECT_NE(ErrorOf(path), "none");
}

TEST(GemmCache, IsOfOneDevice) {
  const TempFolder folder;
  const std::string path = folder / "products.txt";
  WriteGemmMeasurements(path, kDevice, Some());
  EXPECT_EQ(ErrorOf(path, "another"), path + ":2: of another device or cuBLAS");
}

// One product of some size, with everything that PrepareGemm needs.
class Product {
 public:
  Product() {
    problem_.m = problem_.n = problem_.k = 512;
    problem_.lda = problem_.ldb = problem_.ldc = 512;
    problem_.operands = problem_.result = DType::kBFloat16;
    buffers_.a = a_.data();
    buffers_.b = b_.data();
    buffers_.d = d_.data();
    buffers_.workspace = workspace_.get();
    buffers_.workspace_bytes = kGemmWorkspaceBytes;
  }

  // The choice of a process that starts now.
  cublasLtMatmulAlgo_t Choose(const GemmChoiceOptions& options) {
    SetGemmChoice(options);
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
  static TestTensor Numbers() { return Normal(DType::kBFloat16, {512, 512}, 1); }
  gpu::Libraries libraries_;
  CudaTensor a_{Numbers()}, b_{Numbers()}, d_{Numbers()};
  std::shared_ptr<void> workspace_ = CudaMemory(kGemmWorkspaceBytes);
  GemmProblem problem_;
  GemmBuffers buffers_;
};

bool Equal(const cublasLtMatmulAlgo_t& a, const cublasLtMatmulAlgo_t& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(GemmChoice, IsTakenFromTheFile) {
  PLIMSOLL_NEEDS_CUDA
  const TempFolder folder;
  std::vector<std::string> warnings;
  const GemmChoiceOptions options{.measure = true,
                                  .folder = folder.path(),
                                  .warn = [&](auto& text) { warnings.push_back(text); }};
  Product product;
  const cublasLtMatmulAlgo_t first = product.Choose(options);
  const std::vector<std::string> names = folder.Names();
  ASSERT_EQ(names.size(), 1u);
  const std::string path = folder / names[0], written = folder.Read(names[0]);
  EXPECT_TRUE(Equal(product.Choose(options), first));
  EXPECT_EQ(folder.Read(names[0]), written) << "nothing was measured again";

  // Any entry in the file is used, if the library accepts it.
  const std::string device = written.substr(written.find('\n') + 1);
  const std::string name = device.substr(0, device.find('\n'));
  GemmMeasurements measured = ReadGemmMeasurements(path, name);
  ASSERT_TRUE(measured.count(product.key()));
  const std::vector<cublasLtMatmulAlgo_t> candidates = product.Candidates();
  ASSERT_GT(candidates.size(), 1u);
  measured[product.key()].algorithm = candidates.back();
  WriteGemmMeasurements(path, name, measured);
  EXPECT_TRUE(Equal(product.Choose(options), candidates.back()));
  EXPECT_TRUE(warnings.empty());

  folder.Write(names[0], "nonsense\n");
  product.Choose(options);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0],
            path + ":1: damaged: its checksum does not fit; algorithms are chosen anew");
  EXPECT_EQ(ReadGemmMeasurements(path, name).size(), 1u);
  SetGemmChoice({});
}

TEST(GemmChoice, IsTheLibrarysOwnWhenNothingIsMeasured) {
  PLIMSOLL_NEEDS_CUDA
  const TempFolder folder;
  Product product;
  const cublasLtMatmulAlgo_t chosen =
      product.Choose({.measure = false, .folder = folder.path(), .warn = {}});
  EXPECT_TRUE(Equal(chosen, product.Candidates()[0]));
  EXPECT_TRUE(folder.Names().empty());
  SetGemmChoice({});
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
  SetGemmChoice({});
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
  SetGemmChoice({});
}

}  // namespace
}  // namespace plimsoll::ops
