#include "ops/cuda/products/gemm_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "ops/cuda/choices/choice_options.h"
#include "ops/cuda/choices/choice_store.h"
#include "ops/cuda/choices/device_name.h"
#include "ops/cuda/choices/fastest.h"

namespace plimsoll::ops {
namespace {

// The number of candidates requested from cuBLAS, which sorts them by its own estimate.
constexpr int kCandidates = 16;
// Smaller products are not worth a wider search.
constexpr double kLargeProduct = 5e9;  // FLOPs
constexpr size_t kWordDigits = 16;

class Measuring {
 public:
  Measuring(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call)
      : handle_(libraries.cublas_lt()),
        stream_(stream),
        call_(call),
        search_(stream, call.Results()) {}

  // The fastest candidate, or for a large product the fastest variation.
  Choice Fastest(const std::vector<cublasLtMatmulAlgo_t>& candidates) {
    for (const cublasLtMatmulAlgo_t& algorithm : candidates) Try(algorithm);
    if (call_.flops() >= kLargeProduct) TryVariations();
    const FastestSearch::Result fastest = search_.Fastest();
    return {EncodeAlgorithm(timed_[fastest.candidate].algorithm), fastest.microseconds};
  }

 private:
  struct Timed {
    cublasLtMatmulAlgo_t algorithm;
    TimedWay way;  // the time of one call
  };

  // Times one call of the algorithm, unless it has been timed already.
  void Try(const cublasLtMatmulAlgo_t& algorithm) {
    const auto same = [&](const Timed& t) {
      return std::memcmp(&t.algorithm, &algorithm, sizeof(algorithm)) == 0;
    };
    if (std::any_of(timed_.begin(), timed_.end(), same)) return;
    timed_.push_back(
        {algorithm, search_.Try([this, algorithm] { call_.Run(handle_, stream_, algorithm); })});
  }

  // cuBLAS lists 8 of a Hopper kernel's several hundred variations, and often another one is the
  // fastest. So first each tile is tried in each cluster, then the best of these with every order
  // of tiles. Only ways with the bits of cuBLAS's favourite are varied further, so that the fastest
  // time with these bits does not depend on how fast other ways are.
  void TryVariations() {
    const std::vector<Timed> named = timed_;
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
        if (varied) Try(*varied);
      }
    }
    constexpr size_t kVariedFurther = 6;
    constexpr uint32_t kOrders = 8;
    std::vector<Timed> best = timed_;
    std::erase_if(best, [&](const Timed& t) { return t.way.bits != timed_[0].way.bits; });
    std::stable_sort(best.begin(), best.end(), [](const Timed& a, const Timed& b) {
      return a.way.microseconds < b.way.microseconds;
    });
    if (best.size() > kVariedFurther) best.resize(kVariedFurther);
    for (const Timed& t : best) {
      auto variation = GemmCall::VariationOf(t.algorithm);
      if (!variation) continue;
      for (variation->order = 0; variation->order < kOrders; ++variation->order) {
        if (const auto varied = call_.Varied(handle_, t.algorithm, *variation)) {
          Try(*varied);
        }
      }
    }
  }

  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  const GemmCall& call_;
  FastestSearch search_;
  std::vector<Timed> timed_;  // times, in the order of the search's candidates
};

// This process's choices for each kind of device that it uses.
class GemmChoices {
 public:
  static GemmChoices& Get() {
    static GemmChoices choices;
    return choices;
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
    if (!device.prepared.insert(call.key()).second) return;
    device.chosen[call.key()] = MeasuresChoices() ? Measured(device.store, libraries, stream, call)
                                                  : First(libraries, call);
  }

 private:
  struct Device {
    explicit Device(const std::string& name)
        : store("matrix-products", "plimsoll matrix products 4", name) {}

    ChoiceStore store;
    std::set<std::string> prepared;
    std::map<std::string, std::optional<cublasLtMatmulAlgo_t>> chosen;
  };

  static std::optional<cublasLtMatmulAlgo_t> First(gpu::Libraries& libraries,
                                                   const GemmCall& call) {
    const std::vector<cublasLtMatmulAlgo_t> candidates =
        call.Candidates(libraries.cublas_lt(), kCandidates);
    if (candidates.empty()) return std::nullopt;
    return candidates[0];
  }

  static std::optional<cublasLtMatmulAlgo_t> Measured(ChoiceStore& store, gpu::Libraries& libraries,
                                                      cudaStream_t stream, const GemmCall& call) {
    const auto accepted = [&](const std::string& way) {
      const auto algorithm = DecodeAlgorithm(way);
      return algorithm && call.Accepts(libraries.cublas_lt(), *algorithm);
    };
    const auto measure = [&]() -> std::optional<Choice> {
      std::vector<cublasLtMatmulAlgo_t> candidates =
          call.Candidates(libraries.cublas_lt(), kCandidates);
      if (candidates.empty()) return std::nullopt;
      const ChoiceOptions& options = CurrentChoiceOptions();
      const std::vector<cublasLtMatmulAlgo_t> forms = call.Forms();
      if (!options.gemm_library && !forms.empty()) candidates.clear();
      if (options.gemm_forms) candidates.insert(candidates.end(), forms.begin(), forms.end());
      return Measuring(libraries, stream, call).Fastest(candidates);
    };
    const std::optional<std::string> way = store.Choose(call.key(), accepted, measure);
    return way ? DecodeAlgorithm(*way) : std::nullopt;
  }

  Device& DeviceOf(gpu::Libraries& libraries) {
    if (generation_ != ChoiceGeneration()) devices_.clear();
    generation_ = ChoiceGeneration();
    const std::string name = NameWithLibrary(libraries, "cublasLt", cublasLtGetVersion());
    return devices_.try_emplace(name, name).first->second;
  }

  std::mutex mutex_;
  uint64_t generation_ = 0;
  std::map<std::string, Device> devices_;
};

}  // namespace

std::optional<cublasLtMatmulAlgo_t> ChosenAlgorithm(gpu::Libraries& libraries,
                                                    const GemmCall& call) {
  return GemmChoices::Get().Find(libraries, call);
}

void ChooseAlgorithm(gpu::Libraries& libraries, cudaStream_t stream, const GemmCall& call) {
  GemmChoices::Get().Choose(libraries, stream, call);
}

std::string EncodeAlgorithm(const cublasLtMatmulAlgo_t& algorithm) {
  std::string text;
  for (uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> DecodeAlgorithm(std::string_view text) {
  cublasLtMatmulAlgo_t algorithm{};
  if (text.size() != std::size(algorithm.data) * kWordDigits) return std::nullopt;
  for (uint64_t& word : algorithm.data) {
    const char* const end = text.data() + kWordDigits;
    const auto result = std::from_chars(text.data(), end, word, 16);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    text.remove_prefix(kWordDigits);
  }
  return algorithm;
}

}  // namespace plimsoll::ops
