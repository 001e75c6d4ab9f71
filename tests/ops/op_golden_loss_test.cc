// Losses compared with PyTorch and MONAI, and what metrics count of a classifier's results.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/ops/op_golden.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;
using graph::DType;

// The files have eight rows with labels, whose mean is the loss.
constexpr double kMeanOfEight = 1.0 / 8;
// Those of segmentation two samples.
constexpr double kMeanOfTwo = 1.0 / 2;

TEST_P(GoldenTest, CrossEntropy) {
  struct Case {
    std::string file;
    double smoothing;
  };
  for (const auto& [file, smoothing] :
       {Case{"cross_entropy", 0}, {"cross_entropy_smoothed", 0.1}, {"cross_entropy_mixed", 0.1}}) {
    SCOPED_TRACE(file);
    Golden golden = Read(file);
    const HostTensor logits = Make(golden["logits"]);
    const HostTensor labels = Make(golden["labels"], DType::kInt32);
    const HostTensor scale = Scalar(DType::kFloat32, kMeanOfEight);
    std::optional<HostTensor> second, share;
    if (golden.contains("second")) {
      second = Make(golden["second"], DType::kInt32);
      share = Make(golden["share"], DType::kFloat32);
    }
    const Attributes attributes = {{"label_smoothing", smoothing}};
    const Outputs forward =
        Call("cross_entropy", attributes, {logits, labels, scale, second, share});
    ExpectNear(forward[0], golden["y"]);
    ExpectNear(Call("cross_entropy_backward", attributes,
                    {logits, labels, scale, forward[1], Make(golden["dy"]), second, share})[0],
               golden["dlogits"]);
  }
}

TEST_P(GoldenTest, LinearCrossEntropyUnderASoftCap) {
  Golden golden = Read("linear_cross_entropy_softcap");
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const HostTensor labels = Make(golden["labels"], DType::kInt32), dloss = Make(golden["dy"]);
  const HostTensor scale = Scalar(DType::kFloat32, kMeanOfEight);
  const std::optional<HostTensor> none;
  const Attributes cap = {{"softcap", 2.0}};
  const Outputs forward = Call("linear_cross_entropy", cap, {x, weight, labels, scale});
  ExpectNear(forward[0], golden["y"]);
  const Outputs backward = Call("linear_cross_entropy_backward", cap,
                                {x, weight, labels, scale, forward[1], dloss, none});
  ExpectNear(backward[0], golden["dx"]);
  ExpectNear(backward[1], golden["dweight"]);
}

TEST_P(GoldenTest, LinearCrossEntropyWithBias) {
  Golden golden = Read("linear_cross_entropy");
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const HostTensor bias = Make(golden["bias"]), dloss = Make(golden["dy"]);
  const HostTensor labels = Make(golden["labels"], DType::kInt32);
  const HostTensor scale = Scalar(DType::kFloat32, kMeanOfEight);
  const std::optional<HostTensor> none;
  const auto expect = [&](const Outputs& results, size_t first) {
    ExpectNear(results[first], golden["dx"]);
    ExpectNear(results[first + 1], golden["dweight"]);
    ExpectNear(results[first + 2], golden["dbias"]);
  };
  const Outputs forward = Call("linear_cross_entropy", {}, {x, weight, labels, scale, bias});
  ExpectNear(forward[0], golden["y"]);
  expect(Call("linear_cross_entropy_backward", {},
              {x, weight, labels, scale, forward[1], dloss, none, bias, none}),
         0);
  const Outputs train =
      Call("linear_cross_entropy_train", {}, {x, weight, labels, scale, dloss, none, bias, none});
  ExpectNear(train[0], golden["y"]);
  expect(train, 1);
}

TEST_P(GoldenTest, Dice) {
  struct Case {
    std::string file;
    Attributes changed;
  };
  const Case cases[] = {
      {"dice", {}},
      {"dice_foreground", {{"include_background", false}}},
      {"dice_squared", {{"squared_pred", true}, {"smooth_nr", 0.25}, {"smooth_dr", 0.75}}},
      {"dice_cross_entropy",
       {{"include_background", false}, {"lambda_dice", 0.75}, {"lambda_ce", 0.5}}},
      {"dice_ignored", {{"lambda_ce", 1.0}}},
  };
  for (const auto& [file, changed] : cases) {
    SCOPED_TRACE(file);
    Attributes attributes = {{"include_background", true}, {"squared_pred", false},
                             {"smooth_nr", 1e-5},          {"smooth_dr", 1e-5},
                             {"lambda_dice", 1.0},         {"lambda_ce", 0.0}};
    for (const auto& [name, value] : changed.entries()) attributes.Set(name, value);
    Golden golden = Read(file);
    const HostTensor logits = Make(golden["logits"]);
    const HostTensor labels = Make(golden["labels"], DType::kInt32);
    const HostTensor weight = Scalar(DType::kFloat32, kMeanOfTwo);
    const Outputs forward = Call("dice_loss", attributes, {logits, labels, weight});
    ExpectNear(forward[0], golden["y"]);
    ExpectNear(Call("dice_loss_backward", attributes,
                    {logits, labels, weight, forward[1], Make(golden["dy"])})[0],
               golden["dlogits"]);
  }
}

TEST_P(GoldenTest, BinaryCrossEntropy) {
  for (const std::string file : {"real", "fake", "smoothed", "each"}) {
    SCOPED_TRACE(file);
    Golden golden = Read("binary_cross_entropy_" + file);
    const HostTensor logits = Make(golden["logits"]), one = Scalar(DType::kFloat32, 1);
    Attributes attributes;
    std::optional<HostTensor> targets;
    if (file == "each") {
      targets = Make(golden["targets"], DType::kFloat32);
    } else {
      attributes.Set("target", golden["targets"].values.at(0));
    }
    const Outputs forward =
        Call("binary_cross_entropy_with_logits", attributes, {logits, one, targets});
    ExpectNear(forward[0], golden["y"]);
    ExpectNear(forward[1], golden["right"]);
    ExpectNear(Call("binary_cross_entropy_with_logits_backward", attributes,
                    {logits, one, Make(golden["dy"]), targets})[0],
               golden["dlogits"]);
  }
}

TEST_P(GoldenTest, ClassifierCounts) {
  Golden golden = Read("classifier_counts");
  const HostTensor logits = Make(golden["logits"]);
  const HostTensor labels = Make(golden["labels"], DType::kInt32);
  const Outputs confusion = Call("confusion", {}, {logits, labels});
  ExpectNear(confusion[0], golden["confusion"]);
  ExpectNear(confusion[1], golden["right"]);
  ExpectNear(confusion[2], golden["rows"]);
  const Outputs first = Call("count_top_k", {{"k", 1}}, {logits, labels});
  ExpectNear(first[0], golden["right"]);
  ExpectNear(first[1], golden["rows"]);
  ExpectNear(Call("count_top_k", {{"k", 2}}, {logits, labels})[0], golden["right_of_two"]);
}

}  // namespace
}  // namespace plimsoll::ops
