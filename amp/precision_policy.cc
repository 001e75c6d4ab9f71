#include "amp/precision_policy.h"

#include <algorithm>

#include "base/spelling.h"

namespace plimsoll::amp {
namespace {

// Whether models may use the op: if it declares a precision, or has a gradient.
bool IsOfModels(const graph::OpDef& op) { return !op.precision.reason.empty() || op.gradient; }

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The op kinds of models. Options may choose the precision of these.
std::vector<std::string> Choices() {
  std::vector<std::string> names;
  for (const graph::OpDef* op : graph::OpRegistry::Get().All()) {
    if (IsOfModels(*op) && op->precision.precision != Precision::kAsInput) {
      names.push_back(op->name);
    }
  }
  return names;
}

std::optional<std::string> ProblemOf(const std::string& name) {
  const std::vector<std::string> choices = Choices();
  if (Contains(choices, name)) return std::nullopt;
  if (const graph::OpDef* op = graph::OpRegistry::Get().Find(name); op != nullptr) {
    if (op->precision.precision == Precision::kAsInput) {
      return name + " computes nothing and has the type of its input; remove it";
    }
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
  static const std::vector<PolicyRow> table = [] {
    std::vector<PolicyRow> rows;
    for (const graph::OpDef* op : graph::OpRegistry::Get().All()) {
      const graph::PrecisionRule& rule = op->precision;
      if (!rule.reason.empty()) rows.push_back({op->name, rule.precision, rule.reason});
    }
    std::ranges::stable_sort(rows, {}, &PolicyRow::precision);
    return rows;
  }();
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
  return op.precision.precision;
}

}  // namespace plimsoll::amp
