#include "trainer/step/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/philox.h"

namespace plimsoll::trainer {
namespace {

// FNV-1a hash: the number of a parameter's random stream.
uint64_t HashOf(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Two standard normals from two words (Box, Muller 1958).
void NormalPair(uint32_t a, uint32_t b, float* out) {
  const double radius = std::sqrt(-2 * std::log((a + 0.5) * 0x1p-32));
  const double angle = 2 * std::numbers::pi * b * 0x1p-32;
  out[0] = static_cast<float>(radius * std::cos(angle));
  out[1] = static_cast<float>(radius * std::sin(angle));
}

// The random words of a parameter's elements from number `first` on.
struct Draws {
  uint64_t seed, stream;
  int64_t first;
};

// Fills the values four at a time with what `make` makes of four random words.
template <typename Make>
void Fill(std::span<float> values, const Draws& draws, ThreadPool& pool, Make make) {
  const std::array<uint32_t, 2> key = {static_cast<uint32_t>(draws.seed),
                                       static_cast<uint32_t>(draws.seed >> 32)};
  const int64_t count = static_cast<int64_t>(values.size());
  const int64_t blocks = (count + 3) / 4;
  pool.ParallelFor(blocks, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t counter = draws.first / 4 + block;
      const std::array<uint32_t, 4> words = Philox4x32(
          {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
           static_cast<uint32_t>(draws.stream), static_cast<uint32_t>(draws.stream >> 32)},
          key);
      float made[4];
      make(words, made);
      for (int64_t i = 4 * block; i < std::min(4 * block + 4, count); ++i) {
        values[i] = made[i - 4 * block];
      }
    }
  });
}

void FillNormal(std::span<float> values, double stddev, const Draws& draws, ThreadPool& pool) {
  Fill(values, draws, pool, [=](const std::array<uint32_t, 4>& words, float* out) {
    NormalPair(words[0], words[1], out);
    NormalPair(words[2], words[3], out + 2);
    for (int i = 0; i < 4; ++i) out[i] *= static_cast<float>(stddev);
  });
}

void FillUniform(std::span<float> values, double bound, const Draws& draws, ThreadPool& pool) {
  Fill(values, draws, pool, [=](const std::array<uint32_t, 4>& words, float* out) {
    for (int i = 0; i < 4; ++i) {
      out[i] = static_cast<float>(bound * (2 * (words[i] + 0.5) * 0x1p-32 - 1));
    }
  });
}

}  // namespace

void InitializeParameter(const models::ParameterInfo& parameter, uint64_t seed,
                         std::span<float> values, ThreadPool& pool, int64_t first) {
  if (first % 4 != 0) throw InternalError("initial values are drawn four at a time");
  const Draws draws{seed, HashOf(parameter.name), first};
  switch (parameter.init.kind) {
    case models::Initializer::kZeros:
      std::ranges::fill(values, 0.0f);
      break;
    case models::Initializer::kOnes:
      std::ranges::fill(values, 1.0f);
      break;
    case models::Initializer::kNormal:
      FillNormal(values, parameter.init.stddev, draws, pool);
      break;
    case models::Initializer::kUniform:
      FillUniform(values, parameter.init.bound, draws, pool);
      break;
  }
}

}  // namespace plimsoll::trainer
