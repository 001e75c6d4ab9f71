#include "amp/precision_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace plimsoll::amp {
namespace {

using graph::DType;
using graph::OpRegistry;

AmpOptions Options(std::vector<std::string> low_ops, std::vector<std::string> fp32_ops) {
  AmpOptions options;
  options.dtype = DType::kBFloat16;
  options.low_ops = std::move(low_ops);
  options.fp32_ops = std::move(fp32_ops);
  return options;
}

TEST(Policy, TheTableNamesOpsOnce) {
  std::set<std::string_view> seen;
  for (const PolicyRow& row : PolicyTable()) {
    EXPECT_NE(OpRegistry::Get().Find(row.op), nullptr) << row.op;
    EXPECT_TRUE(seen.insert(row.op).second) << row.op << " twice";
    EXPECT_FALSE(row.reason.empty()) << row.op;
  }
}

// An op kind that models use but the table forgets would silently work in float32.
TEST(Policy, TheTableNamesAllDifferentiableOps) {
  for (const graph::OpDef* op : OpRegistry::Get().All()) {
    if (!op->gradient) continue;
    const auto& table = PolicyTable();
    EXPECT_TRUE(std::any_of(table.begin(), table.end(), [&](const PolicyRow& row) {
      return row.op == op->name;
    })) << op->name;
  }
}

// A view has its input's bytes, so it can't have another type.
TEST(Policy, ViewsHaveTheirInputsType) {
  for (const graph::OpDef* op : OpRegistry::Get().All()) {
    if (!op->view) continue;
    EXPECT_EQ(PrecisionOf(*op, Options({}, {})), Precision::kAsInput) << op->name;
  }
}

TEST(Policy, OverridesWin) {
  const graph::OpDef& norm = OpRegistry::Get().Require("rms_norm");
  const graph::OpDef& sum = OpRegistry::Get().Require("sum");
  const graph::OpDef& linear = OpRegistry::Get().Require("linear");
  EXPECT_EQ(PrecisionOf(norm, Options({}, {})), Precision::kLowStorage);
  EXPECT_EQ(PrecisionOf(norm, Options({}, {"rms_norm"})), Precision::kFloat32);
  EXPECT_EQ(PrecisionOf(sum, Options({}, {"rms_norm"})), Precision::kFloat32);
  EXPECT_EQ(PrecisionOf(sum, Options({"sum"}, {"rms_norm"})), Precision::kLow);
  EXPECT_EQ(PrecisionOf(linear, Options({"sum"}, {"rms_norm"})), Precision::kLow);
  // Not in the table: an op of the update.
  EXPECT_EQ(PrecisionOf(OpRegistry::Get().Require("adamw"), Options({}, {})), Precision::kFloat32);
}

std::string ProblemOf(std::vector<std::string> low_ops, std::vector<std::string> fp32_ops) {
  const auto problem = FindProblem(Options(std::move(low_ops), std::move(fp32_ops)));
  return problem ? problem->field + ": " + problem->reason : "";
}

TEST(Policy, RefusesWhatItCannotFollow) {
  EXPECT_EQ(ProblemOf({"sum"}, {"gelu", "linear_cross_entropy", "select_rows"}), "");
  EXPECT_EQ(ProblemOf({"layernorm"}, {}),
            "low_ops: no op kind layernorm, did you mean layer_norm?");
  EXPECT_EQ(ProblemOf({}, {"sum", "liner"}), "fp32_ops: no op kind liner, did you mean linear?");
  EXPECT_EQ(
      ProblemOf({}, {"convolution"}),
      "fp32_ops: no op kind convolution; there are add, add_layer_norm, add_low_rank, "
      "add_rms_norm, add_to_state, attention, avg_pool2d, batch_norm, batch_norm_statistics, "
      "binary_cross_entropy_with_logits, "
      "concat_channels, conv, conv_transpose, cross_entropy, dice_loss, drop_path, dropout, "
      "embedding, geglu, gelu, global_avg_pool, "
      "layer_norm, leaky_relu, linear, "
      "linear_cross_entropy, linear_log_probs, masked_softmax, matmul, max_magnitude, max_pool2d, "
      "merge_batch_norm_statistics, "
      "merge_channel_statistics, merge_heads, moving_average, mul, patches, place_tokens, "
      "power_iteration, "
      "preference_loss, prepend_token, qk_norm, relu, resize, rms_norm, rotary, scale, scale_by, "
      "select_rows, "
      "sigmoid, silu, "
      "slice_tokens, softcap, space_to_depth, spectral_norm, split_heads, squared_error, "
      "squared_norm, "
      "subsample, sum, swiglu, tanh");
  EXPECT_EQ(ProblemOf({"gelu", "sum"}, {"silu", "sum"}),
            "fp32_ops: sum is in amp.low_ops, too; keep it in one of them");
  EXPECT_EQ(ProblemOf({}, {"linear_dx"}),
            "fp32_ops: linear_dx is no op of a model; backward ops follow the op that they belong "
            "to, and updates always work in float32");
  EXPECT_EQ(ProblemOf({"adamw"}, {}),
            "low_ops: adamw is no op of a model; backward ops follow the op that they belong to, "
            "and updates always work in float32");
  EXPECT_EQ(ProblemOf({"view"}, {}),
            "low_ops: view computes nothing and has the type of its input; remove it");
}

TEST(Policy, TheDocumentedTableIsCurrent) {
  std::ifstream file("docs/how/mixed_precision.md");
  std::stringstream text;
  text << file.rdbuf();
  ASSERT_FALSE(text.str().empty());
  const std::string begin = "<!-- policy table -->\n", end = "<!-- end of the policy table -->";
  const size_t from = text.str().find(begin), to = text.str().find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  EXPECT_EQ(text.str().substr(from + begin.size(), to - from - begin.size()), PolicyMarkdown());
}

}  // namespace
}  // namespace plimsoll::amp
