// Batch norms compared with PyTorch: in training, among ranks, and with running statistics.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/ops/op_golden.h"

namespace plimsoll::ops {
namespace {

using graph::Attributes;

constexpr double kBatchNormEps = 1e-5;

// Gradients go through the statistics, by an op of their own or by the norm's.
TEST_P(GoldenTest, BatchNorm) {
  for (const bool relu : {false, true}) {
    SCOPED_TRACE(relu ? "relu" : "no relu");
    Golden golden = Read(relu ? "batch_norm_relu" : "batch_norm");
    const HostTensor x = Make(golden["x"]), dy = Make(golden["dy"]);
    const HostTensor weight = Make(golden["weight"]), bias = Make(golden["bias"]);
    const std::optional<HostTensor> none;
    Attributes attributes = {{"eps", kBatchNormEps}, {"relu", relu}};
    const Outputs statistics = Call("batch_norm_statistics", {{"groups", 1}}, {x});
    const std::optional<HostTensor>&mean = statistics[0], &variance = statistics[1];
    ExpectNear(Call("batch_norm", attributes, {x, mean, variance, weight, bias})[0], golden["y"]);

    const Outputs arguments = {dy, x, mean, variance, weight, none, none, none, bias};
    const Outputs apart = Call("batch_norm_backward", attributes, arguments);
    ExpectNear(apart[3], golden["dweight"]);
    ExpectNear(apart[4], golden["dbias"]);
    ExpectNear(
        Call("batch_norm_statistics_backward", {}, {x, mean, apart[1], apart[2], apart[0]})[0],
        golden["dx"]);

    attributes.Set("through_statistics", true);
    const Outputs together = Call("batch_norm_backward", attributes, arguments);
    ExpectNear(together[0], golden["dx"]);
    ExpectNear(together[3], golden["dweight"]);
    ExpectNear(together[4], golden["dbias"]);
  }
}

// An instance norm is a batch norm of single samples.
TEST_P(GoldenTest, InstanceNorm) {
  for (const bool relu : {false, true}) {
    SCOPED_TRACE(relu ? "leaky relu" : "no relu");
    Golden golden = Read(relu ? "instance_norm_leaky_relu" : "instance_norm");
    const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
    const HostTensor bias = Make(golden["bias"]);
    Attributes attributes = {{"eps", kBatchNormEps}, {"relu", relu}};
    if (relu) attributes.Set("slope", 0.01);
    const Outputs statistics =
        Call("batch_norm_statistics", {{"groups", x.type.shape.dim(0)}}, {x});
    const std::optional<HostTensor>&mean = statistics[0], &variance = statistics[1];
    ExpectNear(Call("batch_norm", attributes, {x, mean, variance, weight, bias})[0], golden["y"]);
    attributes.Set("through_statistics", true);
    const std::optional<HostTensor> none;
    const Outputs gradients =
        Call("batch_norm_backward", attributes,
             {Make(golden["dy"]), x, mean, variance, weight, none, none, none, bias});
    ExpectNear(gradients[0], golden["dx"]);
    ExpectNear(gradients[3], golden["dweight"]);
    ExpectNear(gradients[4], golden["dbias"]);
  }
}

// Two ranks with one sample each, which merge their statistics, see what one with both does.
TEST_P(GoldenTest, BatchNormOfRanks) {
  Golden golden = Read("batch_norm");
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const std::optional<HostTensor> none;
  const Attributes eps = {{"eps", kBatchNormEps}};
  const int64_t of_rank = x.type.shape.rows() / 2;
  const Outputs ranks = Call("batch_norm_statistics", {{"groups", 2}}, {x});
  const Outputs merged =
      Call("merge_batch_norm_statistics", {{"n", of_rank}}, {ranks[0], ranks[1]});
  ExpectNear(Call("batch_norm", eps, {x, merged[0], merged[1], weight, Make(golden["bias"])})[0],
             golden["y"]);
  ExpectNear(merged[2], golden["unbiased"]);

  const Outputs of_norm =
      Call("batch_norm_backward", eps,
           {Make(golden["dy"]), x, merged[0], merged[1], weight, none, none, none});
  const Outputs of_merging = Call("merge_batch_norm_statistics_backward", {},
                                  {ranks[0], merged[0], of_norm[1], of_norm[2]});
  ExpectNear(Call("batch_norm_statistics_backward", {},
                  {x, ranks[0], of_merging[0], of_merging[1], of_norm[0]})[0],
             golden["dx"]);
}

// As evaluations and frozen norms use them: the gradients of the latter take them as constants.
TEST_P(GoldenTest, BatchNormWithRunningStatistics) {
  Golden golden = Read("batch_norm_running");
  const graph::Shape channels = golden["weight"].shape;
  const auto filled = [&](double value) {
    return Make({channels, std::vector<double>(channels.elements(), value)});
  };
  const Attributes momentum = {{"momentum", 0.1}};
  std::optional<HostTensor> mean = filled(0), variance = filled(1);
  for (const std::string step : {".1", ".2"}) {
    const Outputs of_batch =
        Call("batch_norm_statistics", {{"groups", 1}}, {Make(golden["x" + step])});
    mean = Call("moving_average", momentum, {mean, of_batch[0]})[0];
    variance = Call("moving_average", momentum, {variance, of_batch[2]})[0];
    ExpectNear(mean, golden["running_mean" + step]);
    ExpectNear(variance, golden["running_var" + step]);
  }

  mean->type.shape = variance->type.shape = {1, channels.elements()};
  const HostTensor x = Make(golden["x"]), weight = Make(golden["weight"]);
  const Attributes eps = {{"eps", kBatchNormEps}};
  ExpectNear(Call("batch_norm", eps, {x, mean, variance, weight, Make(golden["bias"])})[0],
             golden["y"]);
  const std::optional<HostTensor> none;
  const Outputs gradients = Call("batch_norm_backward", eps,
                                 {Make(golden["dy"]), x, mean, variance, weight, none, none, none});
  ExpectNear(gradients[0], golden["dx"]);
  ExpectNear(gradients[3], golden["dweight"]);
  ExpectNear(gradients[4], golden["dbias"]);
}

}  // namespace
}  // namespace plimsoll::ops
