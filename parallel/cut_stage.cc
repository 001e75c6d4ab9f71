#include "parallel/cut_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <string>
#include <utility>

#include "base/axes.h"
#include "graph/builder.h"
#include "graph/phase_cut.h"
#include "graph/step_shape.h"
#include "graph/tensor_ids.h"
#include "ops/collectives/axis.h"
#include "ops/collectives/collective.h"
#include "ops/data_movement/views.h"
#include "ops/definition.h"
#include "parallel/stage_map.h"

namespace plimsoll::parallel {
namespace {

using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

class Cutter {
 public:
  Cutter(Program& program, const CutStageOptions& options)
      : program_(program), map_(program, options.blocks), stage_(options.stage), g_(program) {
    g_.set_made_by("cut_stage");
  }

  graph::PassResult Run() {
    const std::vector<bool> runs = map_.NodesOf(stage_);
    const size_t update = graph::FirstUpdate(program_);
    const bool evaluates = graph::ForwardEnd(program_) == program_.nodes().size();
    FindMetrics(evaluates);
    FindTables();
    nodes_ = std::exchange(program_.mutable_nodes(), {});
    size_t own = 0;  // nodes of the whole program that stay
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (n == update) {
        SumMetrics();
        SumWholeTables();
      }
      if (!runs[n]) continue;
      Node node = std::move(nodes_[n]);
      if (node.phase == Phase::kUpdate) {
        if (map_.Joins(n)) {
          JoinNorm(node);
          continue;
        }
        for (TensorId& id : node.inputs) id = graph::Substitute(summed_, id);
      }
      if (const auto begins = begins_.find(n); begins != begins_.end()) {
        BeginPart(node, begins->second);
      }
      program_.mutable_nodes().push_back(std::move(node));
      ++own;
      if (const auto part = own_parts_.find(n); part != own_parts_.end()) SumPart(part->second);
    }
    if (evaluates) SumMetrics();
    NameCrossing();
    graph::DropUnmentioned(program_);
    const size_t added = program_.nodes().size() - own;
    return {true, fmt::format(
                      "stage {} of {}: {} of {} nodes{}", stage_, map_.stages(), own, nodes_.size(),
                      added == 0 ? "" : fmt::format(", {} added to sum over stages", added))};
  }

 private:
  // Finds the metrics that all stages need although only some stages compute them: metrics that
  // decide whether to update and, in an evaluation, the results of single samples.
  void FindMetrics(bool evaluates) {
    for (const TensorId id : graph::TensorIds(program_)) {
      const Tensor& tensor = program_.tensor(id);
      if (tensor.role != Role::kMetric || tensor.alias || !(tensor.merge || evaluates)) continue;
      if (map_.OfTensor(id) >= 0) metrics_.push_back(id);
    }
  }

  // Finds the changes of the first and the last stage to the gradients of tables that both have.
  void FindTables() {
    if (!map_.IsEnd(stage_)) return;
    for (const TensorId gradient : map_.OfEnds(Role::kGradient)) {
      FindBegin(gradient);
      if (!FindOwnPart(gradient)) whole_tables_.push_back(gradient);
    }
  }

  // Finds the node of this stage that adds its part to a sum which the other stage has begun in the
  // complete program. Here that node begins a sum of its own.
  void FindBegin(TensorId gradient) {
    const auto has = [&](const std::vector<TensorId>& ids) {
      return std::ranges::find(ids, gradient) != ids.end();
    };
    bool begun = false;
    for (size_t n = 0; n < program_.nodes().size(); ++n) {
      const Node& node = program_.nodes()[n];
      if (node.phase == Phase::kUpdate || !has(node.outputs)) continue;
      if (!begun && has(node.inputs)) return;  // the node continues the sum that micro-steps carry
      begun = true;
      if (map_.Of(n) != stage_) continue;
      if (has(node.inputs)) begins_[n] = gradient;
      return;
    }
  }

  // Whether data ranks divide the update of the table. If so, each stage sums only the part that
  // its rank updates.
  bool FindOwnPart(TensorId gradient) {
    for (size_t n = 0; n < program_.nodes().size(); ++n) {
      const Node& node = program_.nodes()[n];
      const bool takes = node.phase == Phase::kUpdate && node.op->name == "own_part";
      if (!takes || node.inputs.front() != gradient) continue;
      own_parts_[n] = node.outputs.front();
      return true;
    }
    return false;
  }

  // Lets the node begin a sum instead of adding to one.
  void BeginPart(Node& node, TensorId gradient) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != gradient) continue;
      if (node.op->inputs[i].optional) {
        node.inputs[i] = graph::kNoTensor;
        continue;
      }
      g_.set_context_of(node);
      g_.EmitInto({gradient}, "fill", {}, ZerosOf(g_.type(gradient)));
    }
  }

  std::string_view Ends() const { return map_.stages() > 2 ? kEndsAxis : kPipelineAxis; }

  void SumWholeTables() {
    g_.set_scope("");
    g_.set_phase(Phase::kUpdate);
    for (const TensorId gradient : whole_tables_) {
      g_.EmitInto({gradient}, "all_reduce_start", {gradient}, ops::AlongAxis(Ends()));
      FinishTable(gradient, gradient);
    }
  }

  void SumPart(TensorId part) {
    g_.set_scope("");
    g_.set_phase(Phase::kUpdate);
    const TensorId sum = g_.Like(part, NameOf(part) + ".sum");
    g_.EmitInto({sum}, "all_reduce_start", {part}, ops::AlongAxis(Ends()));
    FinishTable(part, sum);
  }

  void FinishTable(TensorId gradient, TensorId sum) {
    const TensorId all = g_.Like(sum, NameOf(gradient) + ".all", sum);
    g_.EmitInto({all}, "all_reduce_done", {sum});
    summed_[gradient] = all;
  }

  // Sums metrics over the stages. Stages that do not compute a metric contribute zeros.
  void SumMetrics() {
    g_.set_scope("");
    g_.set_phase(Phase::kBackward);
    for (const TensorId metric : metrics_) {
      if (map_.OfTensor(metric) == stage_) continue;
      g_.EmitInto({metric}, "fill", {}, ZerosOf(g_.type(metric)));
    }
    g_.set_phase(Phase::kUpdate);
    for (const TensorId metric : metrics_) {
      graph::Attributes attributes = ops::AlongAxis(kPipelineAxis);
      const std::optional<graph::Merge>& merge = program_.tensor(metric).merge;
      if (merge && merge->ranks == graph::OverRanks::kMax) {
        attributes.Set(ops::kReduction, std::string(ops::kMaximum));
      }
      g_.EmitInto({metric}, "all_reduce_start", {metric}, std::move(attributes));
    }
    for (const TensorId metric : metrics_) {
      const TensorId all = g_.Like(metric, NameOf(metric) + ".all", metric);
      program_.mutable_tensor(all).persistent = true;  // the sum is a result that the host reads
      g_.EmitInto({all}, "all_reduce_done", {metric});
      summed_[metric] = all;
    }
  }

  const std::string& NameOf(TensorId id) const { return program_.tensor(id).name; }

  static graph::Attributes ZerosOf(const graph::TensorType& type) {
    graph::Attributes attributes = {{"dtype", std::string(graph::Name(type.dtype))},
                                    {"value", 0.0}};
    if (type.shape.rank() > 0) ops::SetShape(attributes, type.shape);
    return attributes;
  }

  // Replaces a norm of all gradients. Each stage's square sums are gathered; a gradient is found
  // there by its stage and its number within that stage.
  void JoinNorm(const Node& norm) {
    std::map<int64_t, int64_t> counts;  // maps a stage to its number of gradients so far
    // for each input of the norm: its gradient's stage, and the gradient's number within that stage
    std::vector<std::pair<int64_t, int64_t>> places;
    for (const TensorId id : norm.inputs) {
      const int64_t stage = map_.Counting(id);
      places.emplace_back(stage, stage < 0 ? 0 : counts[stage]++);
    }
    const int64_t most = std::ranges::max(counts | std::views::values);
    g_.set_context_of(norm);
    // Maps an input of the norm to the square sum of this stage's gradient.
    std::map<size_t, TensorId> own;
    std::vector<TensorId> sent;
    for (size_t i = 0; i < norm.inputs.size(); ++i) {
      const int64_t stage = places[i].first;
      if (stage >= 0 && stage != stage_) continue;
      const TensorId squares = g_.Emit1("square_sum", {graph::Substitute(summed_, norm.inputs[i])},
                                        {}, NameOf(norm.inputs[i]) + ".squares");
      own[i] = squares;
      if (stage == stage_) sent.push_back(squares);
    }
    while (std::ssize(sent) < most) {
      sent.push_back(sent.empty()
                         ? g_.Emit1("fill", {}, ZerosOf({graph::DType::kFloat64, {}}), "no_squares")
                         : sent.back());
    }
    const TensorId stacked = g_.Emit1("stack", std::move(sent), {}, "stage.squares");
    const TensorId all =
        ops::AllGather(g_, stacked, kPipelineAxis, {map_.stages() * most}, "stages.squares");
    std::vector<TensorId> sums;
    for (size_t i = 0; i < places.size(); ++i) {
      const auto [stage, number] = places[i];
      sums.push_back(stage < 0 ? own.at(i)
                               : ops::Slice(g_, all, stage * most + number, {},
                                            NameOf(norm.inputs[i]) + ".squares"));
    }
    g_.EmitInto(norm.outputs, "root_of_sums", std::move(sums));
  }

  void NameCrossing() {
    if (stage_ > 0) {
      Carry(map_.cut(stage_ - 1).forward, kStageIn);
      Carry(map_.cut(stage_ - 1).backward, kStageInGrad);
    }
    if (stage_ + 1 < map_.stages()) {
      Carry(map_.cut(stage_).forward, kStageOut);
      Carry(map_.cut(stage_).backward, kStageOutGrad);
    }
  }

  void Carry(TensorId id, std::string_view name) {
    if (id == graph::kNoTensor) return;
    program_.Rename(id, std::string(name));
    program_.mutable_tensor(id).persistent = true;
  }

  Program& program_;
  const StageMap map_;  // stages of the original program
  const int64_t stage_;
  graph::Builder g_;
  std::vector<Node> nodes_;
  std::vector<TensorId> metrics_;
  // Members for tables that both the first and the last stage have. `begins_` maps a node to the
  // gradient whose sum this stage begins there. `own_parts_` maps a node to this rank's part of a
  // gradient, which the node makes.
  std::map<size_t, TensorId> begins_, own_parts_;
  std::vector<TensorId> whole_tables_;   // gradients of such tables that are not sharded
  std::map<TensorId, TensorId> summed_;  // maps a metric or gradient to its sum over the stages
};

}  // namespace

graph::PassResult CutStage::Run(Program& program) { return Cutter(program, options_).Run(); }

}  // namespace plimsoll::parallel
