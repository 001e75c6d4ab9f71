// The problems reported for a machine, tested with made-up machines.
#include "runtime/cuda/gpu_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::runtime {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kGiB = int64_t{1} << 30;

GpuReport Sound() {
  GpuReport report;
  report.cuda_build = true;
  report.architectures = "90";
  report.cuda_version = 13000;
  report.driver_version = "580.95.05";
  report.driver_cuda_version = 13000;
  report.libraries = {{"cuBLASLt", "13.1.0", "13.1.0"}, {"NCCL", "", ""}};
  GpuFacts gpu;
  gpu.name = "NVIDIA H200";
  gpu.capability = {9, 0};
  gpu.total_bytes = 140 * kGiB;
  gpu.free_bytes = 139 * kGiB;
  gpu.visible = gpu.has_code = true;
  report.gpus = {gpu};
  return report;
}

// The only problem of a machine; `stops` says whether it keeps CUDA from running.
void ExpectProblem(const GpuReport& report, bool stops, const std::vector<std::string>& parts) {
  const std::vector<GpuProblem> problems = FindProblems(report);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].stops, stops);
  EXPECT_EQ(problems[0].text.find('\n'), std::string::npos);
  for (const std::string& part : parts) EXPECT_THAT(problems[0].text, HasSubstr(part));
}

TEST(GpuReport, NothingIsWrongWithASoundMachine) { EXPECT_THAT(FindProblems(Sound()), IsEmpty()); }

TEST(GpuReport, NoDriver) {
  GpuReport report = Sound();
  report.driver_problem = "there is no NVIDIA driver on this machine";
  ExpectProblem(report, true, {"no NVIDIA driver", "device: cpu"});
}

TEST(GpuReport, NoGpu) {
  GpuReport report = Sound();
  report.gpus.clear();
  ExpectProblem(report, true, {"sees no GPU", "--gpus all"});
}

TEST(GpuReport, ABuildWithoutCuda) {
  GpuReport report = Sound();
  report.cuda_build = false;
  ExpectProblem(report, true, {"--config=cuda"});
}

TEST(GpuReport, AnOldDriver) {
  GpuReport report = Sound();
  report.driver_version = "535.104";
  report.driver_cuda_version = 12020;
  ExpectProblem(report, true, {"535.104", "12.2", "13.0", "newer driver"});
}

TEST(GpuReport, AllGpusHidden) {
  GpuReport report = Sound();
  report.gpus[0].visible = report.gpus[0].has_code = false;
  report.visible_devices_set = true;
  ExpectProblem(report, true, {"CUDA_VISIBLE_DEVICES=''", "unset"});
  report.visible_devices_set = false;
  report.cuda_problem = "unknown error";
  ExpectProblem(report, true, {"unknown error"});
}

TEST(GpuReport, AGpuWithoutCode) {
  GpuReport report = Sound();
  report.gpus[0].capability = {8, 6};
  report.gpus[0].has_code = false;
  ExpectProblem(report, true, {"8.6", "(it has: 90)", "CUDA_ARCHITECTURES=86"});
  report.gpus.push_back(Sound().gpus[0]);  // another GPU can do the work
  ExpectProblem(report, false, {"GPU 0"});
}

TEST(GpuReport, MemoryHeldByAnother) {
  GpuReport report = Sound();
  report.gpus[0].free_bytes = 24 * kGiB;
  report.gpus[0].holders = {{4711, 116 * kGiB, "/usr/bin/python3"}};
  ExpectProblem(report, false,
                {"24.0 GiB of 140 GiB free", "process 4711 (python3) holds 116 GiB"});
}

TEST(GpuReport, OtherVersionsOfLibraries) {
  GpuReport report = Sound();
  report.libraries = {{"cuDNN", "9.14.0", "9.19.0"}};
  ExpectProblem(report, false, {"cuDNN 9.14.0", "9.19.0"});
  report.libraries = {{"cuDNN", "8.9.7", "9.19.0"}};
  ExpectProblem(report, true, {"install cuDNN 9"});
}

TEST(GpuReport, LooksAtThisMachine) {
  const GpuReport report = InspectGpus();
  EXPECT_EQ(report.driver_version.empty(), !report.driver_problem.empty());
  for (const GpuFacts& gpu : report.gpus) {
    EXPECT_GT(gpu.total_bytes, 0);
    EXPECT_LE(gpu.free_bytes, gpu.total_bytes);
    EXPECT_EQ(gpu.links.size(), report.gpus.size());
  }
}

TEST(GpuMemory, NamesTheHolders) {
  GpuMemory memory;
  EXPECT_EQ(memory.DescribeOthers(), "");
  memory.others = {{1, 3 * kGiB, "/bin/a"}, {2, std::nullopt, ""}};
  EXPECT_EQ(memory.DescribeOthers(),
            "process 1 (a) holds 3.00 GiB, process 2 holds an unknown amount");
}

TEST(GpuMemory, MeasuresThisMachine) {
  const std::optional<GpuMeter> meter = GpuMeter::Find();
  if (!meter) GTEST_SKIP() << "no NVIDIA driver on this machine";
  EXPECT_GT(meter->Measure().total, 0);
  EXPECT_GE(meter->MeasureProcess().bytes, 0);
}

}  // namespace
}  // namespace plimsoll::runtime
