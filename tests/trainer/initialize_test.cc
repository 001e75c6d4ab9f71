// Initial values do not depend on how they are written: in place, or in chunks of what the arena
// holds of a parameter.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

TEST(Initialize, GivesTheSameValuesInChunks) {
  // Tables of tokens with more elements than a chunk.
  TinyRun run{.spec = models::Gpt2Spec(1, 32, 2, 140000, 16), .steps = 0};
  const TinyResult in_place = Train(run);
  ASSERT_GT(in_place.weights.at(0).size(), size_t{1} << 22);
  run.amp.dtype = graph::DType::kBFloat16;
  EXPECT_EQ(Train(run).weights, in_place.weights) << "with remainders";
  run.amp.dtype = graph::DType::kFloat16;
  EXPECT_EQ(Train(run).weights, in_place.weights) << "with masters";
}

TEST(Initialize, DrawsAnElementByItsNumber) {
  const auto model = models::MakeModel(TinyGpt2());
  ThreadPool pool(2);
  for (const models::ParameterInfo& parameter : model->parameters()) {
    std::vector<float> whole(static_cast<size_t>(parameter.shape.elements()));
    InitializeParameter(parameter, 7, whole, pool);
    std::vector<float> parts(whole.size());
    for (size_t first = 0; first < parts.size(); first += 12) {
      const size_t count = std::min<size_t>(12, parts.size() - first);
      InitializeParameter(parameter, 7, std::span(parts).subspan(first, count), pool,
                          static_cast<int64_t>(first));
    }
    EXPECT_EQ(parts, whole) << parameter.name;
  }
}

}  // namespace
}  // namespace plimsoll::trainer
