#include <fmt/format.h>

#include <cstring>

#include "base/thread_pool.h"
#include "bench/gemm_peak.h"
#include "bench/op_device.h"
#include "bench/training.h"
#include "tests/ops/op_runner.h"

namespace plimsoll::bench {
namespace {

// Seconds of the fastest of several runs.
double Fastest(const std::function<void()>& run) {
  double fastest = SecondsOf(run), all = fastest;
  for (int i = 1; i < 30 && (i < 4 || all < 3); ++i) {
    const double seconds = SecondsOf(run);
    fastest = std::min(fastest, seconds);
    all += seconds;
  }
  return fastest;
}

runtime::Ceilings CpuCeilings(int threads) {
  ThreadPool pool(threads);
  const double flops = 1e9 * MeasureGemmPeak(pool).gflops;
  constexpr int64_t kBytes = int64_t{1} << 28;
  const std::vector<char> from(kBytes, 1);
  std::vector<char> to(kBytes);
  const double seconds = Fastest([&] {
    pool.ParallelFor(kBytes, kBytes / 64, [&](int64_t begin, int64_t end) {
      std::memcpy(&to[begin], &from[begin], static_cast<size_t>(end - begin));
    });
  });
  return {2.0 * kBytes / seconds, flops, flops, flops};
}

}  // namespace

OpDevice CpuOps(int threads) {
  return {
      fmt::format("{} threads", threads), CpuCeilings(threads), [threads](const OpCase& of) {
        std::vector<std::unique_ptr<ops::OpRunner>> runners;
        for (const CaseCall& call : of.calls) {
          runners.push_back(RunnerOf<ops::OpRunner, ops::TestTensor>(call, std::memcpy, threads));
        }
        return Fastest([&] {
          for (const auto& runner : runners) runner->Run();
        });
      }};
}

}  // namespace plimsoll::bench
