// The activations that each policy tags. docs/how/checkpointing.md shows the tags in complete
// programs.
#include "checkpointing/retention_policy.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/graph/expect_program.h"
#include "tests/support/expect_error.h"

namespace plimsoll::checkpointing {
namespace {

using graph::Parse;
using graph::Program;
using graph::Retention;
using Policy = Options::Policy;

// Four blocks of two activations each, all but %tail read by the backward pass, and a norm after
// them.
Program Blocks() {
  std::string forward, backward;
  std::string x = "x";
  for (int i = 0; i < 4; ++i) {
    const std::string block = "block." + std::to_string(i);
    forward += "  %" + block + ".gelu: f32[8,4] = gelu(%" + x + ") {approximate=\"tanh\"} @" +
               block + ".mlp\n";
    forward +=
        "  %" + block + ".out: f32[8,4] = add(%" + x + ", %" + block + ".gelu) @" + block + "\n";
    backward =
        "  %" + block + ".d: f32[8,4] = mul(%" + block + ".gelu, %" + block + ".out)\n" + backward;
    x = block + ".out";
  }
  return Parse(R"(program p
  tensor %x: f32[8,4] input persistent
  tensor %gain: f32[4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
)" + forward + R"(
  %norm: f32[8,4], %norm.mean: f32[8], %norm.rstd: f32[8] = layer_norm(%block.3.out, %gain, _) {eps=1e-05}
  %tail: f32[8,4] = scale(%norm) {factor=2.0}
  %loss = sum(%tail)
backward
  %norm.d: f32[8,4], _, _ = layer_norm_backward(%block.3.out, %gain, %norm.mean, %norm.rstd, %norm, _, _, _)
)" + backward);
}

std::vector<std::string> Tagged(const Program& program, Retention retention) {
  std::vector<std::string> names;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.retention == retention) names.push_back(tensor.name);
  }
  return names;
}

using Names = std::vector<std::string>;

Names Recomputed(const Options& options) {
  Program program = Blocks();
  EXPECT_TRUE(TagActivations(options).Run(program).changed);
  return Tagged(program, Retention::kRecompute);
}

Options Selective(std::vector<std::string> recompute, std::vector<std::string> save = {}) {
  Options options;
  options.policy = Policy::kSelective;
  options.recompute.patterns = std::move(recompute);
  options.save.patterns = std::move(save);
  return options;
}

TEST(TagActivations, BlockKeepsWhatLeavesABlock) {
  Options options;
  options.policy = Policy::kBlock;
  EXPECT_EQ(Recomputed(options),
            (Names{"block.0.gelu", "block.1.gelu", "block.2.gelu", "block.3.gelu"}));
}

TEST(TagActivations, EveryKeepsWhatLeavesSoManyBlocks) {
  Options options;
  options.policy = Policy::kEvery;
  options.every = 2;
  EXPECT_EQ(Recomputed(options), (Names{"block.0.gelu", "block.0.out", "block.1.gelu",
                                        "block.2.gelu", "block.2.out", "block.3.gelu"}));
  options.every = 1000;
  EXPECT_EQ(Recomputed(options).size(), 7u);  // all but the last block's output
}

TEST(TagActivations, SelectsByPresetOpAndName) {
  // A norm's statistics are tagged with it.
  EXPECT_EQ(Recomputed(Selective({"norms"})), (Names{"norm", "norm.mean", "norm.rstd"}));
  EXPECT_EQ(Recomputed(Selective({"activations"})).size(), 4u);
  EXPECT_EQ(Recomputed(Selective({"gelu"})), Recomputed(Selective({"activations"})));
  EXPECT_EQ(Recomputed(Selective({"block.1.*", "block.1.o??"})),
            (Names{"block.1.gelu", "block.1.out"}));
  EXPECT_EQ(Recomputed(Selective({"*"}, {"norms", "add"})), Recomputed(Selective({"gelu"})));
}

// The backward pass reads the gathered rows of a norm, not those of one rank.
TEST(TagActivations, AGatheredNormIsANorm) {
  Program program = Parse(R"(program p
  tensor %x: f32[4,4] input persistent
  tensor %gain: f32[4] parameter persistent
  tensor %loss: f32[] metric persistent
forward
  %norm: f32[4,4], _ = rms_norm(%x, %gain) {eps=1e-05}
  %all: f32[8,4] = all_gather_start(%norm) {axis="tensor", d0=8, d1=4, rank=2}
  %whole: f32[8,4] view %all+0 = all_gather_done(%all, %norm)
  %act: f32[8,4] = gelu(%whole) {approximate="tanh"}
  %tail: f32[8,4] = scale(%act) {factor=2.0}
  %loss = sum(%tail)
backward
  %d: f32[8,4] = mul(%act, %act)
  %e: f32[8,4] = mul(%d, %whole)
)");
  TagActivations(Selective({"norms"})).Run(program);
  EXPECT_EQ(Tagged(program, Retention::kRecompute), (Names{"all"}));
}

// Codes of what waits anyway are made again, those of what does not are kept.
TEST(TagActivations, APresetKeepsNoCodesOfWhatIsKept) {
  Program program = Parse(R"(program p
  tensor %x: bf16[16,16] input persistent
  tensor %largest: f32[] input persistent
  tensor %loss: f32[] metric persistent
  tensor %dy: bf16[16,16] input persistent
  tensor %dyt: e4m3[16,16] input persistent
  tensor %dw: f32[16,16] gradient persistent
forward
  %a: bf16[16,16] = scale(%x) {factor=2.0}
  %at: e4m3[16,16], _, %as: f32[], _ = quantize(%a, %largest, _) {dtype="e4m3"}
  %b: bf16[16,16] = scale(%a) {factor=2.0}
  %bt: e4m3[16,16], _, %bs: f32[], _ = quantize(%b, %largest, _) {dtype="e4m3"}
  %act: bf16[16,16] = gelu(%b) {approximate="tanh"}
  %loss = sum(%act)
backward
  %dl: bf16[16,16] = scale(%dy) {factor=2.0}
  %d: bf16[16,16] = mul(%act, %dl)
  %dw = scaled_linear(%dyt, %bt, %as, %bs, _, %dw, _) {dtype="f32"}
  %dw = scaled_linear(%dyt, %at, %as, %as, _, %dw, _) {dtype="f32"}
  %e: bf16[16,16] = mul(%a, %d)
)");
  Program by_name = program;
  TagActivations(Selective({"activations"})).Run(program);
  EXPECT_EQ(Tagged(program, Retention::kRecompute), (Names{"at", "act"}));
  TagActivations(Selective({"gelu"})).Run(by_name);
  EXPECT_EQ(Tagged(by_name, Retention::kRecompute), (Names{"act"}));
}

TEST(TagActivations, TakesExplicitTags) {
  Options options;
  options.policy = Policy::kExplicit;
  options.retention = {{"block.0.gelu", Retention::kRecompute},
                       {"block.1.gelu", Retention::kOffload},
                       {"norm.mean", Retention::kRecompute}};
  Program program = Blocks();
  const graph::PassResult result = TagActivations(options).Run(program);
  EXPECT_EQ(result.summary, "of 11 saved activations 2 to recompute, 1 to offload");
  EXPECT_EQ(Tagged(program, Retention::kRecompute), (Names{"block.0.gelu", "norm.mean"}));
  EXPECT_EQ(Tagged(program, Retention::kOffload), (Names{"block.1.gelu"}));

  // %tail is an activation, but nothing reads it later.
  options.retention = {{"tail", Retention::kRecompute}};
  ExpectInternalError([&] { TagActivations(options).Run(program); }, {"'tail'"});
}

TEST(TagActivations, ChangesNothingByDefaultAndTakesTagsBack) {
  Program program = Blocks();
  EXPECT_FALSE(TagActivations({}).Run(program).changed);
  TagActivations(Selective({"gelu"})).Run(program);
  EXPECT_TRUE(TagActivations({}).Run(program).changed);
  EXPECT_EQ(Tagged(program, Retention::kRecompute), Names{});
}

TEST(TagActivations, OffloadsWhatIsKept) {
  Options options = Selective({"gelu"});
  options.offload.patterns = {"block.2.*", "norms"};
  Program program = Blocks();
  TagActivations(options).Run(program);
  EXPECT_EQ(Tagged(program, Retention::kOffload), (Names{"block.2.out", "norm"}));
  EXPECT_EQ(Tagged(program, Retention::kRecompute).size(), 4u);
}

TEST(TagActivations, SaysWhatAPatternCouldHaveMatched) {
  Program program = Blocks();
  Options options = Selective({"gelu", "attention"});
  options.recompute.key = "run.yaml:7: checkpointing.recompute";
  EXPECT_EQ(UserErrorOf([&] { TagActivations(options).Run(program); }),
            "run.yaml:7: checkpointing.recompute: 'attention' matches no activation that waits for "
            "the backward pass; there are results of add, gelu, layer_norm, such as "
            "'block.0.gelu'");
  options.recompute.by_default = true;
  TagActivations(options).Run(program);
  EXPECT_EQ(Tagged(program, Retention::kRecompute).size(), 4u);
  options = Selective({"gelu"}, {"*.fc"});
  ExpectUserError([&] { TagActivations(options).Run(program); }, {"checkpointing.save", "'*.fc'"});
  options = {};
  options.offload.patterns = {"tail"};
  ExpectUserError([&] { TagActivations(options).Run(program); },
                  {"checkpointing.offload", "'tail'"});
}

TEST(TagActivations, RefusesToOffloadOnlyWhatIsRecomputed) {
  Program program = Blocks();
  Options options = Selective({"gelu"});
  options.offload.patterns = {"*.gelu"};
  EXPECT_EQ(UserErrorOf([&] { TagActivations(options).Run(program); }),
            "checkpointing.offload: '*.gelu' matches only what is not kept, such as "
            "'block.0.gelu'; name activations that checkpointing.policy keeps, or remove it");
}

}  // namespace
}  // namespace plimsoll::checkpointing
