#include "amp/precision_policy.h"

#include <algorithm>

#include "base/spelling.h"

namespace plimsoll::amp {
namespace {

const PolicyRow* FindRow(std::string_view op) {
  for (const PolicyRow& row : PolicyTable()) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Op kinds of models whose precision is a choice.
std::vector<std::string> Choices() {
  std::vector<std::string> names;
  for (const graph::OpDef* op : graph::OpRegistry::Get().All()) {
    const PolicyRow* row = FindRow(op->name);
    const bool in_models = row != nullptr || op->gradient;
    if (in_models && (row == nullptr || row->precision != Precision::kAsInput)) {
      names.push_back(op->name);
    }
  }
  return names;
}

std::optional<std::string> ProblemOf(const std::string& name) {
  const std::vector<std::string> choices = Choices();
  if (Contains(choices, name)) return std::nullopt;
  if (const PolicyRow* row = FindRow(name); row != nullptr) {
    return name + " computes nothing and has the type of its input; remove it";
  }
  if (graph::OpRegistry::Get().Find(name) != nullptr) {
    return name + " is no op of a model; backward ops follow the op that they belong to, and " +
           "updates always work in float32";
  }
  const std::string nearest = NearestName(name, choices);
  if (!nearest.empty()) return "no op kind " + name + ", did you mean " + nearest + "?";
  std::string all;
  for (const std::string& choice : choices) all += (all.empty() ? "" : ", ") + choice;
  return "no op kind " + name + "; there are " + all;
}

}  // namespace

std::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kLow:
      return "low";
    case Precision::kLowStorage:
      return "low storage";
    case Precision::kFloat32:
      return "fp32";
    case Precision::kAsInput:
      return "as its input";
  }
  return "";
}

const std::vector<PolicyRow>& PolicyTable() {
  using enum Precision;
  static const std::vector<PolicyRow> table = {
      {"add_low_rank", kLow, "low operands, products summed in float32; the sum is rounded once"},
      {"attention", kLow, "low operands; scores, softmax and its sums stay in float32"},
      {"embedding", kLow, "a lookup; token and position rows are added in float32"},
      {"linear", kLow, "low operands, products summed in float32"},
      {"linear_cross_entropy", kLow,
       "low operands; softmax and the loss itself, on a CPU also the logits, stay in float32"},
      {"matmul", kLow, "low operands, products summed in float32"},
      {"add", kLowStorage, "one rounding per element"},
      {"add_layer_norm", kLowStorage, "the sum is rounded once; as layer_norm from there"},
      {"add_rms_norm", kLowStorage, "the sum is rounded once; as rms_norm from there"},
      {"dropout", kLowStorage, "one rounding per element"},
      {"gelu", kLowStorage, "computed in float32, rounded once"},
      {"layer_norm", kLowStorage, "mean, variance and their sums stay in float32"},
      {"mul", kLowStorage, "one rounding per element"},
      {"rms_norm", kLowStorage, "the mean square and its sum stay in float32"},
      {"rotary", kLowStorage, "angles and rotation in float32, rounded once"},
      {"scale", kLowStorage, "one rounding per element"},
      {"scale_by", kLowStorage, "one rounding per element"},
      {"select_rows", kLowStorage, "moves rows, rounds nothing"},
      {"silu", kLowStorage, "computed in float32, rounded once"},
      {"swiglu", kLowStorage, "computed in float32, rounded once"},
      {"squared_norm", kFloat32, "a sum over many elements, and a result that is read as it is"},
      {"sum", kFloat32, "a sum over many elements, and a result that is read as it is"},
      {"all_gather_done", kAsInput, "another name for the same bytes"},
      {"all_gather_start", kAsInput, "moves bytes"},
      {"all_reduce_done", kAsInput, "another name for the same bytes"},
      {"all_reduce_start", kAsInput, "gradients are summed in the type they have"},
      {"cast", kAsInput, "converts on the model's own account"},
      {"copy_done", kAsInput, "moves bytes"},
      {"copy_start", kAsInput, "moves bytes"},
      {"own_part", kAsInput, "another name for the same bytes"},
      {"reduce_scatter_done", kAsInput, "another name for the same bytes"},
      {"reduce_scatter_start", kAsInput, "gradients are summed in the type they have"},
      {"place_columns", kAsInput, "moves bytes"},
      {"stop_gradient", kAsInput, "another name for the same bytes"},
      {"sum_gradient", kAsInput, "another name for the same bytes"},
      {"view", kAsInput, "another shape for the same bytes"},
  };
  return table;
}

std::string PolicyMarkdown() {
  std::string text = "| op | works in | because |\n|---|---|---|\n";
  for (const PolicyRow& row : PolicyTable()) {
    text += "| `" + std::string(row.op) + "` | " + std::string(Name(row.precision)) + " | " +
            std::string(row.reason) + " |\n";
  }
  return text + "| any other | fp32 | not in the table |\n";
}

std::optional<OptionsProblem> FindProblem(const AmpOptions& options) {
  for (const std::string& name : options.low_ops) {
    if (const auto problem = ProblemOf(name)) return OptionsProblem{"low_ops", *problem};
  }
  for (const std::string& name : options.fp32_ops) {
    if (const auto problem = ProblemOf(name)) return OptionsProblem{"fp32_ops", *problem};
    if (Contains(options.low_ops, name)) {
      return OptionsProblem{"fp32_ops", name + " is in amp.low_ops, too; keep it in one of them"};
    }
  }
  return std::nullopt;
}

Precision PrecisionOf(const graph::OpDef& op, const AmpOptions& options) {
  if (Contains(options.fp32_ops, op.name)) return Precision::kFloat32;
  if (Contains(options.low_ops, op.name)) return Precision::kLow;
  const PolicyRow* row = FindRow(op.name);
  return row == nullptr ? Precision::kFloat32 : row->precision;
}

}  // namespace plimsoll::amp
