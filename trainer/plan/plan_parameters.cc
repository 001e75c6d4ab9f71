// `plimsoll plan --parameters`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/columns.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/message.h"
#include "graph/dtype.h"
#include "models/checkpoint_parts.h"
#include "trainer/plan/plan_table.h"
#include "trainer/plan/stage_table.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

struct ParameterRow {
  std::string name;
  std::vector<std::string> checkpoint;  // names of the parameter's tensors in checkpoints
  // Names of tensors in checkpoints that repeat the parameter, such as a tied head.
  std::vector<std::string> copies;
  graph::Shape shape;           // unsharded shape
  std::vector<int64_t> stages;  // stages that store the parameter; empty: the run has no stages
  std::string dtype;            // type in which a rank stores the parameter
  bool trained = false;
  int64_t bytes = 0;  // size of the part on a rank that stores the parameter
};

// Sets every open choice. Only the ranks' layout affects the list; the first possible layout is
// taken.
config::RunConfig Closed(const config::RunConfig& open) {
  const std::vector<RankLayout> layouts = LayoutsOf(open);
  const auto possible = std::ranges::find_if(
      layouts, [](const RankLayout& layout) { return layout.problem.empty(); });
  if (possible == layouts.end()) throw UserError(layouts.front().problem);
  return Alternatives(possible->config, *ModelFrom(possible->config)).front();
}

std::vector<ParameterRow> RowsOf(const models::Model& model, const PlannedStep& step) {
  std::map<std::string, std::vector<std::string>> checkpoint, copies;
  for (const models::Part& part : models::PartsOf(model)) {
    checkpoint[part.parameter.name].push_back(part.name);
    copies[part.parameter.name] = part.copies;
  }
  std::vector<models::ParameterInfo> parameters = model.parameters();
  const CompileOptions& options = step.first.options;
  for (models::ParameterInfo& added : adapters::Parameters(options.lora)) {
    parameters.push_back(std::move(added));
  }
  std::map<std::string, const memory::PersistentTensor*> stored;
  std::map<std::string, std::vector<int64_t>> stages;
  for (const CompiledStep* compiled : step.All()) {
    for (const memory::PersistentTensor& tensor : compiled->plan.persistent) {
      if (tensor.role != graph::Role::kParameter) continue;
      stored[tensor.name] = &tensor;
      if (!options.stages.empty()) stages[tensor.name].push_back(StageOf(*compiled));
    }
  }
  std::vector<ParameterRow> rows;
  for (const models::ParameterInfo& parameter : parameters) {
    ParameterRow& row = rows.emplace_back();
    row.name = parameter.name;
    row.checkpoint = checkpoint[parameter.name];
    row.copies = copies[parameter.name];
    row.shape = parameter.shape;
    row.trained = !MatchesAnyGlob(options.frozen, parameter.name);
    const auto found = stored.find(parameter.name);
    if (found == stored.end()) continue;  // a program may omit parameters that it doesn't read
    row.stages = stages[parameter.name];
    row.dtype = graph::Name(found->second->type.dtype);
    row.bytes = found->second->type.bytes();
  }
  return rows;
}

std::string ShapeText(const graph::Shape& shape) {
  return fmt::format("{}", fmt::join(shape.dims(), "×"));
}

// Formats the rows. Names in checkpoints, possibly several, have a column of their own after the
// name.
std::string Text(const std::vector<ParameterRow>& rows) {
  size_t name = 9, shape = 5;
  const bool staged =
      std::ranges::any_of(rows, [](const auto& row) { return !row.stages.empty(); });
  for (const ParameterRow& row : rows) {
    name = std::max(name, Columns(row.name));
    shape = std::max(shape, Columns(ShapeText(row.shape)));
  }
  const auto line = [&](const std::string& first, const std::string& dims, const std::string& type,
                        const std::string& fate, const std::string& stages,
                        const std::string& bytes, const std::string& stored) {
    std::string text =
        fmt::format("{:<{}}  {:>{}}  {:<5}  {:<7}  {}{:>10}  {}", first, name, dims, shape, type,
                    fate, staged ? fmt::format("{:<6}  ", stages) : "", bytes, stored);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = line("parameter", "shape", "dtype", "", "stage", "bytes", "in checkpoints");
  for (const ParameterRow& row : rows) {
    text += line(row.name, ShapeText(row.shape), row.dtype, row.trained ? "trained" : "frozen",
                 fmt::format("{}", fmt::join(row.stages, ", ")), FormatBytes(row.bytes),
                 row.checkpoint.empty() ? "" : row.checkpoint.front());
    for (size_t i = 1; i < row.checkpoint.size(); ++i) {
      text += line("", "", "", "", "", "", row.checkpoint[i]);
    }
    for (const std::string& copy : row.copies) text += line("", "", "", "", "", "", "= " + copy);
  }
  return text;
}

ordered_json Json(const std::vector<ParameterRow>& rows) {
  ordered_json list = ordered_json::array();
  for (const ParameterRow& row : rows) {
    ordered_json& made = list.emplace_back(ordered_json{{"name", row.name},
                                                        {"checkpoint", row.checkpoint},
                                                        {"copies", row.copies},
                                                        {"shape", row.shape.dims()},
                                                        {"dtype", row.dtype},
                                                        {"trained", row.trained},
                                                        {"bytes", row.bytes}});
    if (!row.stages.empty()) made["stages"] = row.stages;
  }
  return {{"parameters", list}};
}

}  // namespace

void PrintParameters(const config::RunConfig& config, bool json) {
  const config::RunConfig closed = Closed(config);
  const std::unique_ptr<models::Model> model = ModelFrom(closed);
  PlannedStep step = {Compile(*model, CompileFrom(closed, *model)), {}};
  step.others = CompileOtherStages(*model, step.first);
  const std::vector<ParameterRow> rows = RowsOf(*model, step);
  if (json) {
    PrintAnswer(fmt::format("{}\n", Json(rows).dump(1)));
    return;
  }
  PrintAnswer(Text(rows));
  int64_t bytes = 0;
  for (const ParameterRow& row : rows) {
    bytes += row.bytes * std::max<int64_t>(1, std::ssize(row.stages));
  }
  PrintAnswer(fmt::format("{}, {}{}\n", ParametersText(*model, step.first.options),
                          FormatBytes(bytes),
                          step.others.empty() ? "" : " on all stages together"));
}

}  // namespace plimsoll::trainer
