#include "trainer/settle/step_solver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parallel_each.h"
#include "graph/block.h"
#include "trainer/settle/calibration.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/run_costs.h"
#include "trainer/settle/run_device.h"
#include "trainer/settle/step_draft.h"
#include "trainer/step/input_places.h"

namespace plimsoll::trainer {
namespace {

using graph::Retention;

// How much a reader takes in: names in a list, and ways in which blocks are treated.
constexpr size_t kNames = 8, kWays = 4;

// "mlp.gelu" for "block.3.mlp.gelu", "mlp.norm.whole" for "block.3.mlp.block.3.norm.whole", and
// "mlp.up.weight" for a gathered parameter.
std::string NameInBlock(const memory::Decision& decision) {
  std::string name = decision.tensors.front();
  const std::string block = decision.block_name + ".";
  for (size_t at = name.find(block); at != std::string::npos; at = name.find(block, at)) {
    name.erase(at, block.size());
  }
  return decision.parameter ? name.substr(0, name.rfind(".gathered")) : name;
}

std::string List(const std::vector<std::string>& names) {
  if (names.size() <= kNames) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kNames - 1, ", "),
                     names.size() - kNames + 1);
}

// The treatment of one block: "recompute norm_1, norm_2 and offload attn.qkv", or "keep all".
class Treatment {
 public:
  // The block of all decisions added; empty: none were added.
  const std::string& block() const { return block_; }

  void Add(const memory::Decision& decision, Retention retention) {
    block_ = decision.block_name;
    Fates& fates = decision.parameter ? parameters_ : activations_;
    fates[static_cast<size_t>(retention)].push_back(NameInBlock(decision));
  }

  std::string Text() const {
    std::vector<std::string> parts;
    Describe(activations_, Retention::kRecompute, "recompute {}", "all", parts);
    Describe(activations_, Retention::kOffload, "offload {}", "all", parts);
    Describe(parameters_, Retention::kRecompute, "gather {} again", "all weights", parts);
    return parts.empty() ? "keep all" : fmt::format("{}", fmt::join(parts, " and "));
  }

 private:
  using Fates = std::vector<std::string>[3];  // names by Retention

  // Lists the names with this retention, or "all but" the others where these are fewer.
  static void Describe(const Fates& fates, Retention retention, std::string_view form,
                       std::string_view all, std::vector<std::string>& parts) {
    const std::vector<std::string>& names = fates[static_cast<size_t>(retention)];
    if (names.empty()) return;
    std::vector<std::string> others;
    for (size_t fate = 0; fate < std::size(fates); ++fate) {
      if (fate == static_cast<size_t>(retention)) continue;
      others.insert(others.end(), fates[fate].begin(), fates[fate].end());
    }
    const std::string what = others.empty() ? std::string(all)
                             : others.size() < names.size()
                                 ? fmt::format("{} but {}", all, List(others))
                                 : List(names);
    parts.push_back(fmt::format(fmt::runtime(form), what));
  }

  std::string block_;
  Fates activations_, parameters_;
};

// "blocks 0-3: keep all", for each run of blocks that are treated alike.
std::vector<std::string> Runs(const std::map<int, Treatment>& blocks) {
  std::vector<std::string> runs;
  for (auto block = blocks.begin(); block != blocks.end();) {
    const std::string text = block->second.Text();
    const auto [kind, first] = graph::ParseBlock(block->second.block());
    int last = first;
    for (++block; block != blocks.end() && block->second.Text() == text; ++block) {
      const auto [its_kind, number] = graph::ParseBlock(block->second.block());
      if (its_kind != kind) break;
      last = number;
    }
    runs.push_back(first == last ? fmt::format("{} {}: {}", kind, first, text)
                                 : fmt::format("{}s {}-{}: {}", kind, first, last, text));
  }
  return runs;
}

// "12 blocks: keep all", the most frequent treatment first; used where treatments alternate.
std::vector<std::string> Counts(const std::map<int, Treatment>& blocks) {
  std::map<std::string, int> known;
  for (const auto& [block, treatment] : blocks) ++known[treatment.Text()];
  std::vector<std::pair<std::string, int>> ways(known.begin(), known.end());
  std::stable_sort(ways.begin(), ways.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  const auto of = [](int blocks_of_it) {
    return fmt::format("{} block{}", blocks_of_it, blocks_of_it == 1 ? "" : "s");
  };
  std::vector<std::string> counts;
  int others = 0;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (ways.size() > kWays && i + 1 >= kWays) {
      others += ways[i].second;
    } else {
      counts.push_back(of(ways[i].second) + ": " + ways[i].first);
    }
  }
  if (others > 0) {
    counts.push_back(fmt::format("{} in {} other ways", of(others), ways.size() - counts.size()));
  }
  return counts;
}

// "blocks 0-7: recompute norm_1, norm_2, mlp.gelu; blocks 8-11: keep all". The names of a block's
// tensors leave out the block. At most some 900 characters for any model: long lists end in "and 9
// more", and where blocks are treated in many ways only the most frequent ways are listed.
std::string DescribeAssignment(std::span<const memory::Decision> decisions,
                               const memory::Fates& assignment) {
  if (std::ranges::all_of(assignment, [](Retention r) { return r == Retention::kSave; })) {
    return "keep all";
  }
  std::map<int, Treatment> blocks;
  Treatment outside;
  for (size_t d = 0; d < decisions.size(); ++d) {
    const int block = decisions[d].block;
    (block < 0 ? outside : blocks[block]).Add(decisions[d], assignment[d]);
  }
  std::vector<std::string> parts = Runs(blocks);
  if (parts.size() > kWays) parts = Counts(blocks);
  if (const std::string text = outside.Text(); text != "keep all") {
    parts.push_back(text + " outside the blocks");
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

using config::RunConfig;
using graph::Program;
using graph::Retention;
using memory::Fates;

struct StepSolver::Impl {
  RunConfig config;
  std::unique_ptr<models::Model> model;
  std::shared_ptr<ThreadPool> pool = PlanningThreads();
  std::vector<std::shared_ptr<const StepDraft>> drafts;  // by variant
  std::string why_not_blocks_first;  // where train.blocks_first is open and cannot be
  memory::CostModel cost;
  memory::PlanOptions plan;
  std::unique_ptr<memory::Solver> solver;

  Impl(const RunConfig& run, const StepSolverOptions& options)
      : config(run), model(ModelFrom(run)) {
    MakeDrafts(Alternatives(config, *model));
    cost = options.built_in_rates ? BuiltInCost(config) : Calibrated();
    std::vector<memory::Variant> variants;
    for (const auto& draft : drafts) variants.push_back(VariantOf(draft));
    memory::SolverOptions solver_options;
    solver_options.pool = pool.get();
    plan.alignment = runtime::TensorAlignment(drafts.front()->options().device);
    solver_options.plan = plan;
    if (options.coarse) {
      solver_options.options = 6;
      solver_options.work = 0;
    }
    if (options.policies) solver_options.options = 0;
    solver_options.one_memory = IsOneMemory(config);
    solver = std::make_unique<memory::Solver>(std::move(variants), cost, solver_options);
  }

  // Alternatives that differ only in how programs are finished share their drafts.
  void MakeDrafts(std::vector<RunConfig> alternatives) {
    std::vector<std::pair<size_t, std::shared_ptr<const StepDraft>>> made;  // by first alternative
    std::vector<size_t> like(alternatives.size());
    for (size_t i = 0; i < alternatives.size(); ++i) {
      const auto same = std::ranges::find_if(made, [&](const auto& known) {
        return DraftsAlike(alternatives[known.first], alternatives[i]);
      });
      like[i] = static_cast<size_t>(same - made.begin());
      if (same == made.end()) made.emplace_back(i, nullptr);
    }
    ParallelEach(*pool, made.size(), [&](size_t i) {
      made[i].second = std::make_shared<StepDraft>(alternatives[made[i].first], *model);
    });
    for (size_t i = 0; i < alternatives.size(); ++i) {
      drafts.push_back(std::make_shared<StepDraft>(*made[like[i]].second, alternatives[i], *model));
    }
    if (config.train.blocks_first == config::OnOrAuto::kAuto) LeaveOutBlocksFirst();
  }

  // Where blocks cannot come first, or one program of all micro-steps would be too long to plan.
  void LeaveOutBlocksFirst() {
    constexpr int64_t kMostNodes = 12'000;
    const auto joined = [](const auto& draft) { return draft->options().blocks_first; };
    const auto first = std::ranges::find_if(drafts, joined);
    if (first == drafts.end()) return;
    int64_t nodes = 0;
    for (const memory::StepProgram& part : (*first)->programs()) {
      nodes += part.times * static_cast<int64_t>(part.program->nodes().size());
    }
    why_not_blocks_first =
        nodes > kMostNodes ? fmt::format("a program of {} micro-steps would be too long to plan",
                                         config.train.accumulate)
                           : (*first)->WhyNotBlocksFirst();
    if (!why_not_blocks_first.empty()) std::erase_if(drafts, joined);
  }

  memory::CostModel Calibrated() const {
    std::vector<const Program*> programs;
    // The smallest micro-batch stands for calls that would take too long in a larger one.
    for (const auto& draft : drafts | std::views::reverse) {
      for (const memory::StepProgram& part : draft->programs()) {
        if (part.times > 0) programs.push_back(part.program.get());
      }
    }
    std::vector<memory::StepProgram> finished;  // lives as long as `programs`
    const auto add = [&](std::vector<memory::StepProgram> step) {
      for (const memory::StepProgram& part : step) programs.push_back(part.program.get());
      std::ranges::move(step, std::back_inserter(finished));
    };
    // What updates within the backward pass add.
    const auto in_backward = std::ranges::find_if(
        drafts, [](const auto& draft) { return draft->options().update_in_backward.has_value(); });
    if (in_backward != drafts.end()) {
      const std::vector<memory::Decision> decisions = (*in_backward)->Decisions();
      add((*in_backward)->Realize(decisions, Fates(decisions.size(), Retention::kSave)));
    }
    std::unique_ptr<StepDraft> smallest;
    // Samples that act on one another cannot be fewer.
    const int64_t least = model->coupled_samples();
    if (least > 0 && drafts.front()->config().train.micro_batch > least) {
      RunConfig one = drafts.front()->config();
      one.train.SetMicroSteps(least, one.train.accumulate);
      if (std::ranges::any_of(drafts.front()->bases(),
                              [&](const auto& base) { return TakesLong(*base); })) {
        smallest = std::make_unique<StepDraft>(one, *model);
        for (const auto& base : smallest->bases()) programs.push_back(base.get());
      }
    }
    // What copies to the host add, where they are allowed.
    const std::vector<memory::Decision> decisions = drafts.front()->Decisions();
    Fates away(decisions.size(), Retention::kSave);
    for (size_t d = 0; d < decisions.size(); ++d) {
      if (decisions[d].offload) away[d] = Retention::kOffload;
    }
    if (memory::Offloads(away)) add(drafts.front()->Realize(decisions, away));
    return CostModelFor(config, programs);
  }

  bool TakesLong(const Program& program) const {
    const memory::CostModel rates = BuiltInCost(config);
    const double seconds = CalibrationOptions().call_seconds;
    return std::any_of(program.nodes().begin(), program.nodes().end(),
                       [&](const graph::Node& node) {
                         return !node.op->view && rates.Ideal(program.CallOf(node).get()) > seconds;
                       });
  }

  memory::Variant VariantOf(const std::shared_ptr<const StepDraft>& draft) const {
    memory::Variant variant;
    variant.name = ChoicesText(config, draft->config());
    variant.bases = draft->bases();
    variant.least_device_bytes = draft->OnDevice().all;
    variant.micro_steps = draft->micro_steps();
    std::vector<const Program*> programs;
    for (const memory::StepProgram& part : draft->programs()) {
      programs.push_back(part.program.get());
    }
    variant.host_input_bytes =
        HostInputBytesOf(draft->options(), draft->objectives(), programs).all();
    variant.decisions = draft->Decisions();
    for (memory::Decision& decision : variant.decisions) {
      if (decision.offload)
        decision.copy_seconds = CopySeconds(*draft->bases()[decision.base], decision);
    }
    variant.policies = draft->Policies(variant.decisions);
    variant.realize = [draft, decisions = variant.decisions](const Fates& assignment) {
      return draft->Realize(decisions, assignment);
    };
    variant.apart = [draft, decisions = variant.decisions](const Fates& assignment) {
      return draft->Apart(decisions, assignment);
    };
    return variant;
  }

  // Seconds of copying the decision's tensors to the host.
  double CopySeconds(const Program& base, const memory::Decision& decision) const {
    double seconds = 0;
    const memory::DeviceRates& rates = cost.rates();
    const graph::Attributes none;
    for (const std::string& name : decision.tensors) {
      const graph::Tensor& tensor = base.tensor(base.Require(name));
      if (rates.copies_overlap()) {
        seconds += rates.CopySeconds(static_cast<double>(tensor.bytes()));
        continue;
      }
      const graph::TensorType* type = &tensor.type;
      const graph::TensorType* arguments[] = {type};
      seconds += cost.Seconds(
          {graph::OpRegistry::Get().Require("copy_start"), arguments, arguments, none});
    }
    return seconds;
  }
};

StepSolver::StepSolver(const RunConfig& config, const StepSolverOptions& options)
    : impl_(std::make_unique<Impl>(config, options)) {}
StepSolver::~StepSolver() = default;

memory::Solver& StepSolver::solver() { return *impl_->solver; }
const models::Model& StepSolver::model() const { return *impl_->model; }
const memory::CostModel& StepSolver::cost() const { return impl_->cost; }
const memory::PlanOptions& StepSolver::plan_options() const { return impl_->plan; }

const RunConfig& StepSolver::config() const { return impl_->config; }

const RunConfig& StepSolver::ConfigOf(size_t variant) const {
  return impl_->drafts[variant]->config();
}

RunConfig StepSolver::ConfigOf(const memory::Candidate& candidate) const {
  return ConfigOf(candidate.variant);
}

std::string StepSolver::WhyLeftOut(const Knob& knob) const {
  const std::string why = WhyUnused(knob, impl_->config);
  const bool joins = std::string_view(knob.key) == "train.blocks_first";
  return why.empty() && joins ? impl_->why_not_blocks_first : why;
}

CompileOptions StepSolver::OptionsOf(const memory::Candidate& candidate) const {
  const StepDraft& draft = *impl_->drafts[candidate.variant];
  CompileOptions options = draft.options();
  options.dump_directory = impl_->config.debug.dump_programs;
  if (!draft.open()) return options;
  options.checkpointing = {};
  options.checkpointing.policy = checkpointing::Options::Policy::kExplicit;
  const std::vector<memory::Decision>& decisions =
      impl_->solver->variants()[candidate.variant].decisions;
  for (size_t d = 0; d < decisions.size(); ++d) {
    if (candidate.fates[d] == Retention::kSave) continue;
    for (const std::string& name : decisions[d].tensors) {
      options.retention[draft.objectives()[decisions[d].base].name][name] = candidate.fates[d];
    }
  }
  return options;
}

std::string StepSolver::Describe(const memory::Candidate& candidate) const {
  const memory::Variant& variant = impl_->solver->variants()[candidate.variant];
  const std::vector<models::Objective>& objectives = impl_->drafts[candidate.variant]->objectives();
  std::vector<std::string> parts;
  if (!variant.name.empty()) parts.push_back(variant.name);
  for (size_t base = 0; base < objectives.size(); ++base) {
    std::vector<memory::Decision> decisions;
    Fates assignment;
    for (size_t d = 0; d < variant.decisions.size(); ++d) {
      if (variant.decisions[d].base != static_cast<int>(base)) continue;
      decisions.push_back(variant.decisions[d]);
      assignment.push_back(candidate.fates[d]);
    }
    if (decisions.empty()) continue;
    const std::string& name = objectives[base].name;
    parts.push_back((name.empty() ? "" : name + ": ") + DescribeAssignment(decisions, assignment));
  }
  return parts.empty() ? kAsTheFileSays : fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace plimsoll::trainer
