// bazel run //bench:variants -- RUN.yaml --variant "NAME: key=value key=value" … [--rounds N]
//
// In a value, @NAME stands for the arena bytes of an earlier variant, and @NAME~OTHER for the mean
// of two of them: "auto: checkpointing.policy=auto memory.budget=@block".
//
// Compares variants of one run file, on random tokens: planned and used arena bytes, predicted and
// measured step time. Clocks drift by a tenth, and by more on shared machines, so all variants stay
// in memory and take turns: a round is one step of each, and the ratio to the first variant is the
// median over rounds. Prints a Markdown table.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "bench/training.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/step/session.h"

namespace plimsoll::bench {
namespace {

using trainer::Session;

struct Arguments {
  std::string file;
  std::vector<std::string> sets;
  std::vector<std::string> variants;
  int rounds = 3;
  std::string json;
};

struct Variant {
  std::string name;
  std::vector<std::string> sets;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<Session> session;
  config::RunConfig config;
  int64_t used_bytes = 0;
  std::vector<double> seconds;
};

// "NAME: key=value key=value"
Variant Parse(const std::string& text) {
  Variant variant;
  const size_t colon = text.find(": ");
  variant.name = text.substr(0, colon);
  if (colon == std::string::npos) return variant;
  std::istringstream words(text.substr(colon + 2));
  for (std::string word; words >> word;) variant.sets.push_back(word);
  return variant;
}

int64_t ArenaOf(const std::vector<Variant>& variants, const std::string& name) {
  for (const Variant& variant : variants) {
    if (variant.name == name && variant.session) {
      return variant.session->compiled().plan.arena_bytes;
    }
  }
  throw UserError("@" + name + ": no earlier variant has this name");
}

// "key=@NAME" with @NAME replaced by its bytes.
std::string Resolve(const std::vector<Variant>& variants, const std::string& set) {
  const size_t at = set.find("=@");
  if (at == std::string::npos) return set;
  const std::string names = set.substr(at + 2);
  const size_t middle = names.find('~');
  int64_t bytes = ArenaOf(variants, names.substr(0, middle));
  if (middle != std::string::npos) {
    bytes = (bytes + ArenaOf(variants, names.substr(middle + 1))) / 2;
  }
  return set.substr(0, at + 1) + std::to_string(bytes);
}

std::unique_ptr<Session> Start(const Variant& variant, const trainer::CompileOptions& options,
                               ThreadPool& pool, runtime::ExecutorOptions executor) {
  auto session =
      std::make_unique<Session>(trainer::Compile(*variant.model, options), pool, executor);
  session->Initialize(*variant.model, 1);
  FillBatch(*session, variant.config, *variant.model);
  return session;
}

// Seconds of a step. Times ops that have not been timed yet.
double Predict(const Variant& variant) {
  const trainer::CompiledStep& compiled = variant.session->compiled();
  std::vector<const graph::Program*> programs;
  for (const auto& program : compiled.programs) programs.push_back(program.get());
  return trainer::PredictSeconds(compiled, trainer::CostModelFor(variant.config, programs));
}

void Run(const Arguments& arguments) {
  std::vector<Variant> variants;
  std::unique_ptr<ThreadPool> pool;
  for (const std::string& text : arguments.variants) {
    Variant& variant = variants.emplace_back(Parse(text));
    std::vector<std::string> sets = arguments.sets;
    for (const std::string& set : variant.sets) sets.push_back(Resolve(variants, set));
    sets.insert(sets.end(), {"train.eval_every=0", "train.sample_every=0"});
    const config::Loaded loaded = trainer::LoadRun(arguments.file, sets);
    variant.model = trainer::ModelFrom(loaded.config);
    const trainer::ResolvedRun resolved = trainer::ResolveRun(loaded.config, *variant.model);
    const trainer::CompileOptions& options = resolved.options;
    variant.config = resolved.config;
    if (!pool) pool = std::make_unique<ThreadPool>(options.threads);
    {
      // Runs one whole step with canaries, before the timed session takes this one's place.
      const auto checked = Start(variant, options, *pool, {.check_arena = true});
      RunStep(*checked, 0);
      variant.used_bytes = checked->used_bytes();
    }
    variant.session = Start(variant, options, *pool, {});
    RunStep(*variant.session, 0);  // touches every page once
    fmt::print(stderr, "{}: ready{}{}\n", variant.name, resolved.chosen.empty() ? "" : ": ",
               resolved.chosen);
  }
  // Only after all ops of all variants have been timed, so that all predictions use the same times.
  for (const Variant& variant : variants) Predict(variant);
  for (int round = 1; round <= arguments.rounds; ++round) {
    for (Variant& variant : variants) {
      variant.seconds.push_back(RunStep(*variant.session, round));
    }
    fmt::print(stderr, "round {} of {}\n", round, arguments.rounds);
  }

  fmt::print(
      "| variant | arena planned | arena used | activations | predicted ms | measured ms | "
      "predicted / measured | time / {} |\n|---|---|---|---|---|---|---|---|\n",
      variants.front().name);
  nlohmann::json rows = nlohmann::json::array();
  for (const Variant& variant : variants) {
    const trainer::CompiledStep& compiled = variant.session->compiled();
    std::vector<double> ratios;
    for (size_t i = 0; i < variant.seconds.size(); ++i) {
      ratios.push_back(variant.seconds[i] / variants.front().seconds[i]);
    }
    const double measured = Median(variant.seconds);
    const double predicted = Predict(variant);
    const int64_t activations = compiled.plan.bytes_of(graph::Role::kActivation);
    fmt::print("| {} | {} | {} | {} | {:.0f} | {:.0f} | {:.3f} | {:.3f} |\n", variant.name,
               FormatBytes(compiled.plan.arena_bytes), FormatBytes(variant.used_bytes),
               FormatBytes(activations), predicted * 1e3, measured * 1e3, predicted / measured,
               Median(ratios));
    rows.push_back({{"variant", variant.name},
                    {"arena_bytes", compiled.plan.arena_bytes},
                    {"used_bytes", variant.used_bytes},
                    {"activation_bytes", activations},
                    {"predicted_ms", predicted * 1e3},
                    {"measured_ms", measured * 1e3},
                    {"ratio", Median(ratios)}});
  }
  if (arguments.json.empty()) return;
  WriteText(arguments.json, rows.dump(1));
}

}  // namespace
}  // namespace plimsoll::bench

int main(int argc, char** argv) {
  using namespace plimsoll;
  bench::Arguments arguments;
  CLI::App app{"Compares variants of a run: memory planned and used, time predicted and measured."};
  app.add_option("run.yaml", arguments.file)->required();
  app.add_option("--set", arguments.sets, "for all variants")->allow_extra_args(false);
  app.add_option("--variant", arguments.variants, "\"NAME: key=value key=value\"")
      ->allow_extra_args(false)
      ->required();
  app.add_option("--rounds", arguments.rounds)->check(CLI::PositiveNumber);
  app.add_option("--json", arguments.json, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  return bench::RunBenchmark([&] { bench::Run(arguments); });
}
