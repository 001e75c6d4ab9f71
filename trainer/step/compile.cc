#include "trainer/step/compile.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "adapters/lora_pass.h"
#include "amp/mixed_precision.h"
#include "base/amounts.h"
#include "base/axes.h"
#include "base/error.h"
#include "base/glob.h"
#include "graph/autodiff.h"
#include "graph/objective.h"
#include "graph/simplify.h"
#include "memory/checker.h"
#include "ops/collectives/axis.h"
#include "ops/elementwise/arithmetic.h"
#include "parallel/stage_map.h"
#include "parallel/zero_shards.h"
#include "parallel/zero_weights.h"
#include "trainer/step/averages.h"
#include "trainer/step/carried_state.h"
#include "trainer/step/input_places.h"
#include "trainer/step/join_programs.h"
#include "trainer/step/model_states.h"
#include "trainer/step/pass_options.h"
#include "trainer/step/passes.h"
#include "trainer/step/stage_programs.h"

namespace plimsoll::trainer {
namespace {

using graph::Carry;
using graph::OfObjective;
using graph::PassPipeline;
using graph::Program;

// The number of new tokens that one run of the program `prefill` takes. The number is large enough
// for efficient matrix products, and small compared with the context, so activations take little
// memory.
constexpr int64_t kPrefillTokens = 128;

class Compiler {
 public:
  Compiler(const models::Model& model, const CompileOptions& options)
      : model_(model), options_(options), objectives_(model.objectives()) {
    if (options_.amp.enabled()) ChooseTypes();
    result_.options = options_;
    result_.objectives = objectives_;
    result_.states = model.states();
    result_.split =
        adapters::SplitParameters(model, options_.lora, options_.mesh.ranks(kTensorAxis));
  }

  CompiledStep Run() {
    StepPrograms& step = result_.step;
    if (options_.train) {
      CheckObjectives();
      for (size_t i = 0; i < objectives_.size(); ++i) Train(static_cast<int>(i));
      JoinPrograms();
      CutPrograms();
      if (!options_.stop_after.empty()) ThrowStopped();
      for (const StepEntry& entry : step.entries) CountFlops(entry);
    }
    const bool reads = options_.evaluate || options_.generate_rows > 0;
    const bool stale = ZeroOf(options_) > 0 && !DividesWeights(options_);
    if (options_.train && reads && stale) {
      step.gather = Gather();
    }
    if (options_.train && std::ranges::any_of(objectives_, [&](const auto& objective) {
          return options_.UpdateOf(objective.name).average.has_value();
        })) {
      step.exchange = Exchange();
    }
    if (options_.evaluate) {
      for (const models::Objective& objective : objectives_) KeepEvaluation(objective);
    }
    if (options_.generate_rows > 0 && options_.cache) {
      const int64_t window = std::min(kPrefillTokens, options_.generate_context);
      step.prefill =
          Keep(Build("prefill", {.kind = ProgramKind::kLogits, .tokens = window, .cached = true}));
      step.decode =
          Keep(Build("decode", {.kind = ProgramKind::kLogits, .tokens = 1, .cached = true}));
    } else if (options_.generate_rows > 0) {
      step.logits = Keep(
          Build("logits", {.kind = ProgramKind::kLogits, .tokens = options_.generate_context}));
    }
    if (options_.snapshot_copy) {
      step.snapshot = Keep(CopyCarriedState(StepProgramsOf(result_), options_));
    }
    ListMetrics();
    if (options_.draft) return std::move(result_);

    // `readers` are the programs that read the host's data.
    std::vector<const Program*> programs, readers;
    for (const auto& program : result_.programs) {
      ops::CheckAxes(*program, options_.mesh);
      if (step.ReadsData(static_cast<int>(programs.size()))) readers.push_back(program.get());
      programs.push_back(program.get());
      result_.divided.merge(parallel::GatheredParameters(*program));
    }
    const int64_t alignment = runtime::TensorAlignment(options_.device);
    const memory::StepOrder order = {.runs = OrderOfRuns(step.entries), .kept = kept_};
    result_.plan = memory::MakePlan(
        programs,
        {.alignment = alignment, .position = {options_.mesh, options_.rank}, .order = order});
    memory::CheckPlan(programs, result_.plan,
                      {.alignment = alignment, .ordered = {}, .order = order});
    const HostInputBytes inputs = HostInputBytesOf(options_, objectives_, readers);
    result_.plan.host_input_bytes = inputs.all();
    result_.input_place_bytes = inputs.place;
    return std::move(result_);
  }

 private:
  // Chooses one type for each tensor, the same in all programs. Only the losses decide: other
  // tensors that metrics read do not change the types.
  void ChooseTypes() {
    std::set<std::string> wide;
    for (const models::Objective& objective : objectives_) {
      Program program;
      graph::Builder builder(program);
      const graph::Value loss = model_
                                    .Build(builder, {.batch = 1, .sequence = 1},
                                           models::Head::kLoss, false, objective.name)
                                    .loss;
      graph::Simplify({program.tensor(loss).name}).Run(program);
      adapters::LoraPass(options_.lora, false).Run(program);
      wide.merge(amp::Float32Parameters(program, options_.amp));
    }
    options_.amp.fp32_parameters = std::move(wide);
  }

  // Checks that each parameter has one gradient and one optimizer state, and that data has a
  // source.
  void CheckObjectives() const {
    for (const models::ParameterInfo& parameter : model_.parameters()) {
      const auto trains = [&](const models::Objective& objective) {
        return MatchesAnyGlob(objective.parameters, parameter.name);
      };
      if (std::ranges::count_if(objectives_, trains) > 1) {
        throw InternalError("'" + parameter.name + "' is trained by more than one objective");
      }
    }
    for (auto objective = objectives_.begin(); objective != objectives_.end(); ++objective) {
      const auto source = std::find_if(objectives_.begin(), objective, [&](const auto& earlier) {
        return earlier.name == objective->data && earlier.data.empty();
      });
      if (objective->data.empty() || source != objective) continue;
      throw InternalError("objective '" + objective->name + "' reads the data of '" +
                          objective->data +
                          "', which is no earlier objective with data of its own");
    }
  }

  // The entries, and their programs, of one update of an objective; each entry is one micro-step.
  std::vector<StepEntry> Update(int index) {
    const models::Objective& objective = objectives_[static_cast<size_t>(index)];
    const int64_t count = options_.accumulate;
    std::vector<StepEntry> update;
    const auto add = [&](const char* name, Carry carry, int64_t begin, int64_t end) {
      if (begin >= end) return;
      const Purpose purpose = {.kind = ProgramKind::kTrain,
                               .objective = objective,
                               .carry = carry,
                               .update = end == count};
      update.push_back({.program = Keep(Build(OfObjective(objective.name, name), purpose)),
                        .times = end - begin,
                        .micro_step = begin,
                        .ends = end == count,
                        .updates = {{.objective = index}}});
    };
    if (count == 1) {
      // Stages carry the tensors that their programs pass to each other.
      add("train", HasStages(options_) ? Carry::kWrite : Carry::kNone, 0, 1);
    } else {
      add("train_first", Carry::kWrite, 0, 1);
      add("train_middle", Carry::kAccumulate, 1, count - 1);
      add("train_last", Carry::kAccumulate, count - 1, count);
    }
    return update;
  }

  // Adds the programs of an objective and the entries of all its updates.
  void Train(int index) {
    const models::Objective& objective = objectives_[static_cast<size_t>(index)];
    const std::vector<StepEntry> update = Update(index);
    StepPrograms& step = result_.step;
    for (int64_t i = 0; i < objective.updates; ++i) {
      if (objective.data.empty()) {
        draw_of_[objective.name] = step.draws;
        step.draws += options_.accumulate;
      }
      const int64_t draw = draw_of_.at(objective.data.empty() ? objective.name : objective.data);
      for (StepEntry entry : update) {
        for (StepUpdate& of : entry.updates) of.number = i;
        entry.draw = draw + entry.micro_step;
        step.entries.push_back(entry);
      }
    }
  }

  // Joins programs. Drafts are not joined, because each draft must still be finished.
  void JoinPrograms() {
    if (options_.draft || Stopped()) return;
    ProgramJoiner joiner(options_, objectives_, result_.programs, result_.step.entries, runner());
    joiner.JoinMicroSteps();
    if (!Stopped()) joiner.JoinUpdates();
  }

  // Cuts a stage's programs by their phases. Drafts are cut only after they are finished.
  void CutPrograms() {
    if (!HasStages(options_) || options_.draft || Stopped()) return;
    kept_ = CutIntoPhases(options_, objectives_, result_.programs, result_.step.entries, runner());
  }

  void KeepEvaluation(const models::Objective& objective) {
    StepPrograms& step = result_.step;
    std::unique_ptr<Program> program =
        Build(OfObjective(objective.name, "evaluate"),
              {.kind = ProgramKind::kEvaluate, .objective = objective});
    if (!HasStages(options_) || options_.draft || Stopped()) {
      step.evaluations.push_back(Keep(std::move(program)));
      return;
    }
    const StageEvaluation parts = CutEvaluation(options_, objectives_, *program, runner());
    step.evaluations.push_back(Keep(parts.stage));
    step.evaluation_sums.push_back(Keep(parts.sums));
  }

  void CountFlops(const StepEntry& entry) {
    const Program& program = *result_.programs[entry.program];
    // All ranks of a data group work on the same sequences; but each stage computes only its own
    // part of the model.
    const Mesh& mesh = options_.mesh;
    const int64_t sharing = mesh.size() / (mesh.ranks(kDataAxis) * mesh.ranks(kPipelineAxis));
    for (const graph::Node& node : program.nodes()) {
      const graph::Cost cost = graph::CostOf(program.CallOf(node).get());
      result_.flops_per_step += static_cast<double>(entry.times) * cost.flops;
      // The matrix products of an update (Muon) do not belong to the model's mathematics.
      const graph::Phase phase = node.phase;
      if (phase == graph::Phase::kRecompute || phase == graph::Phase::kUpdate) continue;
      const double products = static_cast<double>(entry.times * sharing) * cost.products;
      result_.model_flops += products;
      if (!node.inputs.empty() && node.inputs[0] != graph::kNoTensor &&
          graph::IsFloat8(program.tensor(node.inputs[0]).type.dtype)) {
        result_.model_flops_of_codes += products;
      }
    }
  }

  // Lists the metrics that the programs have.
  void ListMetrics() {
    for (size_t i = 0; i < objectives_.size(); ++i) {
      const auto add = [&](MetricInfo metric) {
        metric.objective = static_cast<int>(i);
        metric.averaged = metric.evaluated && result_.step.exchange >= 0;
        result_.metrics.push_back(std::move(metric));
      };
      for (MetricInfo metric : BuiltInMetrics()) {
        metric.name = OfObjective(objectives_[i].name, metric.name);
        if (std::ranges::any_of(result_.programs, [&](const auto& program) {
              return program->Find(metric.name) != graph::kNoTensor;
            })) {
          add(std::move(metric));
        }
      }
      const std::vector<MetricInfo>&of_steps = of_steps_[objectives_[i].name],
            &of_evaluations = of_evaluations_[objectives_[i].name];
      // An evaluation has all metrics that a step has.
      for (MetricInfo metric : of_evaluations.empty() ? of_steps : of_evaluations) {
        metric.in_steps =
            std::ranges::find(of_steps, metric.name, &MetricInfo::name) != of_steps.end();
        add(std::move(metric));
      }
    }
  }

  int Gather() {
    auto program = std::make_unique<Program>("gather");
    parallel::EmitGathers(StepProgramsOf(result_),
                          ZeroWeightsFrom({.options = options_, .purpose = {}}), *program);
    return Keep(std::move(program));
  }

  int Exchange() {
    std::unique_ptr<Program> program = ExchangeAverages(StepProgramsOf(result_));
    RunPasses(Passes({.options = options_, .purpose = {.kind = ProgramKind::kEvaluate}},
                     {Slice::kExchange}),
              *program);
    return Keep(std::move(program));
  }

  std::unique_ptr<Program> Build(const std::string& name, Purpose purpose) {
    auto program = std::make_unique<Program>(name);
    graph::Builder builder(*program);
    const bool training = purpose.kind == ProgramKind::kTrain;
    const bool logits = purpose.kind == ProgramKind::kLogits;
    const models::Batch batch = {.batch = logits ? options_.generate_rows : options_.micro_batch,
                                 .sequence = logits ? purpose.tokens : options_.sequence,
                                 .context = logits ? options_.generate_context : 0};
    const models::Model::Outputs outputs =
        model_.Build(builder, batch, logits ? models::Head::kLogits : models::Head::kLoss, training,
                     purpose.objective.name);
    const graph::Value result = logits ? outputs.logits : outputs.loss;
    const std::string result_name = logits ? "logits" : OfObjective(purpose.objective.name, "loss");
    program->Rename(result, result_name);
    // Carried tensors are shared by name. This program's slot has a different shape from the step's
    // slot, so it needs a different name.
    if (logits) program->Rename(program->Require("tokens"), name + ".tokens");
    // In training, autodiff decides how metrics are carried.
    program->mutable_tensor(result).role = graph::Role::kMetric;
    program->mutable_tensor(result).persistent = true;
    if (!logits) {
      program->mutable_tensor(result).merge = graph::kSummed;
      purpose.metrics = {result_name};
      const std::vector<MetricInfo> declared =
          DeclareMetrics(builder, outputs.metrics, purpose.objective.name);
      (training ? of_steps_ : of_evaluations_)[purpose.objective.name] = declared;
      for (const MetricInfo& metric : declared) {
        purpose.metrics.push_back(metric.name);
        if (metric.counted) purpose.metrics.push_back(CountName(metric.name));
      }
    }
    const auto leave = [&](graph::Value value, std::string_view as) {
      if (purpose.kind != ProgramKind::kEvaluate || value == graph::kNoTensor) return;
      const graph::Value left = ops::Cast(builder, value, graph::DType::kFloat32, std::string(as));
      program->mutable_tensor(left).role = graph::Role::kMetric;
      program->mutable_tensor(left).persistent = true;
    };
    leave(outputs.logits, kClassLogits);
    if (options_.features) leave(outputs.features, kClassFeatures);
    leave(outputs.images, kMadeImages);
    leave(outputs.log_probs, kLogProbs);
    CarryStates(builder, outputs.states, purpose.carry);
    if (!logits) NoteInputs(*program);
    if (!logits && HasStages(options_)) NoteTables(*program);

    parallel::TensorParallelOptions tensor = TensorParallelFrom(options_, result_.split);
    if (logits) tensor.sequence = false;  // only the last token needs logits
    const std::set<Slice> slices = options_.draft
                                       ? std::set{Slice::kDraft}
                                       : std::set{Slice::kDraft, Slice::kTags, Slice::kFinish};
    RunPasses(
        Passes({.options = options_, .purpose = std::move(purpose), .tensor = tensor}, slices),
        *program);
    return program;
  }

  // Notes the data inputs that the programs of the complete model read.
  void NoteInputs(const Program& program) {
    const auto no_data = InputsWithoutData(objectives_);
    for (const graph::Tensor& tensor : program.tensors()) {
      const bool known = std::ranges::any_of(
          result_.inputs, [&](const auto& of) { return of.first == tensor.name; });
      if (tensor.role != graph::Role::kInput || tensor.alias || known) continue;
      if (!no_data.contains(tensor.name)) result_.inputs.emplace_back(tensor.name, tensor.type);
    }
  }

  void NoteTables(const Program& program) {
    const parallel::StageMap stages(program, options_.stages);
    for (const graph::TensorId table : stages.OfEnds(graph::Role::kParameter)) {
      result_.tables.insert(program.tensor(table).name);
    }
  }

  // Whether debug.stop_after has ended the passes. Then programs stay as they are.
  bool Stopped() const {
    return std::ranges::find(result_.passes, options_.stop_after, &graph::PassReport::pass) !=
           result_.passes.end();
  }

  [[noreturn]] void ThrowStopped() const {
    const std::string& pass = options_.stop_after;
    throw UserError("debug.stop_after: " +
                    (Stopped() ? "programs as they are after '" + pass + "' are in " +
                                     options_.dump_directory +
                                     "; they do not train: leave the key out to train"
                               : "with these settings no pass '" + pass +
                                     "' runs (docs/architecture.md says when it does)"));
  }

  void RunPasses(const PassPipeline& passes, Program& program) {
    for (graph::PassReport& report : passes.Run(program)) {
      result_.passes.push_back(std::move(report));
    }
  }

  PassRunner runner() {
    return [this](PassPipeline& passes, Program& program) { RunPasses(passes, program); };
  }

  // Stores the program and returns its index.
  int Keep(std::shared_ptr<const Program> program) {
    result_.programs.push_back(std::move(program));
    return static_cast<int>(result_.programs.size()) - 1;
  }

  const models::Model& model_;
  CompileOptions options_;
  std::set<std::string, std::less<>> kept_;  // tensors of a stage's slots (CutIntoPhases)
  const std::vector<models::Objective> objectives_;
  // Maps an objective's name to the first draw of its last update.
  std::map<std::string, int64_t> draw_of_;
  // Map an objective's name to its metrics.
  std::map<std::string, std::vector<MetricInfo>> of_steps_, of_evaluations_;
  CompiledStep result_;
};

}  // namespace

memory::PlannedPrograms CompiledStep::planned() const {
  memory::PlannedPrograms planned{.programs = {}, .plan = plan, .round = {}};
  for (const auto& program : programs) planned.programs.push_back(program.get());
  for (const StepEntry& entry : step.entries) planned.round.push_back({entry.program, entry.times});
  for (const auto* of_evaluations : {&step.evaluations, &step.evaluation_sums}) {
    for (int program : *of_evaluations) planned.round.push_back({program});
  }
  for (int program : {step.prefill, step.decode, step.logits}) {
    if (program >= 0) planned.round.push_back({program});
  }
  return planned;
}

std::vector<const Program*> StepProgramsOf(const CompiledStep& compiled) {
  std::vector<const Program*> programs;
  for (const StepEntry& entry : compiled.step.entries) {
    programs.push_back(compiled.programs[entry.program].get());
  }
  return programs;
}

double OverStep(const CompiledStep& compiled,
                const std::function<double(const Program&, const graph::Node&)>& of) {
  double sum = 0;
  for (const StepEntry& entry : compiled.step.entries) {
    const Program& program = *compiled.programs[entry.program];
    double once = 0;
    for (const graph::Node& node : program.nodes()) once += of(program, node);
    sum += static_cast<double>(entry.times) * once;
  }
  return sum;
}

double RecomputeFlops(const CompiledStep& compiled) {
  return OverStep(compiled, [](const Program& program, const graph::Node& node) {
    return node.phase == graph::Phase::kRecompute ? graph::CostOf(program.CallOf(node).get()).flops
                                                  : 0.0;
  });
}

ParameterCounts CountParameters(const models::Model& model, const CompileOptions& options) {
  std::vector<models::ParameterInfo> parameters = model.parameters();
  std::ranges::copy(adapters::Parameters(options.lora), std::back_inserter(parameters));
  ParameterCounts counts;
  for (const models::ParameterInfo& parameter : parameters) {
    const int64_t elements = parameter.shape.elements();
    counts.all += elements;
    if (!MatchesAnyGlob(options.frozen, parameter.name)) counts.trained += elements;
  }
  return counts;
}

std::string ParametersText(const models::Model& model, const CompileOptions& options) {
  const ParameterCounts counts = CountParameters(model, options);
  std::string text = FormatCount(static_cast<double>(counts.all)) + " parameters";
  if (counts.trained < counts.all) {
    text += ", " + FormatCount(static_cast<double>(counts.trained)) + " of them trained";
  }
  return text;
}

double ModelFlopsPerToken(const CompiledStep& compiled) {
  const CompileOptions& options = compiled.options;
  return compiled.model_flops /
         static_cast<double>(options.micro_batch * options.sequence * options.accumulate);
}

CompiledStep Compile(const models::Model& model, const CompileOptions& options) {
  return Compiler(model, options).Run();
}

}  // namespace plimsoll::trainer
