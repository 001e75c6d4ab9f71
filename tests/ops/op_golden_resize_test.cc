// Concatenation and interpolation compared with PyTorch.
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "ops/resize/resize.h"
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

class ResizeGoldenTest : public GoldenTest {
 protected:
  void Check(const std::string& kind, const ResizeOptions& options) {
    const std::string file = std::string("resize_") + kind +
                             (options.mode == ResizeMode::kLinear ? "_linear" : "_nearest") +
                             (options.align_corners ? "_aligned" : "");
    SCOPED_TRACE(file);
    Golden golden = Read(file);
    const auto attributes = [&](const GoldenTensor& result) {
      const std::span<const int64_t> dims = result.shape.dims();
      return ResizeAttributes(dims.subspan(1, dims.size() - 2), options);
    };
    ExpectNear(Call("resize", attributes(golden["y"]), {Make(golden["x"])})[0], golden["y"]);
    ExpectNear(Call("resize_backward", attributes(golden["x"]), {Make(golden["dy"])})[0],
               golden["dx"]);
  }
};

TEST_P(ResizeGoldenTest, Resize) {
  for (const char* kind : {"images", "twice", "volumes", "one_row"}) {
    Check(kind, {.mode = ResizeMode::kNearest});
    Check(kind, {.mode = ResizeMode::kLinear});
    Check(kind, {.mode = ResizeMode::kLinear, .align_corners = true});
  }
  Check("rounded", {.mode = ResizeMode::kNearest});
}

INSTANTIATE_TEST_SUITE_P(DTypes, ResizeGoldenTest,
                         testing::Values(graph::DType::kFloat32, graph::DType::kFloat64),
                         [](const auto& info) { return std::string(graph::Name(info.param)); });

}  // namespace
}  // namespace plimsoll::ops
