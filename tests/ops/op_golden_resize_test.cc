// Concatenation and interpolation compared with PyTorch.
#include <gtest/gtest.h>

#include "tests/ops/op_golden.h"

namespace plimsoll::ops {
namespace {

TEST_P(GoldenTest, ConcatChannels) {
  Golden golden = Read("concat_channels");
  ExpectNear(Call("concat_channels", {}, {Make(golden["a"]), Make(golden["b"])})[0], golden["y"]);
  const Outputs gradients =
      Call("concat_channels_backward", {{"first_channels", 3}}, {Make(golden["dy"])});
  ExpectNear(gradients[0], golden["da"]);
  ExpectNear(gradients[1], golden["db"]);
}

}  // namespace
}  // namespace plimsoll::ops
