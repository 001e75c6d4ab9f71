#include "app/info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/trainer/run_plimsoll.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

HostFacts Host() { return {"EPYC", 16, 128 * kGiB, 100 * kGiB}; }

runtime::GpuReport TwoGpus() {
  runtime::GpuReport report;
  report.cuda_build = true;
  report.architectures = "90";
  report.cuda_version = 13000;
  report.driver_version = "580.95.05";
  report.driver_cuda_version = 13010;
  report.libraries = {{"cuDNN", "9.19.0", "9.19.0"}, {"NCCL", "", ""}};
  runtime::GpuFacts gpu;
  gpu.name = "NVIDIA H200";
  gpu.pci_bus_id = "00000000:00:06.0";
  gpu.capability = {9, 0};
  gpu.multiprocessors = 132;
  gpu.total_bytes = 140 * kGiB;
  gpu.free_bytes = 139 * kGiB;
  gpu.visible = gpu.has_code = true;
  gpu.links = {"", "NVLink"};
  report.gpus = {gpu, gpu};
  return report;
}

TEST(Info, Text) {
  const std::string text = InfoText(Host(), TwoGpus());
  for (const char* part :
       {"with CUDA 13.0 for compute capabilities 90", "EPYC, 16 cores", "100 GiB of 128 GiB",
        "580.95.05, runs CUDA up to 13.1", "cuDNN 9.19.0, NCCL not found",
        "GPU 0        NVIDIA H200, 00000000:00:06.0, compute capability 9.0, 132 multiprocessors; "
        "139 GiB of 140 GiB free\n",
        "GPU 0 – GPU 1: NVLink", "means cuda", "problems     none"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  runtime::GpuReport none;
  none.driver_problem = "there is no NVIDIA driver";
  const std::string cpu = InfoText(Host(), none);
  for (const char* part : {"without CUDA", "driver       none", "means cpu",
                           "problems     there is no NVIDIA driver; install one"}) {
    EXPECT_THAT(cpu, HasSubstr(part));
  }
  EXPECT_THAT(cpu, Not(HasSubstr("libraries")));
}

TEST(Info, Json) {
  runtime::GpuReport report = TwoGpus();
  report.gpus[1].has_code = false;
  const json info = json::parse(InfoJson(Host(), report));
  EXPECT_EQ(info["device_auto"], "cuda");
  EXPECT_EQ(info["gpus"].size(), 2u);
  EXPECT_EQ(info["gpus"][0]["free_bytes"], 139 * kGiB);
  EXPECT_EQ(info["gpus"][1]["has_code"], false);
  EXPECT_EQ(info["problems"].size(), 1u);
  EXPECT_EQ(info["libraries"][0]["found"], "9.19.0");
}

TEST(Info, TheCommandAnswersOnAnyMachine) {
  const Outcome text = ExpectExit(0, RunPlimsoll({"info"}));
  EXPECT_THAT(text.out, HasSubstr("device: auto means "));
  const Outcome outcome = ExpectExit(0, RunPlimsoll({"info", "--json"}));
  const json info = json::parse(outcome.out);
  EXPECT_GT(info["available_bytes"].get<int64_t>(), 0);
  // Without a GPU that works, the reason is given.
  EXPECT_EQ(info["device_auto"] == "cpu", std::ranges::any_of(info["problems"], [](const json& p) {
              return p["stops_cuda"].get<bool>();
            }));
}

}  // namespace
}  // namespace plimsoll::trainer
