// Golden tests of the pass `cut_stage`, and what stages compute next to the whole model.
#include "parallel/cut_stage.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/mixed_precision.h"
#include "base/thread_pool.h"
#include "graph/autodiff.h"
#include "models/model.h"
#include "optim/update.h"
#include "tests/graph/expect_program.h"
#include "tests/models/published.h"
#include "tests/ops/interpreter.h"
#include "tests/support/expect_error.h"

namespace plimsoll::parallel {
namespace {

using graph::Carry;
using graph::Parse;
using graph::Program;

constexpr std::string_view kForward = R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[10,8] parameter persistent
  tensor %fc: f32[8,8] parameter persistent
  tensor %out: f32[8,8] parameter persistent
  tensor %head: f32[10,8] parameter persistent
  tensor %targets: i32[2,3] input persistent
  tensor %weight: f32[] input persistent
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, _) @embed
  %f: f32[2,3,8] = linear(%x, %fc, _) @block.0
  %r: f32[2,3,8] = add(%x, %f) @block.0
  %g: f32[2,3,8] = linear(%r, %out, _) @block.1
  %s: f32[2,3,8] = add(%r, %g) @block.1
  %loss: f32[] metric persistent merged sum, sum, %lse: f32[6] = linear_cross_entropy(%s, %head, %targets, %weight)
)";

// The last block's result is compared with the table that embeds tokens.
constexpr std::string_view kTied = R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[10,8] parameter persistent
  tensor %fc: f32[8,8] parameter persistent
  tensor %mid: f32[8,8] parameter persistent
  tensor %out: f32[8,8] parameter persistent
  tensor %targets: i32[2,3] input persistent
  tensor %weight: f32[] input persistent
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, _) @embed
  %f: f32[2,3,8] = linear(%x, %fc, _) @block.0
  %r: f32[2,3,8] = add(%x, %f) @block.0
  %g: f32[2,3,8] = linear(%r, %mid, _) @block.1
  %s: f32[2,3,8] = add(%r, %g) @block.1
  %h: f32[2,3,8] = linear(%s, %out, _) @block.2
  %t: f32[2,3,8] = add(%s, %h) @block.2
  %loss: f32[] metric persistent merged sum, sum, %lse: f32[6] = linear_cross_entropy(%t, %table, %targets, %weight)
)";

Program Whole(bool update, Carry carry = Carry::kWrite, std::string_view forward = kForward) {
  Program program = Parse(forward);
  graph::Autodiff({.carry = carry}).Run(program);
  if (update) {
    optim::UpdateOptions options;
    options.algorithm = optim::UpdateOptions::Algorithm::kSgd;
    options.momentum = 0;
    optim::Update(options).Run(program);
  }
  return program;
}

Program Stage(Program program, std::vector<int64_t> blocks, int64_t stage) {
  CutStage pass({std::move(blocks), stage});
  EXPECT_TRUE(pass.Run(program).changed);
  return program;
}

TEST(CutStage, KeepsItsBlocksAndWhatTheFirstStageExchanges) {
  const Program whole = Whole(true, Carry::kAccumulate);
  graph::ExpectProgram(Stage(whole, {1, 1}, 0), R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[10,8] parameter persistent
  tensor %fc: f32[8,8] parameter persistent
  tensor %stage.out: f32[2,3,8] persistent
  tensor %table.grad: f32[10,8] gradient persistent of %table as gradient
  tensor %fc.grad: f32[8,8] gradient persistent of %fc as gradient
  tensor %stage.out.grad: f32[2,3,8] persistent
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %loss.all: f32[] metric persistent view %loss+0
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, _) @embed
  %f: f32[2,3,8] = linear(%x, %fc, _) @block.0
  %stage.out = add(%x, %f) @block.0
backward
  %fc.grad, _ = linear_dw(%x, %stage.out.grad, %fc.grad, _) {bias=false} @block.0 !autodiff
  %block.0.linear_dx: f32[2,3,8] = linear_dx(%stage.out.grad, %fc, %stage.out.grad) @block.0 !autodiff
  %table.grad = embedding_dw(%tokens, %block.0.linear_dx, %table.grad) {rows=10} @embed !autodiff
  %loss = fill() {dtype="f32", value=0.0} !cut_stage
update
  %loss = all_reduce_start(%loss) {axis="pipeline"} !cut_stage
  %loss.all = all_reduce_done(%loss) !cut_stage
  %table.grad.squares: f64[] = square_sum(%table.grad) !cut_stage
  %fc.grad.squares: f64[] = square_sum(%fc.grad) !cut_stage
  %stage.squares: f64[2] = stack(%table.grad.squares, %fc.grad.squares) !cut_stage
  %stages.squares: f64[4] = all_gather_start(%stage.squares) {axis="pipeline", d0=4, rank=1} !cut_stage
  %stages.squares.2: f64[4] view %stages.squares+0 = all_gather_done(%stages.squares, %stage.squares) !cut_stage
  %table.grad.squares.2: f64[] view %stages.squares.2+0 = slice(%stages.squares.2) {first=0, rank=0} !cut_stage
  %fc.grad.squares.2: f64[] view %stages.squares.2+8 = slice(%stages.squares.2) {first=1, rank=0} !cut_stage
  %out.grad.squares: f64[] view %stages.squares.2+16 = slice(%stages.squares.2) {first=2, rank=0} !cut_stage
  %head.grad.squares: f64[] view %stages.squares.2+24 = slice(%stages.squares.2) {first=3, rank=0} !cut_stage
  %grad_norm = root_of_sums(%table.grad.squares.2, %fc.grad.squares.2, %out.grad.squares, %head.grad.squares) !cut_stage
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=1.0} !update
  %update_count = increment(%update_count) !update
  %table, _, _, _ = sgd(%table, %table.grad, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.1} @table !update
  %fc, _, _, _ = sgd(%fc, %fc.grad, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.1} @fc !update
)");
}

// More nodes than the whole program has can be left.
TEST(CutStage, CountsNodesOfTheModelApart) {
  Program whole = Whole(true);
  EXPECT_EQ(CutStage({{1, 1}, 0}).Run(whole).summary,
            "stage 0 of 2: 10 of 20 nodes, 13 added to sum over stages");
  Program forward = Whole(false);
  EXPECT_EQ(CutStage({{1, 1}, 1}).Run(forward).summary, "stage 1 of 2: 7 of 13 nodes");
}

TEST(CutStage, GivesTheLossToTheLastStage) {
  const Program whole = Whole(false);
  graph::ExpectProgram(Stage(whole, {1, 1}, 1), R"(program train
  tensor %out: f32[8,8] parameter persistent
  tensor %head: f32[10,8] parameter persistent
  tensor %targets: i32[2,3] input persistent
  tensor %weight: f32[] input persistent
  tensor %stage.in: f32[2,3,8] persistent
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %head.grad: f32[10,8] gradient persistent of %head as gradient
  tensor %stage.in.grad: f32[2,3,8] persistent
  tensor %out.grad: f32[8,8] gradient persistent of %out as gradient
forward
  %g: f32[2,3,8] = linear(%stage.in, %out, _) @block.1
  %s: f32[2,3,8] = add(%stage.in, %g) @block.1
  %loss, %lse: f32[6] = linear_cross_entropy(%s, %head, %targets, %weight)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %linear_cross_entropy_backward: f32[2,3,8], %head.grad, _ = linear_cross_entropy_backward(%s, %head, %targets, %weight, %lse, %loss.seed, _) !autodiff
  %out.grad, _ = linear_dw(%stage.in, %linear_cross_entropy_backward, _, _) {bias=false} @block.1 !autodiff
  %stage.in.grad = linear_dx(%linear_cross_entropy_backward, %out, %linear_cross_entropy_backward) @block.1 !autodiff
)");
}

// The stage with fewer gradients sends some of its numbers twice, which nothing reads.
TEST(CutStage, PadsNormsOfFewerGradients) {
  Program whole = Parse(kForward);
  graph::Autodiff({.frozen = [](const graph::Tensor& tensor) {
    return tensor.name == "out";
  }}).Run(whole);
  optim::Update({}).Run(whole);
  const std::string text = ToText(Stage(whole, {1, 1}, 1));
  EXPECT_NE(text.find("= stack(%head.grad.squares, %head.grad.squares)"), text.npos) << text;
  EXPECT_NE(text.find("root_of_sums(%table.grad.squares, %fc.grad.squares, %head.grad.squares.2)"),
            text.npos)
      << text;
}

// The first stage of the first micro-batch: the whole model would add to what the head has written.
TEST(CutStage, SumsTheGradientOfATableOfBothEnds) {
  const Program whole = Whole(true, Carry::kWrite, kTied);
  graph::ExpectProgram(Stage(whole, {1, 1, 1}, 0), R"(program train
  tensor %tokens: i32[2,3] input persistent
  tensor %table: f32[10,8] parameter persistent
  tensor %fc: f32[8,8] parameter persistent
  tensor %stage.out: f32[2,3,8] persistent
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %table.grad: f32[10,8] gradient persistent of %table as gradient
  tensor %stage.out.grad: f32[2,3,8] persistent
  tensor %fc.grad: f32[8,8] gradient persistent of %fc as gradient
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %loss.all: f32[] metric persistent view %loss+0
forward
  %x: f32[2,3,8] = embedding(%tokens, %table, _) @embed
  %f: f32[2,3,8] = linear(%x, %fc, _) @block.0
  %stage.out = add(%x, %f) @block.0
backward
  %fc.grad, _ = linear_dw(%x, %stage.out.grad, _, _) {bias=false} @block.0 !autodiff
  %block.0.linear_dx: f32[2,3,8] = linear_dx(%stage.out.grad, %fc, %stage.out.grad) @block.0 !autodiff
  %table.grad = embedding_dw(%tokens, %block.0.linear_dx, _) {rows=10} @embed !autodiff
  %loss = fill() {dtype="f32", value=0.0} !cut_stage
update
  %loss = all_reduce_start(%loss) {axis="pipeline"} !cut_stage
  %loss.all = all_reduce_done(%loss) !cut_stage
  %table.grad = all_reduce_start(%table.grad) {axis="ends"} !cut_stage
  %table.grad.all: f32[10,8] gradient view %table.grad+0 = all_reduce_done(%table.grad) !cut_stage
  %table.grad.squares: f64[] = square_sum(%table.grad.all) !cut_stage
  %fc.grad.squares: f64[] = square_sum(%fc.grad) !cut_stage
  %stage.squares: f64[2] = stack(%table.grad.squares, %fc.grad.squares) !cut_stage
  %stages.squares: f64[6] = all_gather_start(%stage.squares) {axis="pipeline", d0=6, rank=1} !cut_stage
  %stages.squares.2: f64[6] view %stages.squares+0 = all_gather_done(%stages.squares, %stage.squares) !cut_stage
  %table.grad.squares.2: f64[] view %stages.squares.2+0 = slice(%stages.squares.2) {first=0, rank=0} !cut_stage
  %fc.grad.squares.2: f64[] view %stages.squares.2+8 = slice(%stages.squares.2) {first=1, rank=0} !cut_stage
  %mid.grad.squares: f64[] view %stages.squares.2+16 = slice(%stages.squares.2) {first=2, rank=0} !cut_stage
  %out.grad.squares: f64[] view %stages.squares.2+32 = slice(%stages.squares.2) {first=4, rank=0} !cut_stage
  %grad_norm = root_of_sums(%table.grad.squares.2, %fc.grad.squares.2, %mid.grad.squares, %out.grad.squares) !cut_stage
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=1.0} !update
  %update_count = increment(%update_count) !update
  %table, _, _, _ = sgd(%table, %table.grad.all, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.1} @table !update
  %fc, _, _, _ = sgd(%fc, %fc.grad, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.1} @fc !update
)");
  graph::ExpectProgram(Stage(whole, {1, 1, 1}, 2), R"(program train
  tensor %table: f32[10,8] parameter persistent
  tensor %out: f32[8,8] parameter persistent
  tensor %targets: i32[2,3] input persistent
  tensor %weight: f32[] input persistent
  tensor %stage.in: f32[2,3,8] persistent
  tensor %loss: f32[] metric persistent merged sum, sum
  tensor %table.grad: f32[10,8] gradient persistent of %table as gradient
  tensor %stage.in.grad: f32[2,3,8] persistent
  tensor %out.grad: f32[8,8] gradient persistent of %out as gradient
  tensor %lr: f32[] input persistent
  tensor %grad_norm: f32[] metric persistent
  tensor %update_count: i32[] optimizer_state persistent
  tensor %loss.all: f32[] metric persistent view %loss+0
forward
  %h: f32[2,3,8] = linear(%stage.in, %out, _) @block.2
  %t: f32[2,3,8] = add(%stage.in, %h) @block.2
  %loss, %lse: f32[6] = linear_cross_entropy(%t, %table, %targets, %weight)
backward
  %loss.seed: f32[] = fill() {dtype="f32", value=1.0} !autodiff
  %linear_cross_entropy_backward: f32[2,3,8], %table.grad, _ = linear_cross_entropy_backward(%t, %table, %targets, %weight, %lse, %loss.seed, _) !autodiff
  %out.grad, _ = linear_dw(%stage.in, %linear_cross_entropy_backward, _, _) {bias=false} @block.2 !autodiff
  %stage.in.grad = linear_dx(%linear_cross_entropy_backward, %out, %linear_cross_entropy_backward) @block.2 !autodiff
update
  %loss = all_reduce_start(%loss) {axis="pipeline"} !cut_stage
  %loss.all = all_reduce_done(%loss) !cut_stage
  %table.grad = all_reduce_start(%table.grad) {axis="ends"} !cut_stage
  %table.grad.all: f32[10,8] gradient view %table.grad+0 = all_reduce_done(%table.grad) !cut_stage
  %out.grad.squares: f64[] = square_sum(%out.grad) !cut_stage
  %stage.squares: f64[2] = stack(%out.grad.squares, %out.grad.squares) !cut_stage
  %stages.squares: f64[6] = all_gather_start(%stage.squares) {axis="pipeline", d0=6, rank=1} !cut_stage
  %stages.squares.2: f64[6] view %stages.squares+0 = all_gather_done(%stages.squares, %stage.squares) !cut_stage
  %table.grad.squares: f64[] view %stages.squares.2+0 = slice(%stages.squares.2) {first=0, rank=0} !cut_stage
  %fc.grad.squares: f64[] view %stages.squares.2+8 = slice(%stages.squares.2) {first=1, rank=0} !cut_stage
  %mid.grad.squares: f64[] view %stages.squares.2+16 = slice(%stages.squares.2) {first=2, rank=0} !cut_stage
  %out.grad.squares.2: f64[] view %stages.squares.2+32 = slice(%stages.squares.2) {first=4, rank=0} !cut_stage
  %grad_norm = root_of_sums(%table.grad.squares, %fc.grad.squares, %mid.grad.squares, %out.grad.squares.2) !cut_stage
  %clip_factor: f32[] = clip_factor(%grad_norm) {max_norm=1.0} !update
  %update_count = increment(%update_count) !update
  %table, _, _, _ = sgd(%table, %table.grad.all, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.1} @table !update
  %out, _, _, _ = sgd(%out, %out.grad, _, %lr, %clip_factor) {momentum=0.0, nesterov=false, weight_decay=0.1} @out !update
)");
  const std::string between = ToText(Stage(whole, {1, 1, 1}, 1));
  EXPECT_EQ(between.find("%table:"), between.npos) << between;
  EXPECT_EQ(between.find("ends"), between.npos) << between;
  EXPECT_NE(between.find("root_of_sums(%table.grad.squares, %fc.grad.squares, "), between.npos)
      << between;
}

// Later micro-batches add to each stage's own part, and the ends of two stages are all of them.
TEST(CutStage, AddsToThePartOfATable) {
  const std::string first = ToText(Stage(Whole(true, Carry::kAccumulate, kTied), {2, 1}, 0));
  EXPECT_NE(first.find("%table.grad = embedding_dw(%tokens, %block.0.linear_dx, %table.grad)"),
            first.npos)
      << first;
  EXPECT_NE(first.find("%table.grad = all_reduce_start(%table.grad) {axis=\"pipeline\"}"),
            first.npos)
      << first;
}

std::string WhyNot(Program program, std::vector<int64_t> blocks) {
  return UserErrorOf([&] { CutStage({std::move(blocks), 0}).Run(program); });
}

TEST(CutStage, RefusesWhatStagesCannotExchange) {
  EXPECT_EQ(WhyNot(Whole(true), {1, 2}), "stages of 1, 2 blocks are 3 blocks, but the model has 2");
  std::string text(kTied);
  const auto replace = [&](std::string_view what, std::string_view with) {
    text.replace(text.find(what), what.size(), with);
  };
  replace("linear(%r, %mid", "linear(%r, %fc");
  replace("  tensor %mid: f32[8,8] parameter persistent\n", "");
  EXPECT_EQ(WhyNot(Parse(text), {1, 1, 1}),
            "stages 0 and 1 share 'fc': node 3 (linear @block.1) is on the second");
  text = kForward;
  replace("add(%r, %g) @block.1", "add(%x, %g) @block.1");
  EXPECT_EQ(WhyNot(Parse(text), {1, 1}),
            "the cut between stages 0 and 1 crosses more than one activation: 'x', 'r'");
  Program frozen = Parse(kForward);
  graph::Autodiff({.carry = Carry::kWrite,
                   .frozen =
                       [](const graph::Tensor& tensor) {
                         return tensor.name == "table" || tensor.name == "fc";
                       }})
      .Run(frozen);
  EXPECT_EQ(WhyNot(frozen, {1, 1}), "no parameter is trained up to stage 0");
}

// What a program that is run by itself gives, and takes.
using Values = std::map<std::string, std::vector<double>>;

Values Given(const Program& program, int64_t vocab) {
  Values values;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.persistent || tensor.role == graph::Role::kMetric) continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(tensor.name)));
    std::vector<double>& of = values[tensor.name];
    for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
      if (tensor.type.dtype == graph::DType::kInt32) {
        of.push_back(static_cast<double>(random() % static_cast<uint64_t>(vocab)));
      } else {
        of.push_back(static_cast<float>(std::normal_distribution<double>(0, 0.1)(random)));
      }
    }
  }
  return values;
}

// Runs the program on `values`, and puts there all that it carries.
void RunOn(const Program& program, Values& values) {
  ThreadPool pool(1);
  ops::Interpreter interpreter(program, pool);
  const auto is_carried = [](const graph::Tensor& tensor) {
    return tensor.persistent && !tensor.alias;
  };
  for (const graph::Tensor& tensor : program.tensors()) {
    const auto found = values.find(tensor.name);
    if (is_carried(tensor) && found != values.end()) interpreter.Set(tensor.name, found->second);
  }
  interpreter.Run();
  for (const graph::Tensor& tensor : program.tensors()) {
    if (is_carried(tensor)) values[tensor.name] = interpreter.Get(tensor.name);
  }
}

Program Differentiated(const models::ModelSpec& spec, graph::DType dtype) {
  Program program("train");
  graph::Builder builder(program);
  const auto model = models::MakeModel(spec);
  program.Rename(model->Build(builder, {2, 8}, models::Head::kLoss, true).loss, "loss");
  if (dtype != graph::DType::kFloat32) {
    amp::AmpOptions options;
    options.dtype = dtype;
    amp::MixedPrecision(options).Run(program);
  }
  graph::Autodiff({.carry = Carry::kWrite}).Run(program);
  return program;
}

void Give(Values& from, std::string_view what, Values& to, std::string_view as) {
  to[std::string(as)] = from.at(std::string(what));
}

// Each stage runs twice: for what it sends forward, and with the gradient that it has received.
Values RunStages(const Program& whole, const std::vector<int64_t>& blocks, const Values& given) {
  const size_t count = blocks.size();
  std::vector<Program> stages;
  std::vector<Values> values(count, given);
  for (size_t s = 0; s < count; ++s) {
    stages.push_back(Stage(whole, blocks, static_cast<int64_t>(s)));
    graph::Verify(stages.back());
  }
  for (size_t s = 0; s < count; ++s) {
    if (s > 0) Give(values[s - 1], kStageOut, values[s], kStageIn);
    RunOn(stages[s], values[s]);
  }
  Values results;
  for (size_t s = count; s-- > 0;) {
    if (s + 1 < count) Give(values[s + 1], kStageInGrad, values[s], kStageOutGrad);
    RunOn(stages[s], values[s]);
    for (const graph::Tensor& tensor : stages[s].tensors()) {
      if (tensor.role == graph::Role::kGradient || tensor.role == graph::Role::kMetric) {
        EXPECT_FALSE(results.contains(tensor.name)) << tensor.name;
        if (tensor.persistent) results[tensor.name] = values[s].at(tensor.name);
      }
    }
  }
  return results;
}

TEST(CutStage, StagesComputeTheBitsOfTheWholeModel) {
  models::ModelSpec gpt2 = models::Gpt2Spec(5, 16, 2, 40, 8);
  gpt2.tied = false;
  gpt2.dropout = 0.1;
  const models::ModelSpec llama = models::LlamaSpec({5, 16, 2, 1, 8, 24, 40, 8, false});
  for (const models::ModelSpec& spec : {gpt2, llama}) {
    for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kBFloat16}) {
      const Program whole = Differentiated(spec, dtype);
      const Values given = Given(whole, spec.vocab);
      Values want = given;
      RunOn(whole, want);
      for (const std::vector<int64_t>& blocks :
           std::vector<std::vector<int64_t>>{{2, 3}, {1, 3, 1}, {1, 1, 2, 1}, {1, 1, 1, 1, 1}}) {
        SCOPED_TRACE(testing::Message() << spec.family << ", " << graph::Name(dtype) << ", "
                                        << blocks.size() << " stages");
        const Values got = RunStages(whole, blocks, given);
        EXPECT_EQ(got.size(), spec.family == "gpt2" ? 5 * 12 + 6 : 5 * 6 + 4);
        for (const auto& [name, values] : got) EXPECT_EQ(values, want.at(name)) << name;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::parallel
