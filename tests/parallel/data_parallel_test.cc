// Golden tests of the pass `data_parallel`.
#include "parallel/data_parallel.h"

#include <gtest/gtest.h>

#include <string>

#include "memory/checker.h"
#include "memory/plan.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::parallel {
namespace {

using graph::Parse;
using graph::Program;

// Two layers; the gradient of the second is ready first.
constexpr char kTraining[] = R"(program train
  tensor %x: f32[4,8] input persistent
  tensor %a: f32[8,8] parameter persistent
  tensor %b: f32[8,8] parameter persistent
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %norm: f32[] metric persistent
forward
  %h: f32[4,8] = linear(%x, %a, _) @first
  %y: f32[4,8] = linear(%h, %b, _) @second
  %loss = sum(%y)
backward
  %dy: f32[4,8] = scale(%y) {factor=2.0}
  %b.grad: f32[8,8] gradient of %b as gradient = matmul(%h, %dy) {trans_a=true, trans_b=false} @second
  %dh: f32[4,8] = linear_dx(%dy, %b) @second
  %a.grad: f32[8,8] gradient of %a as gradient = matmul(%x, %dh) {trans_a=true, trans_b=false} @first
update
  %norm = global_norm(%a.grad, %b.grad)
)";

TEST(DataParallel, SumsGradientsInBucketsAsTheyBecomeReady) {
  Program program = Parse(kTraining);
  const graph::PassResult result = DataParallel({.bucket_bytes = 200}).Run(program);
  EXPECT_EQ(result.summary, "512 B of gradients summed among ranks, buckets: 2");
  graph::ExpectProgram(program, R"(program train
  …
forward
  …
backward
  %dy: f32[4,8] = scale(%y) {factor=2.0}
  %b.grad: f32[8,8] gradient of %b as gradient = matmul(%h, %dy) {trans_a=true, trans_b=false} @second
  %b.grad.sum: f32[8,8] gradient = all_reduce_start(%b.grad) {axis="data"} @b !data_parallel
  …
  %a.grad.sum: f32[8,8] gradient = all_reduce_start(%a.grad) {axis="data"} @a !data_parallel
  %loss = all_reduce_start(%loss) {axis="data"} !data_parallel
update
  %b.grad.reduced: f32[8,8] gradient view %b.grad.sum+0 = all_reduce_done(%b.grad.sum) @b !data_parallel
  %a.grad.reduced: f32[8,8] gradient view %a.grad.sum+0 = all_reduce_done(%a.grad.sum) @a !data_parallel
  %loss.reduced: f32[] metric persistent view %loss+0 = all_reduce_done(%loss) !data_parallel
  %norm = global_norm(%a.grad.reduced, %b.grad.reduced)
)",
                       kTraining);
  // A sum reuses its gradient's memory.
  const Program* const programs[] = {&program};
  const memory::MemoryPlan plan = memory::MakePlan(programs, {});
  const runtime::Layout& layout = plan.programs[0].layout;
  for (const char* name : {"a.grad", "b.grad"}) {
    EXPECT_EQ(layout.offset(program.Require(name)),
              layout.offset(program.Require(std::string(name) + ".sum")));
  }
}

TEST(DataParallel, AFullBucketLeavesBehindItsLastWriter) {
  Program program = Parse(kTraining);
  EXPECT_EQ(DataParallel({.bucket_bytes = 300, .small_bytes = 0}).Run(program).summary,
            "512 B of gradients summed among ranks, buckets: 1");
  const std::string text = graph::ToText(program);
  EXPECT_GT(text.find("%b.grad.sum: "), text.find("%a.grad: "));
}

// Biases share a sum with each other, and not with a matrix, nor with what has another type.
constexpr char kManySmall[] = R"(program train
  tensor %x: f32[4,100] input persistent
  tensor %w: f32[100,100] parameter persistent
  tensor %a: f32[3] parameter persistent
  tensor %b: f32[2,65] parameter persistent
  tensor %c: bf16[5] parameter persistent
  tensor %loss: f32[] metric persistent
  tensor %norm: f32[] metric persistent
forward
  %loss = sum(%x)
backward
  %b.grad: f32[2,65] gradient of %b as gradient = scale(%b) {factor=2.0} @second.b
  %c.grad: bf16[5] gradient of %c as gradient = scale(%c) {factor=2.0} @second.c
  %a.grad: f32[3] gradient of %a as gradient = scale(%a) {factor=2.0} @first.a
  %w.grad: f32[100,100] gradient of %w as gradient = scale(%w) {factor=2.0} @first.w
update
  %norm = global_norm(%w.grad, %a.grad, %b.grad, %c.grad)
)";

TEST(DataParallel, SmallGradientsShareASum) {
  graph::ExpectPass(DataParallel({.small_bytes = 2000}), kManySmall, R"(program train
  …
forward
  %loss = sum(%x)
backward
  …
  %c.grad.sum: bf16[5] gradient = all_reduce_start(%c.grad) {axis="data"} @c !data_parallel
  %w.grad.sum: f32[100,100] gradient = all_reduce_start(%w.grad) {axis="data"} @w !data_parallel
  %first.w.gradients: f32[384] gradient = pack(%b.grad, %a.grad) @first.w !data_parallel
  %first.w.gradients.sum: f32[384] gradient = all_reduce_start(%first.w.gradients) {axis="data"} @first.w !data_parallel
update
  %c.grad.reduced: bf16[5] gradient view %c.grad.sum+0 = all_reduce_done(%c.grad.sum) @c !data_parallel
  %w.grad.reduced: f32[100,100] gradient view %w.grad.sum+0 = all_reduce_done(%w.grad.sum) @w !data_parallel
  %gradients.reduced: f32[384] gradient view %first.w.gradients.sum+0 = all_reduce_done(%first.w.gradients.sum) !data_parallel
  %b.grad.reduced: f32[2,65] gradient view %gradients.reduced+0 = slice(%gradients.reduced) {d0=2, d1=65, first=0, rank=2} !data_parallel
  %a.grad.reduced: f32[3] gradient view %gradients.reduced+1024 = slice(%gradients.reduced) {d0=3, first=256, rank=1} !data_parallel
  %norm = global_norm(%w.grad.reduced, %a.grad.reduced, %b.grad.reduced, %c.grad.reduced)
)");
}

TEST(DataParallel, GradientsThatWaitOnTheHostAreSummedOneByOne) {
  Program program = Parse(kManySmall);
  DataParallel({.gradients_on_host = true}).Run(program);
  EXPECT_EQ(graph::ToText(program).find("pack("), std::string::npos);
}

// With several micro-steps only the last one sums the gradients, which were carried to it.
TEST(DataParallel, CarriedGradientsAreSummedWhereTheyLie) {
  graph::ExpectPass(DataParallel(), R"(program train_last
  tensor %x: f32[4,8] input persistent
  tensor %a: f32[8,8] parameter persistent
  tensor %a.grad: f32[8,8] gradient persistent of %a as gradient
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %norm: f32[] metric persistent
forward
  %y: f32[4,8] = linear(%x, %a, _)
  %loss = sum(%y)
backward
  %a.grad, _ = linear_dw(%x, %y, %a.grad)
update
  %norm = global_norm(%a.grad)
)",
                    R"(program train_last
  …
forward
  …
backward
  %a.grad, _ = linear_dw(%x, %y, %a.grad)
  %a.grad = all_reduce_start(%a.grad) {axis="data"} @a !data_parallel
  %loss = all_reduce_start(%loss) {axis="data"} !data_parallel
update
  %a.grad.reduced: f32[8,8] gradient view %a.grad+0 = all_reduce_done(%a.grad) @a !data_parallel
  %loss.reduced: f32[] metric persistent view %loss+0 = all_reduce_done(%loss) !data_parallel
  %norm = global_norm(%a.grad.reduced)
)");
}

TEST(DataParallel, EvaluationSumsItsLoss) {
  graph::ExpectPass(DataParallel(), R"(program evaluate
  tensor %x: f32[4,8] input persistent
  tensor %loss: f32[] metric persistent merged sum, sum
forward
  %loss = sum(%x)
)",
                    R"(program evaluate
  …
forward
  %loss = sum(%x)
  %loss = all_reduce_start(%loss) {axis="data"} !data_parallel
  %loss.reduced: f32[] metric persistent view %loss+0 = all_reduce_done(%loss) !data_parallel
)");
}

TEST(DataParallel, SumsEveryMetricThatThereIs) {
  graph::ExpectPass(DataParallel(), R"(program evaluate
  tensor %k: i32[3] input persistent
  tensor %x: f32[4,8] input persistent
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %left: i32[3] metric persistent
  tensor %hits: i32[3] metric persistent merged sum, sum
forward
  %left = cast(%k) {dtype="i32"}
  %loss = sum(%x)
  %hits = cast(%k) {dtype="i32"}
)",
                    R"(program evaluate
  …
forward
  …
  %loss = all_reduce_start(%loss) {axis="data"} !data_parallel
  %hits = all_reduce_start(%hits) {axis="data"} !data_parallel
  %loss.reduced: f32[] metric persistent view %loss+0 = all_reduce_done(%loss) !data_parallel
  %hits.reduced: i32[3] metric persistent view %hits+0 = all_reduce_done(%hits) !data_parallel
)");
}

// Ranks gather what all of them made of it, and the update takes the first part.
TEST(DataParallel, TheFirstRankDecidesAboutStates) {
  graph::ExpectPass(DataParallel({.ranks = 2}),
                    R"(program train
  tensor %x: f32[3] input persistent
  tensor %s: f32[3] state persistent
  tensor %s.pending: f32[3] pending persistent of %s as pending merged last, first
forward
  %next: f32[3] = moving_average(%s, %x) {momentum=0.1}
  %s.pending = cast(%next) {dtype="f32"}
update
  %s = commit_state(%s, %s.pending, _) {parts=1} @s
)",
                    R"(program train
  …
forward
  …
  %s.pending.all: f32[2,3] = all_gather_start(%s.pending) {axis="data", d0=2, d1=3, rank=2} !data_parallel
update
  %s.pending.gathered: f32[2,3] view %s.pending.all+0 = all_gather_done(%s.pending.all, %s.pending) !data_parallel
  %s.pending.first: f32[3] view %s.pending.gathered+0 = first_part(%s.pending.gathered) {d0=3, rank=1} !data_parallel
  %s = commit_state(%s, %s.pending.first, _) {parts=1} @s
)");
}

TEST(DataParallel, ProgramsSayWhatIsAMaximumOverRanks) {
  graph::ExpectPass(DataParallel(), R"(program train
  tensor %x: f32[3] input persistent
  tensor %s: f32[3] state persistent
  tensor %s.pending: f32[3] pending persistent of %s as pending merged max, max
forward
  %s.pending = max_magnitude(%x)
update
  %s = commit_state(%s, %s.pending, _) {parts=1} @s
)",
                    R"(program train
  …
forward
  …
  %s.pending = all_reduce_start(%s.pending) {axis="data", reduction="max"} !data_parallel
update
  %s.pending.reduced: f32[3] pending persistent view %s.pending+0 = all_reduce_done(%s.pending) !data_parallel
  %s = commit_state(%s, %s.pending.reduced, _) {parts=1} @s
)");
}

TEST(DataParallel, FirstMicroStepsAndOtherProgramsStayAsTheyAre) {
  Program first = Parse(R"(program train_first
  tensor %x: f32[4,8] input persistent
  tensor %a: f32[8,8] parameter persistent
  tensor %a.grad: f32[8,8] gradient persistent of %a as gradient
  tensor %loss: f32[] metric persistent merged sum, sum
forward
  %y: f32[4,8] = linear(%x, %a, _)
  %loss = sum(%y)
backward
  %a.grad, _ = linear_dw(%x, %y)
)");
  EXPECT_FALSE(DataParallel().Run(first).changed);
  Program logits = Parse(R"(program logits
  tensor %x: f32[4,8] input persistent
forward
  %logits: f32[4,8] metric = scale(%x) {factor=2.0}
)");
  EXPECT_FALSE(DataParallel().Run(logits).changed);
}

}  // namespace
}  // namespace plimsoll::parallel
