#include "trainer/settle/starting_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "base/bytes.h"
#include "base/columns.h"
#include "base/error.h"
#include "base/spelling.h"
#include "trainer/config/schema.h"
#include "trainer/config/shipped.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/budget_error.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/gpu_profile.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/known_gpus.h"
#include "trainer/settle/outlook.h"
#include "trainer/settle/run_budget.h"
#include "trainer/settle/step_solver.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using config::RunConfig;

// The device and budget that the file is for.
struct Target {
  std::string name;      // "NVIDIA H200", "CPU"
  std::string key = {};  // of trainer/settle/known_gpus.h; empty: this machine's device
  bool gpu = false;
  int major = 0, minor = 0;  // compute capability
  std::string budget;        // used where none was named
  std::string budget_why;
  std::string code = {};  // what this build can do with it

  std::string capability() const { return fmt::format("compute capability {}.{}", major, minor); }
};

std::string CodeText(int major, int minor, const runtime::GpuReport& gpus) {
  const int number = 10 * major + minor;
  if (runtime::HasCodeFor(gpus, major, minor)) return "this build has code for it";
  if (number < 75) return "no build has code for it: CUDA 13 begins at compute capability 7.5";
  return fmt::format("{}: build with --config=cuda --repo_env=CUDA_ARCHITECTURES={}",
                     gpus.cuda_build ? "this build has no code for it" : "this build has no CUDA",
                     number);
}

Target GpuTarget(const std::string& name, int major, int minor, int64_t bytes,
                 const runtime::GpuReport& gpus) {
  const int64_t gib = static_cast<int64_t>(kGpuShare * static_cast<double>(bytes)) >> 30;
  return {.name = name,
          .gpu = true,
          .major = major,
          .minor = minor,
          .budget = fmt::format("{}GiB", gib),
          .budget_why = fmt::format("90 % of the GPU's {}.", FormatBytes(bytes)),
          .code = CodeText(major, minor, gpus)};
}

Target TargetOf(const std::string& device, const runtime::GpuReport& gpus) {
  if (device.empty()) {
    for (const runtime::GpuFacts& gpu : gpus.gpus) {
      if (gpu.visible) return GpuTarget(gpu.name, gpu.major, gpu.minor, gpu.total_bytes, gpus);
    }
  }
  if (!device.empty() && device != "cpu") {
    const KnownGpu& gpu = RequireGpu(device);
    Target target = GpuTarget(gpu.name, gpu.major, gpu.minor, gpu.memory_bytes(), gpus);
    target.key = gpu.key;
    return target;
  }
  return {.name = "CPU", .budget = "80%", .budget_why = "80 % of the machine's memory."};
}

// A key's value, and the reason for it.
struct Choice {
  std::string value;
  std::string why;
};
using Choices = std::map<std::string, Choice>;

std::string Comment(const std::string& text, const std::string& indent) {
  const std::string start = indent + "# ";
  return Wrapped(start + text, kLineColumns, start) + "\n";
}

// Keys of the model's file that are dropped, since they follow from the choices made here.
bool IsReplaced(const std::string& key) {
  return key == "train.accumulate" || key == "train.blocks_first" || key == "train.threads" ||
         key == "run.dir" || key.starts_with("amp.") || key.starts_with("checkpointing.") ||
         key.starts_with("memory.") || key.starts_with("parallel.");
}

// The keys that `base` sets and the choices, in the order of the schema.
std::string Write(const RunConfig& base, const Choices& choices) {
  std::string yaml, section;
  for (const config::Key& key : config::Schema()) {
    const auto choice = choices.find(key.path);
    const bool keep = base.IsSet(key.path) && !IsReplaced(key.path);
    if (choice == choices.end() && !keep) continue;
    if (key.Section() != section) {
      section = key.Section();
      if (!section.empty()) yaml += section + ":\n";
    }
    const std::string indent = section.empty() ? "" : "  ";
    if (choice != choices.end() && !choice->second.why.empty()) {
      yaml += Comment(choice->second.why, indent);
    }
    const std::string value = choice != choices.end() ? choice->second.value : key.Text(base);
    yaml += fmt::format("{}{}: {}\n", indent, key.Name(), value);
  }
  return yaml;
}

RunConfig LoadModel(const StartingConfigCommand& command) {
  std::error_code error;
  if (fs::is_directory(command.model, error)) {
    const std::string text = fmt::format("model: {{init_from: {}}}\ndata: {{synthetic: true}}\n",
                                         config::ScalarText(command.model));
    return LoadRunText(text, command.model).config;
  }
  return LoadRun(FindModelFile(command.model), {}).config;
}

Choice PrecisionFor(const Target& target) {
  if (!target.gpu)
    return {"fp32", "A CPU computes in float32: bf16 would save memory, and no time."};
  if (target.major >= 8) {
    return {"bf16",
            "16-bit products at the tensor cores' full rate and with float32's range, so that no "
            "loss scaling is needed; float32 weights stand behind."};
  }
  return {"fp16", fmt::format("The tensor cores of {} know fp16 and no bf16. Its range is small: "
                              "the loss is scaled (amp.loss_scale: dynamic).",
                              target.capability())};
}

// Tokens per update by the model's size: GPT-3's (Brown et al. 2020, table 2.1), as powers of 2.
int64_t BatchTokens(int64_t parameters) {
  if (parameters < 1'000'000'000) return int64_t{1} << 19;
  if (parameters < 5'000'000'000) return int64_t{1} << 20;
  return int64_t{1} << 21;
}

// GPT-3's table has no entry for models smaller than this.
constexpr int64_t kSmallModel = 100'000'000;

// All samples of a micro-batch act on one another in this model.
void KeepMicroBatch(const RunConfig& base, Choices& choices) {
  choices["train.micro_batch"] = {
      std::to_string(base.train.micro_batch),
      "As in the model's file: all samples of a micro-batch act on one another in this model, so "
      "that its size is part of the mathematics (docs/batch_norm.md). Each GPU takes one, and an "
      "update all of them."};
  if (base.train.accumulate > 1) {
    choices["train.accumulate"] = {std::to_string(base.train.accumulate),
                                   "As in the model's file."};
  }
}

void ChooseBatch(const RunConfig& base, const Target& target, Choices& choices) {
  const auto model = ModelFrom(base);
  if (base.train.micro_batch > 0 && model->coupled_samples() == 0) {
    KeepMicroBatch(base, choices);
    return;
  }
  if (base.train.global_batch || base.train.global_batch_tokens) return;
  const int64_t parameters = model->parameter_count(), sequence = base.model.sequence();
  if (!target.gpu || parameters < kSmallModel || sequence == 1) {
    choices["train.global_batch"] = {std::to_string(base.train.micro_batch * base.train.accumulate),
                                     "As in the model's file."};
    return;
  }
  const int64_t tokens = BatchTokens(parameters);
  choices["train.global_batch"] = {
      std::to_string(std::max<int64_t>(1, tokens / sequence)),
      fmt::format("{} tokens an update, as GPT-3 takes for models of this size (Brown et al. 2020, "
                  "table 2.1), on any number of GPUs.",
                  tokens)};
}

// The choices made so far, with the others left to the solver.
RunConfig OpenConfig(const RunConfig& base, const Target& target, Choices choices) {
  if (!choices.contains("train.micro_batch")) choices["train.micro_batch"] = {"auto", ""};
  choices["checkpointing.policy"] = {"auto", ""};
  choices["memory.calibrate"] = {"false", ""};
  RunConfig config = LoadRunText(Write(base, choices), "--for").config;
  config.planned_gpu = target.key;
  config.origins["memory.budget"] = "config --for";  // for messages
  return config;
}

// Leaves where parameters live, and what else changes no number, to the solver.
void LeaveOpen(const RunConfig& base, Choices& choices) {
  for (const Knob& knob : Techniques()) {
    if (!base.IsSet(knob.key) || IsReplaced(knob.key)) choices[knob.key] = {"auto", ""};
  }
}

// Refuses without a search what is far from fitting: where one sequence, by the smallest of the
// named policies and with all that may be on the host there, takes twice the budget.
void RequireNearBudget(RunConfig config, const memory::Budget& budget) {
  // Gradients of one micro-step would stay on the device.
  config.train.SetMicroSteps(std::max<int64_t>(1, ModelFrom(config)->coupled_samples()), 2);
  for (const Knob& knob : Techniques()) {
    if (knob.IsOpen(config)) knob.Use(config, WhyUnused(knob, config).empty());
  }
  StepSolver solver(config, {.built_in_rates = true, .policies = true});
  const int64_t needed =
      budget.profile.ProcessBytes(solver.solver().Smallest().exact->needed_bytes);
  if (needed / 2 <= budget.process()) return;
  throw UserError(
      fmt::format("config --for: memory.budget: {} ({} bytes): with one sequence at a time, and "
                  "weights, gradients and optimizer state on the host, a plan needs {}; raise the "
                  "budget, or have ranks share the model (parallel.tensor, parallel.zero: 3)",
                  FormatBytes(budget.process()), budget.process(), FormatBytes(needed)),
      ExitCode::kBudgetNotMet);
}

// Adds the choices that the solver makes within the budget, given the others. Returns what the file
// is to say of their cost.
std::vector<std::string> ChooseByBudget(const RunConfig& base, const Target& target,
                                        Choices& choices) {
  const Activity activity("looking for the fastest plan within the budget");
  RunConfig config = OpenConfig(base, target, choices);
  const memory::Budget budget = BudgetOf(config);
  constexpr StepSolverOptions kBuiltIn = {.built_in_rates = true};
  std::unique_ptr<StepSolver> solver;
  const auto fastest = [&]() -> const memory::Candidate* {
    config = OpenConfig(base, target, choices);
    solver.reset();
    if (!HasRoomForState(config, budget)) return nullptr;
    solver = std::make_unique<StepSolver>(config, kBuiltIn);
    return solver->solver().Fastest(budget);
  };
  const memory::Candidate* chosen = fastest();
  if (chosen == nullptr && target.gpu && config.optimizer.place == config::PlaceOrAuto::kDevice) {
    choices["optimizer.place"] = {
        "host",
        "Nothing fits otherwise: moments and master weights stay in host memory, and come to "
        "the GPU for each update. No number changes."};
    chosen = fastest();
  }
  if (chosen == nullptr && target.gpu) {
    LeaveOpen(base, choices);
    RequireNearBudget(OpenConfig(base, target, choices), budget);
    chosen = fastest();
  }
  if (chosen == nullptr) {
    RequireRoomForParameters(config, budget);
    if (solver == nullptr) solver = std::make_unique<StepSolver>(config, kBuiltIn);
    RefuseBudget(budget, *solver);
  }

  const RunConfig made = solver->ConfigOf(*chosen);
  if (config.train.micro_batch == 0) {
    choices["train.micro_batch"] = {
        std::to_string(made.train.micro_batch),
        fmt::format(
            "{} {} at a time, {} micro-step{}: by built-in rates the fastest way to cut that batch "
            "within the budget.",
            made.train.micro_batch, base.model.sequence() == 1 ? "samples" : "sequences",
            made.train.accumulate, made.train.accumulate == 1 ? "" : "s")};
  }
  for (const Knob& knob : Techniques()) {
    if (!knob.IsOpen(config)) continue;
    choices.erase(knob.key);
    if (!knob.IsUsed(made)) continue;
    choices[knob.key] = {knob.used(),
                         "No plan fits with everything on the GPU, and none with the "
                         "optimizer's state alone on the host; by built-in rates "
                         "this is part of the fastest one. No number changes."};
  }
  choices["checkpointing.policy"] =
      chosen->fates == solver->solver().variants()[chosen->variant].KeepAll()
          ? Choice{"none", "All activations fit: nothing is recomputed."}
          : Choice{"auto",
                   fmt::format("Not all activations fit. The solver recomputes what costs least "
                               "time, once it has timed the device; by built-in rates {:.1f} % of "
                               "a step.",
                               100 * chosen->exact->recompute_seconds / chosen->exact->seconds)};
  return Outlook(*solver, *chosen, budget);
}

}  // namespace

std::string FindModelFile(const std::string& name) {
  std::error_code error;
  if (fs::is_regular_file(name, error) || config::FindShipped(name) != nullptr) return name;
  constexpr const char* kFolder = "configs/models";
  const std::string path = fmt::format("{}/{}.yaml", kFolder, name);
  if (fs::is_regular_file(path, error) || config::FindShipped(path) != nullptr) return path;
  const std::vector<std::string> names = config::ShippedNames(kFolder);
  const std::string nearest = NearestName(name, names);
  throw UserError(fmt::format(
      "--for {}: no such model; {}", name,
      nearest.empty() ? fmt::format("name a run file or a Hugging Face folder, or one of {}",
                                    fmt::join(names, ", "))
                      : fmt::format("did you mean {}?", nearest)));
}

std::string StartingConfig(const StartingConfigCommand& command, const runtime::GpuReport& gpus) {
  const Target target = TargetOf(command.device, gpus);
  const RunConfig base = LoadModel(command);
  Choices choices;
  choices["device"] = {
      target.gpu ? "cuda" : "cpu",
      target.gpu ? fmt::format("{}, {}; {}.", target.name, target.capability(), target.code) : ""};
  if (!target.key.empty()) {
    choices["memory.device"] = {target.key, "`plimsoll plan` plans for it wherever it runs."};
  }
  choices["amp.dtype"] = PrecisionFor(target);
  config::MemorySize size;
  if (!command.budget.empty() && !config::ParseMemorySize(command.budget, &size)) {
    throw UserError(fmt::format("--budget {}: no size; write 24GiB", command.budget));
  }
  const std::string beside =
      target.gpu ? " All that the process takes of the GPU stays within." : "";
  choices["memory.budget"] = command.budget.empty()
                                 ? Choice{target.budget, target.budget_why + beside}
                                 : Choice{command.budget, "As asked for." + beside};
  ChooseBatch(base, target, choices);
  const std::vector<std::string> outlook = ChooseByBudget(base, target, choices);
  if (base.data.synthetic) {
    choices["data.synthetic"] = {
        "true", "Random tokens: remove this, and name token files with data.train."};
  }
  std::string header = fmt::format("# {} on {}.\n", command.model, target.name);
  for (const std::string& line : outlook) header += Comment(line, "");
  header += "#   plimsoll config --for " + command.model;
  if (!command.device.empty()) header += " --device " + (target.gpu ? target.key : command.device);
  if (!command.budget.empty()) header += " --budget " + command.budget;
  return header + "\n" + Write(base, choices);
}

}  // namespace plimsoll::trainer
