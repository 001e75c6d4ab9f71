// Values of parameters do not depend on how the arena holds them or in which pieces they come.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/low_precision.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

TEST(Initialize, GivesTheSameValuesInEveryForm) {
  TinyRun run{.steps = 0};
  const TinyResult plain = Train(run);
  run.amp.dtype = graph::DType::kBFloat16;
  EXPECT_EQ(Train(run).weights, plain.weights) << "with remainders";
  run.amp.dtype = graph::DType::kFloat16;
  EXPECT_EQ(Train(run).weights, plain.weights) << "with masters";
  run.weights_on_host = true;
  EXPECT_EQ(Train(run).weights, plain.weights) << "on the host";
}

TEST(Initialize, DrawsElementsByNameAndNumber) {
  const auto model = models::MakeModel(TinyGpt2());
  ThreadPool pool(2);
  Session session(Compile(*model, OptionsOf({}, *model, runtime::DeviceKind::kCpu)), pool);
  session.Initialize(*model, 7);
  for (const models::ParameterInfo& parameter : model->parameters()) {
    const std::vector<float> values = session.ReadParameter(parameter.name);
    std::vector<float> expected(values.size());
    switch (parameter.init.kind) {
      case models::Initializer::kNormal:
        Draw({InitialDraws::Kind::kNormal, static_cast<float>(parameter.init.stddev), 7,
              StreamOf(parameter.name)},
             0, expected);
        break;
      case models::Initializer::kOnes:
        std::ranges::fill(expected, 1.0f);
        break;
      default:
        break;
    }
    EXPECT_EQ(values, expected) << parameter.name;
  }
}

TEST(WriteElements, TakesPiecesOfAnyType) {
  const auto model = models::MakeModel(TinyGpt2());
  ThreadPool pool(2);
  TinyRun run;
  run.amp.dtype = graph::DType::kBFloat16;
  Session session(Compile(*model, OptionsOf(run, *model, runtime::DeviceKind::kCpu)), pool);
  const std::string name = "block.0.mlp.fc.weight";
  std::vector<float> values(static_cast<size_t>(session.Elements(name)));
  std::iota(values.begin(), values.end(), 0.25f);
  const std::span<std::byte> staging = session.Staging(2 * std::ssize(values));
  auto* const low = reinterpret_cast<uint16_t*>(staging.data());
  std::vector<float> expected;
  for (size_t i = 0; i < values.size(); ++i) {
    low[i] = ToBf16(values[i]);
    expected.push_back(FromBf16(low[i]));
  }
  // The second half by several threads.
  const auto half = static_cast<int64_t>(values.size() / 2);
  const TypedElements all{graph::DType::kBFloat16, staging.data(), std::ssize(values)};
  session.WriteElements(name, 0, all.Part(0, half));
  std::vector<std::thread> threads;
  for (int64_t first = half; first < all.count; first += 123) {
    threads.emplace_back([&, first] {
      session.WriteElements(name, first, all.Part(first, std::min(first + 123, all.count)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  session.AwaitWrites();
  EXPECT_EQ(session.ReadParameter(name), expected);
  session.WriteParameter(name, values);
  EXPECT_EQ(session.ReadParameter(name), values);
  EXPECT_THROW(session.WriteElements(name, 1, TypedElements::Of(values)), InternalError);
  EXPECT_THROW(session.WriteElements(name, -1, TypedElements::Of({values.data(), 1})),
               InternalError);
  EXPECT_THROW(session.WriteParameter(name, {values.data(), 3}), InternalError);
}

}  // namespace
}  // namespace plimsoll::trainer
