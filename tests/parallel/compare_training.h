// Comparisons of training runs on several ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/mpi_test_main.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {

// The largest difference, relative to the largest value.
inline double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 1e-6;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return most / largest;
}

inline void ExpectNear(const std::vector<double>& got, const std::vector<double>& want,
                       const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-5 * std::abs(want[i])) << what << " of step " << i;
  }
}

// Expects that the whole arena was used. On a GPU it may end in a workspace that its kernel, a
// product of cuBLAS, left unwritten.
inline void ExpectUsesArena(const TinyResult& result) {
  EXPECT_LE(result.used_bytes, result.arena_bytes);
  EXPECT_GE(result.used_bytes, TestsOnGpus() ? result.tensors_end : result.arena_bytes);
}

// Expects the same training in float32, except for the order in which numbers were added, and a
// checked arena.
inline void ExpectTrainedAs(const TinyResult& got, const TinyResult& want) {
  ExpectNear(got.losses, want.losses, "loss");
  ExpectNear(got.grad_norms, want.grad_norms, "gradient norm");
  ExpectNear(got.evaluations, want.evaluations, "evaluation");
  ASSERT_EQ(got.weights.size(), want.weights.size());
  for (size_t i = 0; i < got.weights.size(); ++i) {
    ASSERT_EQ(got.weights[i].size(), want.weights[i].size()) << "parameter " << i;
    EXPECT_LE(Difference(got.weights[i], want.weights[i]), 2e-5) << "parameter " << i;
  }
  ExpectUsesArena(got);
}

inline std::string BitsOf(const TinyResult& result) {
  std::string bits;
  const auto add = [&](const auto& values) {
    bits.append(reinterpret_cast<const char*>(values.data()),
                values.size() * sizeof(values.front()));
  };
  add(result.losses);
  add(result.grad_norms);
  add(result.evaluations);
  for (const std::vector<float>& weight : result.weights) add(weight);
  return bits;
}

// Expects equal bits on all ranks. All ranks call.
inline void ExpectAlikeOnAllRanks(const TinyResult& result) {
  const std::vector<std::string> bits = TestWorld().Gather(BitsOf(result));
  for (const std::string& other : bits) EXPECT_EQ(other == bits[0], true) << "ranks differ";
}

// Expects that ranks train as one of them did alone, all with the same bits. All ranks call.
inline TinyResult ExpectTrainsAs(const TinyRun& run, const TinyResult& want) {
  TinyResult got = Train(run);
  ExpectTrainedAs(got, want);
  ExpectAlikeOnAllRanks(got);
  return got;
}

// Three steps of a pipeline's stages, or of one rank, with that number of micro-batches each.
inline TinyRun RunOfStages(const models::ModelSpec& spec, int64_t micro_batches) {
  TinyRun run;
  run.spec = spec;
  run.micro_batch = 2;
  run.accumulate = micro_batches;
  run.ignored = 0.3;
  run.update.eps = 1e-5;
  run.evaluate = true;
  run.steps = 3;
  run.threads = 1;
  return run;
}

}  // namespace plimsoll::trainer
