// Types and shapes that concatenation refuses.
#include "ops/data_movement/concat_channels.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace plimsoll::ops {
namespace {

using graph::DType;
using graph::Role;
using graph::Shape;
using graph::TensorType;

void ExpectRefused(const TensorType& a, const TensorType& b, std::string_view why) {
  graph::Program program;
  graph::Builder g(program);
  const graph::Value first = g.Persistent("a", Role::kInput, a);
  const graph::Value second = g.Persistent("b", Role::kInput, b);
  ExpectInternalError([&] { ConcatChannels(g, first, second); }, {"concat_channels", why});
}

TEST(ConcatChannels, RefusesWhatDoesNotFit) {
  const TensorType image{DType::kFloat32, {2, 3, 4, 5}};
  ExpectRefused(image, {DType::kBFloat16, {2, 3, 4, 5}}, "one float dtype");
  ExpectRefused({DType::kInt32, {3}}, {DType::kInt32, {3}}, "one float dtype");
  ExpectRefused(image, {DType::kFloat32, {2, 4, 3, 5}}, "alike but for their channels");
  ExpectRefused(image, {DType::kFloat32, {6, 4, 5}}, "alike but for their channels");
  ExpectRefused({DType::kFloat32, {}}, {DType::kFloat32, {}}, "alike but for their channels");
  ExpectRefused(image, {DType::kFloat32, {2, 3, 4, 0}}, "must have channels");
  const Shape wide{0, int64_t{1} << 30};
  ExpectRefused({DType::kFloat32, wide}, {DType::kFloat32, wide}, "fewer than 2^31");
}

// Backward ops come from text, too.
TEST(ConcatChannelsBackward, RefusesPartsThatDoNotFit) {
  graph::Program program;
  graph::Builder g(program);
  const graph::Value dy = g.Persistent("dy", Role::kInput, {DType::kFloat32, {2, 5}});
  const graph::Value acc = g.Persistent("acc", Role::kInput, {DType::kFloat32, {2, 3}});
  const auto emit = [&](int64_t first) {
    g.Emit("concat_channels_backward", {dy, acc}, {{"first_channels", first}});
  };
  ExpectInternalError([&] { emit(0); }, {"concat_channels_backward", "1 or more"});
  ExpectInternalError([&] { emit(5); }, {"concat_channels_backward", "fewer than dy has"});
  ExpectInternalError([&] { emit(2); }, {"concat_channels_backward"});
  emit(3);
}

}  // namespace
}  // namespace plimsoll::ops
