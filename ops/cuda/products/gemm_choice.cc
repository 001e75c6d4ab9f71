#include "ops/cuda/products/gemm_choice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/message.h"
#include "gpu/check.h"
#include "ops/cuda/products/gemm_cache.h"

namespace plimsoll::ops {
namespace {

// Number requested from cuBLAS, which sorts them by its own estimate.
constexpr int kCandidates = 16;
constexpr int kRounds = 7;
// A timing is of one call or more, and about this long; before the first the GPU is kept busy for
// kWarmUp, since it computes faster for a moment after a rest.
constexpr double kTiming = 300;    // µs
constexpr double kWarmUp = 30000;  // µs
constexpr int kMostCalls = 50;
// Candidates slower than the fastest by more than this factor are not timed again; the number timed
// again is limited too.
constexpr double kHopeless = 1.15;
constexpr size_t kFinalists = 12;
// Smaller products are not worth a wider search.
constexpr double kLargeProduct = 5e9;  // FLOPs
// A later candidate must win by more than noise, so that choices are repeatable.
constexpr double kTie = 1.01;

class Event {
 public:
  Event() { gpu::Check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

double Microseconds(const Event& begin, const Event& end) {
  float milliseconds = 0;
  gpu::Check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return 1000.0 * milliseconds;
}

struct Timed {
  cublasLtMatmulAlgo_t algorithm;
  double first = 0;            // µs of one call, after the one that loads the kernel
  std::vector<double> rounds;  // µs of several

  double median() {
    std::sort(rounds.begin(), rounds.end());
    return rounds[rounds.size() / 2];
  }
};

class Measuring {
 public:
  Measuring(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call)
      : handle_(libraries.cublas_lt()), stream_(stream), call_(call) {}

  // The fastest candidate, or for a large product the fastest variation.
  GemmMeasurement Fastest(const std::vector<cublasLtMatmulAlgo_t>& candidates) {
    std::vector<Timed> timed;
    for (const cublasLtMatmulAlgo_t& algorithm : candidates) Try(algorithm, timed);
    if (call_.flops() >= kLargeProduct) TryVariations(timed);
    const auto by_first = [](const Timed& a, const Timed& b) { return a.first < b.first; };
    const double fastest = std::min_element(timed.begin(), timed.end(), by_first)->first;
    std::erase_if(timed, [&](const Timed& t) { return t.first > kHopeless * fastest; });
    if (timed.size() > kFinalists) {
      std::stable_sort(timed.begin(), timed.end(), by_first);
      timed.resize(kFinalists);
    }
    if (timed.size() == 1) return {timed[0].algorithm, timed[0].first};
    TakeTurns(timed, fastest);
    double best = timed[0].median();
    for (Timed& t : timed) best = std::min(best, t.median());
    const auto chosen = std::find_if(timed.begin(), timed.end(),
                                     [&](Timed& t) { return t.median() <= kTie * best; });
    return {chosen->algorithm, chosen->median()};
  }

 private:
  void Record(const Event& event) {
    gpu::Check(cudaEventRecord(event.get(), stream_), "cudaEventRecord");
  }
  void Run(const Timed& t, int calls) {
    for (int i = 0; i < calls; ++i) call_.Run(handle_, stream_, t.algorithm);
  }

  // Times one call of the algorithm, unless it has been timed already.
  void Try(const cublasLtMatmulAlgo_t& algorithm, std::vector<Timed>& timed) {
    const auto same = [&](const Timed& t) {
      return std::memcmp(&t.algorithm, &algorithm, sizeof(algorithm)) == 0;
    };
    if (std::any_of(timed.begin(), timed.end(), same)) return;
    timed.push_back({algorithm, 0, {}});
    Run(timed.back(), 1);
    Event begin, end;
    Record(begin);
    Run(timed.back(), 1);
    Record(end);
    gpu::Check(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    timed.back().first = Microseconds(begin, end);
  }

  // cuBLAS lists 8 of a Hopper kernel's several hundred variations, and often another is the
  // fastest. So first tries each tile in each cluster, then the best of these with every order of
  // tiles.
  void TryVariations(std::vector<Timed>& timed) {
    const std::vector<Timed> named = timed;
    std::set<uint32_t> tiles = {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_MATMUL_TILE_128x160,
                                CUBLASLT_MATMUL_TILE_176x128, CUBLASLT_MATMUL_TILE_192x128,
                                CUBLASLT_MATMUL_TILE_320x64,  CUBLASLT_MATMUL_TILE_320x128};
    for (const Timed& t : named) {
      if (const auto variation = GemmCall::VariationOf(t.algorithm)) tiles.insert(variation->tile);
    }
    const auto first = GemmCall::VariationOf(named[0].algorithm);
    if (!first) return;
    for (uint32_t tile : tiles) {
      for (uint32_t cluster : {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1,
                               CUBLASLT_CLUSTER_SHAPE_1x2x1}) {
        const auto varied =
            call_.Varied(handle_, named[0].algorithm, {tile, cluster, first->order});
        if (varied) Try(*varied, timed);
      }
    }
    constexpr size_t kVariedFurther = 6;
    constexpr uint32_t kOrders = 8;
    std::vector<Timed> best = timed;
    std::stable_sort(best.begin(), best.end(),
                     [](const Timed& a, const Timed& b) { return a.first < b.first; });
    if (best.size() > kVariedFurther) best.resize(kVariedFurther);
    for (const Timed& t : best) {
      auto variation = GemmCall::VariationOf(t.algorithm);
      if (!variation) continue;
      for (variation->order = 0; variation->order < kOrders; ++variation->order) {
        if (const auto varied = call_.Varied(handle_, t.algorithm, *variation)) {
          Try(*varied, timed);
        }
      }
    }
  }

  // Runs without a pause, so that all are timed at the clock that the GPU keeps under load.
  void TakeTurns(std::vector<Timed>& timed, double fastest) {
    const int calls = std::clamp(static_cast<int>(kTiming / fastest), 1, kMostCalls);
    const int turns =
        static_cast<int>(kWarmUp / (fastest * calls * static_cast<double>(timed.size())));
    for (int turn = 0; turn < std::min(turns, 4 * kRounds); ++turn) {
      for (const Timed& t : timed) Run(t, calls);
    }
    std::vector<Event> events(kRounds * timed.size() + 1);
    size_t next = 0;
    Record(events[next++]);
    for (int round = 0; round < kRounds; ++round) {
      for (const Timed& t : timed) {
        Run(t, calls);
        Record(events[next++]);
      }
    }
    gpu::Check(cudaEventSynchronize(events.back().get()), "cudaEventSynchronize");
    next = 0;
    for (int round = 0; round < kRounds; ++round) {
      for (Timed& t : timed) {
        t.rounds.push_back(Microseconds(events[next], events[next + 1]) / calls);
        ++next;
      }
    }
  }

  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  const GemmCall& call_;
};

std::string CacheFolder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/plimsoll";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::string(home) + "/.cache/plimsoll";
  }
  return "";
}

// Locks a folder, which is created if need be, for one process at a time. If it can't be locked,
// each process goes on as if it were alone.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    handle_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (handle_ >= 0) flock(handle_, LOCK_EX);
  }
  ~FolderLock() {
    if (handle_ >= 0) close(handle_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int handle_ = -1;
};

// This process's choices for each device that it uses.
class Choices {
 public:
  static Choices& Get() {
    static Choices choices;
    return choices;
  }

  void Reset(GemmChoiceOptions options) {
    const std::lock_guard lock(mutex_);
    options_ = std::move(options);
    devices_.clear();
    warned_ = false;
  }

  std::optional<cublasLtMatmulAlgo_t> Find(gpu::Libraries& libraries, const GemmCall& call) {
    const std::lock_guard lock(mutex_);
    Device& device = DeviceOf(libraries);
    const auto known = device.chosen.find(call.key());
    if (known != device.chosen.end()) return known->second;
    const std::optional<cublasLtMatmulAlgo_t> first = First(libraries, call);
    device.chosen.emplace(call.key(), first);
    return first;
  }

  void Choose(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call) {
    const std::lock_guard lock(mutex_);
    Device& device = DeviceOf(libraries);
    if (!device.prepared.emplace(call.key(), true).second) return;
    if (!Measures()) {
      device.chosen[call.key()] = First(libraries, call);
      return;
    }
    const auto known = device.measured.find(call.key());
    if (known != device.measured.end() &&
        call.Accepts(libraries.cublas_lt(), known->second.algorithm)) {
      device.chosen[call.key()] = known->second.algorithm;
      return;
    }
    std::vector<cublasLtMatmulAlgo_t> candidates =
        call.Candidates(libraries.cublas_lt(), kCandidates);
    if (candidates.empty()) {
      device.chosen[call.key()] = std::nullopt;
      return;
    }
    if (options_.forms) {
      for (const cublasLtMatmulAlgo_t& form : call.Forms()) candidates.push_back(form);
    }
    const GemmMeasurement fastest = Measuring(libraries, stream, call).Fastest(candidates);
    const GemmMeasurement kept = Keep(device, libraries, call, fastest);
    device.chosen[call.key()] = kept.algorithm;
    device.measured[call.key()] = kept;
  }

 private:
  struct Device {
    std::string name;
    std::string path;  // of its file; empty: none
    GemmMeasurements measured;
    std::map<std::string, bool> prepared;
    std::map<std::string, std::optional<cublasLtMatmulAlgo_t>> chosen;
  };

  bool Measures() const {
    if (options_.measure) return *options_.measure;
    const char* const choice = std::getenv("PLIMSOLL_CUDA_GEMM");
    return choice == nullptr || std::string_view(choice) != "first";
  }

  static std::optional<cublasLtMatmulAlgo_t> First(gpu::Libraries& libraries,
                                                   const GemmCall& call) {
    const std::vector<cublasLtMatmulAlgo_t> candidates =
        call.Candidates(libraries.cublas_lt(), kCandidates);
    if (candidates.empty()) return std::nullopt;
    return candidates[0];
  }

  Device& DeviceOf(gpu::Libraries& libraries) {
    const cudaDeviceProp& p = libraries.properties();
    const std::string name =
        fmt::format("{}, compute capability {}.{}, {} multiprocessors, cublasLt {}", p.name,
                    p.major, p.minor, p.multiProcessorCount, cublasLtGetVersion());
    const auto [place, added] = devices_.try_emplace(name);
    Device& device = place->second;
    if (!added) return device;
    device.name = name;
    const std::string folder = options_.folder ? *options_.folder : CacheFolder();
    if (!Measures() || folder.empty()) return device;
    std::string file;
    for (char c : name) {
      if (c != ',') file += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
    }
    device.path = fmt::format("{}/matrix-products-{}.txt", folder, file);
    try {
      device.measured = ReadGemmMeasurements(device.path, device.name);
    } catch (const UserError& problem) {
      Warn(fmt::format("{}; algorithms are chosen anew", problem.what()));
    }
    return device;
  }

  // The next run will use what is in the file. Ranks of one host measure at the same time and may
  // find different algorithms fastest: all ranks take the one that was stored first, so that this
  // run has the same bits as the next. Returns the stored choice.
  GemmMeasurement Keep(const Device& device, gpu::Libraries& libraries, const GemmCall& call,
                       const GemmMeasurement& fastest) {
    if (device.path.empty()) return fastest;
    const FolderLock lock(std::filesystem::path(device.path).parent_path());
    GemmMeasurements all = device.measured;
    try {
      for (const auto& [key, measurement] : ReadGemmMeasurements(device.path, device.name)) {
        all[key] = measurement;
      }
    } catch (const UserError&) {  // a warning was given at the first read; the file is replaced
    }
    const auto known = all.find(call.key());
    if (known != all.end() && call.Accepts(libraries.cublas_lt(), known->second.algorithm)) {
      return known->second;
    }
    all[call.key()] = fastest;
    try {
      WriteGemmMeasurements(device.path, device.name, all);
    } catch (const UserError& problem) {
      if (!warned_) {
        Warn(fmt::format("{}; the next run chooses algorithms anew", problem.what()));
      }
      warned_ = true;
    }
    return fastest;
  }

  void Warn(const std::string& message) const {
    if (options_.warn) {
      options_.warn(message);
    } else {
      PrintWarning(message);
    }
  }

  std::mutex mutex_;
  GemmChoiceOptions options_;
  std::map<std::string, Device> devices_;
  bool warned_ = false;
};

}  // namespace

void SetGemmChoice(GemmChoiceOptions options) { Choices::Get().Reset(std::move(options)); }

std::optional<cublasLtMatmulAlgo_t> ChosenAlgorithm(gpu::Libraries& libraries,
                                                    const GemmCall& call) {
  return Choices::Get().Find(libraries, call);
}

void ChooseAlgorithm(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call) {
  Choices::Get().Choose(libraries, stream, call);
}

}  // namespace plimsoll::ops
