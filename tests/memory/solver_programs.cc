#include "tests/memory/solver_programs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checkpointing/offload.h"
#include "checkpointing/recompute.h"
#include "checkpointing/saved.h"
#include "graph/autodiff.h"
#include "graph/block.h"
#include "graph/builder.h"
#include "graph/simplify.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/activations.h"
#include "ops/elementwise/arithmetic.h"
#include "ops/linear/linear.h"
#include "ops/norms/norms.h"
#include "ops/reductions/reduce.h"

namespace plimsoll::memory {
namespace {

using graph::Builder;
using graph::DType;
using graph::Program;
using graph::Scope;
using graph::Shape;
using graph::Value;

constexpr int64_t kBatch = 16, kTokens = 64, kWidth = 32;

class Network {
 public:
  explicit Network(Program& program) : g_(program) {}

  Value Parameter(const std::string& name, Shape shape) {
    return g_.Persistent(name, graph::Role::kParameter, {DType::kFloat32, shape});
  }
  Value Input() {
    return g_.Persistent("x", graph::Role::kInput, {DType::kFloat32, {kBatch, kTokens, kWidth}});
  }
  Value Norm(const std::string& name, Value x) {
    return ops::LayerNorm(g_, x, Parameter(name + ".weight", {kWidth}), graph::kNoTensor, 1e-5,
                          "norm");
  }
  Value Linear(const std::string& scope, const std::string& name, Value x, int64_t from,
               int64_t to) {
    const Value weight = Parameter(scope + "." + name + ".weight", {to, from});
    return ops::Linear(g_, x, weight, graph::kNoTensor, name);
  }

  // norm, up, gelu, down, residual: four results are kept for the backward pass.
  Value FeedForward(int block, Value x) {
    const std::string scope = "block." + std::to_string(block);
    const Scope in(g_, scope);
    Value h = Norm(scope + ".norm", x);
    h = Linear(scope, "up", h, kWidth, 4 * kWidth);
    h = ops::Gelu(g_, h, "tanh", "gelu");
    return ops::Add(g_, x, Linear(scope, "down", h, 4 * kWidth, kWidth), "out");
  }
  // norm, qkv, attention, proj, residual.
  Value SelfAttention(int block, Value x) {
    const std::string scope = "block." + std::to_string(block);
    const Scope in(g_, scope);
    Value h = Norm(scope + ".norm", x);
    h = Linear(scope, "qkv", h, kWidth, 3 * kWidth);
    h = ops::Attention(g_, h, {.heads = 2, .kv_heads = 2}, {}, "attention");
    return ops::Add(g_, x, Linear(scope, "proj", h, kWidth, kWidth), "out");
  }
  void Loss(Value x) { ops::SquaredNorm(g_, x, "loss"); }

 private:
  Builder g_;
};

std::shared_ptr<Program> Tagged(const Program& base, const std::vector<Decision>& decisions,
                                const Fates& assignment) {
  auto program = std::make_shared<Program>(base);
  for (size_t d = 0; d < decisions.size(); ++d) {
    for (const std::string& name : decisions[d].tensors) {
      program->mutable_tensor(program->Require(name)).retention = assignment[d];
    }
  }
  return program;
}

}  // namespace

std::shared_ptr<Program> Train(Kind kind, int blocks) {
  auto program = std::make_shared<Program>("train");
  Network net(*program);
  Value x = net.Input();
  for (int block = 0; block < blocks; ++block) {
    const bool attention = kind == Kind::kAttention || (kind == Kind::kMixed && block % 2 == 0);
    x = attention ? net.SelfAttention(block, x) : net.FeedForward(block, x);
  }
  net.Loss(x);
  graph::Autodiff({.loss = "loss", .carry = graph::Carry::kNone}).Run(*program);
  // A node that reads all gradients at the end, like an update.
  Builder g(*program);
  g.set_phase(graph::Phase::kUpdate);
  std::vector<Value> gradients;
  for (size_t id = 0; id < program->tensors().size(); ++id) {
    if (program->tensors()[id].role == graph::Role::kGradient) {
      gradients.push_back(static_cast<Value>(id));
    }
  }
  const Value norm = ops::GlobalNorm(g, gradients, "grad_norm");
  program->mutable_tensor(norm).role = graph::Role::kMetric;
  program->mutable_tensor(norm).persistent = true;
  graph::Simplify().Run(*program);
  return program;
}

Variant VariantOf(std::shared_ptr<const Program> base) {
  Variant variant;
  variant.bases = {base};
  for (const checkpointing::SavedTensor& saved : checkpointing::FindSaved(*base)) {
    if (!saved.recomputable || saved.read_at_once) continue;
    if (variant.decisions.empty() || variant.decisions.back().node != saved.producer) {
      Decision& decision = variant.decisions.emplace_back();
      decision.node = saved.producer;
      decision.block = saved.block;
      decision.block_name = graph::BlockIn(base->nodes()[saved.producer].scope);
    }
    Decision& decision = variant.decisions.back();
    decision.tensors.push_back(base->tensor(saved.tensor).name);
    decision.bytes += (saved.bytes + 63) / 64 * 64;
  }
  variant.policies = {{"none", Fates(variant.decisions.size(), graph::Retention::kSave)}};
  variant.build = [base, decisions = variant.decisions](const Fates& assignment) {
    const std::shared_ptr<Program> program = Tagged(*base, decisions, assignment);
    checkpointing::Recompute().Run(*program);
    return std::vector<StepProgram>{{program, 1}};
  };
  return variant;
}

Variant OffloadingVariantOf(std::shared_ptr<const Program> base, const CostModel& cost) {
  Variant variant = VariantOf(base);
  const int64_t most = std::ranges::max(variant.decisions, {}, &Decision::bytes).bytes;
  int done = -1;  // blocks up to this one have theirs
  for (Decision& decision : variant.decisions) {
    decision.recompute = false;
    decision.offload = decision.block > done && decision.bytes == most;
    if (decision.offload) done = decision.block;
    decision.copy_seconds = cost.rates().CopySeconds(static_cast<double>(decision.bytes));
  }
  const checkpointing::OffloadOptions options = {
      .node_seconds = [cost](const graph::OpCall& call) { return cost.Seconds(call); },
      .copy_seconds =
          [cost](int64_t bytes) { return cost.rates().CopySeconds(static_cast<double>(bytes)); }};
  variant.build = [base, options, decisions = variant.decisions](const Fates& assignment) {
    const std::shared_ptr<Program> program = Tagged(*base, decisions, assignment);
    checkpointing::Offload(options).Run(*program);
    return std::vector<StepProgram>{{program, 1}};
  };
  return variant;
}

}  // namespace plimsoll::memory
