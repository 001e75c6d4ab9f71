// Losses, gradients and carried state are equal to the bit before and after a pass, run by an
// interpreter without memory planning: for all passes except those that choose other types (amp),
// add parameters (lora) or split sums into partial ones (the meshes of tensor parallelism and ZeRO,
// and the cache of generation).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/autodiff.h"
#include "graph/fuse.h"
#include "graph/simplify.h"
#include "graph/text.h"
#include "ops/fusions.h"
#include "tests/ops/interpreter.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/tiny_session.h"

namespace plimsoll::trainer {
namespace {

using graph::Program;
using graph::Role;

// The differentiated training program of a model.
Program Differentiated(const models::ModelSpec& spec) {
  Program program("train");
  graph::Builder builder(program);
  const auto model = models::MakeModel(spec);
  program.Rename(model->Build(builder, {3, 16}, models::Head::kLoss, true).loss, "loss");
  graph::Autodiff({}).Run(program);
  return program;
}

// All results that the host would read after a run: the loss and all gradients.
std::map<std::string, std::vector<double>> Results(const Program& program,
                                                   const models::ModelSpec& spec) {
  ThreadPool pool(2);
  ops::Interpreter interpreter(program, pool);
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.persistent || tensor.role == Role::kMetric) continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(tensor.name)));
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
      if (tensor.name == "token_weight") {
        values.push_back(1.0 / 48);
      } else if (tensor.type.dtype == graph::DType::kInt32) {
        values.push_back(static_cast<double>(random() % spec.vocab));
      } else {
        values.push_back(static_cast<float>(std::normal_distribution<double>(0, 0.1)(random)));
      }
    }
    interpreter.Set(tensor.name, values);
  }
  interpreter.Run();
  std::map<std::string, std::vector<double>> results;
  for (const graph::Tensor& tensor : program.tensors()) {
    if (tensor.role == Role::kMetric || tensor.name.ends_with(".grad")) {
      results[tensor.name] = interpreter.Get(tensor.name);
    }
  }
  return results;
}

class KeepsBits : public testing::TestWithParam<bool> {
 protected:
  models::ModelSpec Spec() const {
    models::ModelSpec spec = GetParam() ? TinyGpt2() : TinyLlama();
    if (GetParam()) spec.dropout = 0.1;
    return spec;
  }

  std::vector<std::string> Gradients(const Program& program) const {
    std::vector<std::string> names;
    for (const graph::Tensor& tensor : program.tensors()) {
      if (tensor.name.ends_with(".grad")) names.push_back(tensor.name);
    }
    return names;
  }

  void ExpectSame(graph::Pass& pass) {
    const Program before = Differentiated(Spec());
    Program after = Differentiated(Spec());
    EXPECT_TRUE(pass.Run(after).changed) << "the pass had nothing to do";
    const auto expected = Results(before, Spec()), results = Results(after, Spec());
    EXPECT_GT(expected.size(), 10u);
    EXPECT_EQ(results, expected);
  }
};

TEST_P(KeepsBits, Fuse) {
  graph::Fuse fuse({{"loss with its backward", &ops::FuseLossBackward}});
  ExpectSame(fuse);
}

TEST_P(KeepsBits, FuseSumsWithNorms) {
  graph::Fuse fuse({{"sum with its norm", &ops::FuseAddNorm}});
  ExpectSame(fuse);
}

TEST_P(KeepsBits, Simplify) {
  // Adds dead nodes and an unread result, so that there is something to remove.
  Program before = Differentiated(Spec());
  Program after = Differentiated(Spec());
  graph::Builder builder(after);
  builder.set_phase(graph::Phase::kBackward);
  builder.Emit1("scale", {after.Require("loss")}, {{"factor", 2.0}}, "dead");
  graph::Simplify simplify(Gradients(after));
  EXPECT_TRUE(simplify.Run(after).changed);
  EXPECT_EQ(after.Find("dead"), graph::kNoTensor);
  EXPECT_EQ(Results(after, Spec()), Results(before, Spec()));
}

// The results of a program for given inputs: metrics, which begin at 0, gradients, and carried
// state.
std::map<std::string, std::vector<double>> Computes(const Program& program, bool carried) {
  ThreadPool pool(2);
  ops::Interpreter interpreter(program, pool);
  for (const graph::Tensor& tensor : program.tensors()) {
    if (!tensor.persistent || tensor.alias) continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(tensor.name)));
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.type.shape.elements(); ++i) {
      if (tensor.role == Role::kMetric) {
        values.push_back(0);
        continue;
      }
      const double normal = std::normal_distribution<double>(0, 0.1)(random);
      const bool positive = tensor.role == Role::kOptimizerState || tensor.role == Role::kState ||
                            tensor.name == "token_weight" || tensor.name == "loss_limit";
      if (graph::IsFloat(tensor.type.dtype)) {
        values.push_back(positive ? 1e-3 + std::abs(normal) : normal);
      } else {
        values.push_back(static_cast<double>(random() % 90));
      }
    }
    interpreter.Set(tensor.name, values);
  }
  interpreter.Run();
  std::map<std::string, std::vector<double>> results;
  for (const graph::Tensor& tensor : program.tensors()) {
    const bool result = tensor.role == Role::kMetric || tensor.name.ends_with(".grad") ||
                        (carried && tensor.persistent && tensor.role != Role::kInput);
    if (result && !tensor.alias) results[tensor.name] = interpreter.Get(tensor.name);
  }
  return results;
}

void ExpectEqualBits(const std::map<std::string, std::vector<double>>& before,
                     const std::map<std::string, std::vector<double>>& behind) {
  size_t compared = 0;
  for (const auto& [name, values] : before) {
    const auto found = behind.find(name);
    if (found == behind.end()) continue;
    ++compared;
    ASSERT_EQ(values.size(), found->second.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool equal =
          values[i] == found->second[i] || (std::isnan(values[i]) && std::isnan(found->second[i]));
      ASSERT_TRUE(equal) << name << "[" << i << "]: " << values[i] << ", " << found->second[i];
    }
  }
  EXPECT_GT(compared, 0u);
}

// A program of a step after a pass; the stages are in order.
struct Stage {
  std::string program, pass;
  int number = 0;
  std::string text;
};
std::vector<Stage> StagesOf(const models::ModelSpec& spec, CompileOptions options) {
  const TempFolder folder;
  options.dump_directory = folder.path();
  options.micro_batch = 2;
  options.sequence = 16;
  options.threads = 2;
  Compile(*models::MakeModel(spec), options);
  std::vector<Stage> stages;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    // PROGRAM.NN.PASS.txt
    const std::string name = entry.path().stem().string();
    const size_t dot = name.find('.'), next = name.find('.', dot + 1);
    stages.push_back({name.substr(0, dot), name.substr(next + 1),
                      std::stoi(name.substr(dot + 1, next - dot - 1)),
                      ReadFile(entry.path().string())});
  }
  std::ranges::sort(stages, {}, [](const Stage& s) { return std::pair(s.program, s.number); });
  return stages;
}

TEST(Passes, KeepTheBitsOfEveryStep) {
  const std::set<std::string> keep = {"autodiff",  "update",  "host_parameters",
                                      "simplify",  "fuse",    "tags",
                                      "recompute", "offload", "workspaces"};
  using Policy = checkpointing::Options::Policy;
  std::vector<CompileOptions> cases(12);
  cases[0].accumulate = 3;
  cases[1].checkpointing.policy = Policy::kBlock;
  cases[2].checkpointing = {.policy = Policy::kSelective,
                            .recompute = {{"norms", "activations", "attention"}, "recompute"}};
  cases[3].checkpointing = {.policy = Policy::kBlock,
                            .offload = {{"block.*.residual_2"}, "offload"}};
  cases[4].on_host.state = true;
  cases[5].amp.dtype = graph::DType::kFloat16;
  cases[5].update.loss_scale = ops::LossScaleOptions{};
  cases[5].checkpointing.policy = Policy::kBlock;
  cases[6].amp.dtype = graph::DType::kBFloat16;
  cases[6].update.master_weights = false;
  cases[6].update.state_dtype = optim::StateDType::kInt8;
  cases[7].update.skips = true;
  cases[7].update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  for (const size_t c : {8, 9}) {
    cases[c].amp.dtype = graph::DType::kBFloat16;
    cases[c].amp.fp8.enabled = true;
    cases[c].checkpointing = cases[c - 7].checkpointing;  // by blocks, and selective
    cases[c + 2].amp = cases[c].amp;
    cases[c + 2].amp.fp8.window = 2;  // and nothing is recomputed
  }
  std::map<std::string, int> compared;
  for (size_t c = 0; c < cases.size(); ++c) {
    models::ModelSpec spec = c % 2 == 0 ? TinyGpt2() : TinyLlama();
    if (c == 0 || c == 2) spec.dropout = 0.1;
    const std::vector<Stage> stages = StagesOf(spec, cases[c]);
    for (size_t i = 1; i < stages.size(); ++i) {
      const Stage &before = stages[i - 1], &behind = stages[i];
      if (before.program != behind.program || !keep.contains(behind.pass)) continue;
      SCOPED_TRACE(testing::Message() << "case " << c << ", " << behind.program << ", "
                                      << behind.number << " " << behind.pass);
      // An update is what writes weights and optimizer state.
      const bool carried = behind.pass != "update";
      ExpectEqualBits(Computes(graph::ParseProgram(before.text), carried),
                      Computes(graph::ParseProgram(behind.text), carried));
      if (before.text != behind.text) ++compared[behind.pass];
    }
  }
  // Each pass changed at least one program.
  for (const std::string& pass : keep) {
    // Texts don't show tags, and the models' programs are already simplified: see above.
    if (pass == "tags" || pass == "simplify") continue;
    EXPECT_GT(compared[pass], 0) << pass;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, KeepsBits, testing::Bool(),
                         [](const auto& info) { return info.param ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace plimsoll::trainer
