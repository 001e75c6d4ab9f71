#include "trainer/plan/code_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "amp/fp8.h"
#include "base/glob.h"
#include "graph/block.h"
#include "ops/linear/scaled_linear.h"

namespace plimsoll::trainer {
namespace {

using graph::DType;
using graph::kNoTensor;
using graph::Node;
using graph::Program;
using graph::TensorId;

constexpr std::string_view kHead = "linear_cross_entropy";  // the prefix of its ops' names

bool IsProductOfLinearLayer(const Node& node) {
  const std::string_view op = node.op->name;
  return op == "scaled_linear" || op == "linear" || op == "linear_dx" || op == "linear_dx_gelu" ||
         op == "linear_dw" || op.starts_with(kHead);
}

// A limit above the longest path between a product and a parameter: copied from the host, gathered,
// cast, viewed; rounded, scattered, added.
constexpr int kMostSteps = 16;

// The parameter that a tensor is, or from which casts, copies and gathers make it; empty means
// none.
std::string ParameterBehind(const Program& program, TensorId id) {
  for (int step = 0; step < kMostSteps && id != kNoTensor; ++step) {
    const graph::Tensor& tensor = program.tensor(id);
    if (tensor.role == graph::Role::kParameter && tensor.persistent) return tensor.name;
    const auto maker = std::ranges::find_if(program.nodes(), [&](const Node& node) {
      return std::ranges::find(node.outputs, id) != node.outputs.end();
    });
    if (maker == program.nodes().end() || maker->inputs.empty()) return "";
    id = maker->inputs.front();
  }
  return "";
}

// The parameter whose gradient a tensor is, or becomes by roundings, sums and parts; empty means
// none.
std::string ParameterAhead(const Program& program, TensorId id) {
  for (int step = 0; step < kMostSteps && id != kNoTensor; ++step) {
    const std::optional<graph::Owner>& owner = program.tensor(id).owner;
    if (owner && owner->as == graph::OwnedAs::kGradient) return owner->name;
    const auto reader = std::ranges::find_if(program.nodes(), [&](const Node& node) {
      return std::ranges::find(node.inputs, id) != node.inputs.end();
    });
    if (reader == program.nodes().end() || reader->outputs.empty()) return "";
    id = reader->outputs.front();
  }
  return "";
}

// The weight in a linear layer's 16-bit product; empty means unknown.
std::string WeightOf(const Program& program, const Node& node) {
  if (node.op->name != "linear_dw") return ParameterBehind(program, node.inputs[1]);
  return ParameterAhead(program, node.outputs[0]);
}

// Why a linear layer's product is not in 8 bits.
std::string WhyNot(const amp::Fp8Options& options, const Program& program,
                   const graph::Blocks& blocks, size_t n) {
  const Node& node = program.nodes()[n];
  const int block = blocks.Of(n);
  if (node.op->name.starts_with(kHead)) return "the head stays in 16 bits";
  if (block == graph::kNoBlock) return "outside the blocks";
  if (amp::IsAtAnEnd(blocks, block, options.skip_ends)) return "amp.fp8.skip_ends";
  if (MatchesAnyGlob(options.skip, WeightOf(program, node))) return "amp.fp8.skip";
  const graph::TensorType &first = program.tensor(node.inputs[0]).type,
                          &second = program.tensor(node.inputs[1]).type;
  if (!graph::IsLowPrecision(first.dtype)) {
    return fmt::format("in {}", graph::Name(first.dtype));
  }
  // The layer's forward product decides for the complete layer.
  const bool gradient = node.op->name == "linear_dw";
  ops::ScaledProduct product{.m = first.shape.rows(), .result = first.dtype};
  product.n = gradient ? second.shape.dim(-1) : second.shape.dim(0);
  product.k = gradient ? first.shape.dim(-1) : second.shape.dim(1);
  const std::string why = ops::WhyNotScaled(product);
  return why.empty() ? fmt::format("in {}", graph::Name(first.dtype)) : why;
}

// The codes from which a node of the forward pass computes an activation function's input.
TensorId CodesOfInput(const Program& program, const Node& node) {
  if (node.phase != graph::Phase::kForward) return kNoTensor;
  const bool reads = node.op->name == "dequantize" || node.op->name == "quantize_activation";
  if (!reads || !graph::IsFloat8(program.tensor(node.inputs[0]).type.dtype)) return kNoTensor;
  return program.Root(node.inputs[0]);
}

}  // namespace

CodeProducts CountCodeProducts(const CompiledStep& compiled) {
  CodeProducts products;
  int64_t kept = 0;
  for (const StepEntry& entry : compiled.step.entries) {
    const Program& program = *compiled.programs[entry.program];
    const graph::Blocks blocks(program);
    std::set<TensorId> pre_activations;
    for (size_t n = 0; n < program.nodes().size(); ++n) {
      const Node& node = program.nodes()[n];
      pre_activations.insert(CodesOfInput(program, node));
      if (!IsProductOfLinearLayer(node) || node.phase == graph::Phase::kRecompute) continue;
      // A node that computes only a bias's gradient multiplies nothing.
      if (graph::CostOf(program.CallOf(node).get()).products == 0) continue;
      products.all += entry.times;
      if (node.op->name == "scaled_linear") {
        products.of_codes += entry.times;
      } else {
        products.others[WhyNot(compiled.options.amp.fp8, program, blocks, n)] += entry.times;
      }
    }
    pre_activations.erase(kNoTensor);
    kept += static_cast<int64_t>(pre_activations.size()) * entry.times;
  }
  // All micro-steps of an update have the same products.
  const int64_t micro_steps = compiled.options.accumulate;
  products.all /= micro_steps;
  products.of_codes /= micro_steps;
  if (compiled.options.amp.fp8.pre_activations) products.pre_activations = kept / micro_steps;
  for (auto& [reason, count] : products.others) count /= micro_steps;
  return products;
}

std::string Text(const CodeProducts& products) {
  std::string text =
      fmt::format("8-bit products: {} of {} a micro-step", products.of_codes, products.all);
  std::string reasons;
  for (const auto& [reason, count] : products.others) {
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", reason, count);
  }
  if (!reasons.empty()) text += fmt::format(" ({})", reasons);
  if (products.pre_activations) {
    text += fmt::format(", pre-activations in 8 bits: {}", *products.pre_activations);
  }
  return text;
}

nlohmann::ordered_json CodeProductsJson(const CodeProducts& products) {
  nlohmann::ordered_json others = nlohmann::ordered_json::object();
  for (const auto& [reason, count] : products.others) others[reason] = count;
  return {{"all", products.all},
          {"eight_bit", products.of_codes},
          {"others", others},
          {"pre_activations", products.pre_activations.value_or(0)}};
}

}  // namespace plimsoll::trainer
