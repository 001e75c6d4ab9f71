#include "studies/configure.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/fnv1a.h"
#include "trainer/config/rank_counts.h"
#include "trainer/config/resolve.h"
#include "trainer/config/schema.h"
#include "trainer/config/value.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/knobs.h"
#include "trainer/settle/run_device.h"

namespace plimsoll::studies {
namespace {

// Keys about where bytes are, what is recomputed, what is monitored and reported. For each it is
// documented, and tested, that every bit stays the same: docs/checkpointing.md, docs/budget.md,
// docs/allocators.md, docs/kernels.md (train.threads). So it is of knobs whose table says so.
constexpr const char* kSections[] = {"checkpointing", "memory", "run",  "log",
                                     "save",          "sample", "debug"};
constexpr const char* kKeys[] = {
    "train.threads",        "train.log_every",    "train.eval_every",
    "train.eval_sequences", "train.sample_every", "train.early_stop",
    "train.stop_after",     "parallel.timeout",   "parallel.reshard_after_forward"};

// The configuration without the keys that only place a run's files.
std::string Resolved(const config::RunConfig& config) {
  std::string text;
  for (const config::Key& key : config::Schema()) {
    if (key.Section() == "run") continue;
    text += fmt::format("{}: {}\n", key.path, key.Text(config));
  }
  return text;
}

// The lines of `resolved` whose keys fulfil the condition.
template <typename Keep>
std::string Lines(const std::string& resolved, const Keep& keep) {
  std::string text;
  for (size_t start = 0; start < resolved.size();) {
    const size_t end = resolved.find('\n', start) + 1;
    const std::string line = resolved.substr(start, end - start);
    if (keep(line.substr(0, line.find(':')))) text += line;
    start = end;
  }
  return text;
}

// The number of ranks that a configuration is for.
int64_t RanksOf(const Study& study, const config::RunConfig& config) {
  const int64_t others = config::RanksBesideData(config);
  if (config.parallel.data) return *config.parallel.data * others;
  return study.launch.ranks.value_or(others);
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::string Replace(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
  return text;
}

std::vector<std::string> AllSets(const Study& study, const StudyRow& row, size_t seed) {
  std::vector<std::string> sets = row.Sets(seed);
  const std::vector<std::string> own = MeasuringSets(study);
  sets.insert(sets.end(), own.begin(), own.end());
  sets.push_back(StepsSet(study.measure.all_steps()));
  return sets;
}

class MissingFile : public UserError {
 public:
  using UserError::UserError;
};

// MissingFile unless the files that a run starts from exist.
void RequireFiles(const config::RunConfig& config) {
  const auto require = [&](const char* key, const std::string& folder, const char* file) {
    std::error_code error;
    const std::string path = folder + "/" + file;
    if (folder.empty() || std::filesystem::exists(path, error)) return;
    throw MissingFile(
        fmt::format("{}: {}: {}: there is no such file", config.Origin(key), key, path));
  };
  require("model.init_from", config.model.init_from, "config.json");
  require("lora.init_from", config.lora.init_from, "adapter_config.json");
}

// UserError for a configuration that cannot run, with any files and any budget.
void CheckPossible(config::RunConfig& config, int64_t ranks) {
  trainer::CheckMesh(config, ranks);
  const std::unique_ptr<models::Model> model = trainer::ModelFrom(config);
  (void)trainer::CompileFrom(config, *model);
}

void Configure(const Study& study, StudyRow& row) {
  const std::vector<std::string> sets = AllSets(study, row, 0);
  // Loaded once to learn the mesh, and once for that many ranks.
  const int64_t guess = study.launch.ranks.value_or(1);
  RequireFiles(config::Load(study.base, sets, guess).config);
  const config::Loaded first = trainer::LoadRun(study.base, sets, guess);
  row.ranks = RanksOf(study, first.config);
  const config::Loaded loaded =
      row.ranks == guess ? first : trainer::LoadRun(study.base, sets, row.ranks);
  config::RunConfig config = loaded.config;
  CheckPossible(config, row.ranks);
  if (config.train.steps < study.measure.all_steps()) {
    throw config.Error(
        "train.steps",
        fmt::format("{}, but the study measures {} after {} of warm-up; raise it, or "
                    "lower measure.steps",
                    config.train.steps, study.measure.steps, study.measure.warmup));
  }
  row.resolved = Resolved(config);
  row.has_arena = config.memory.allocator == config::Allocator::kPlanned;
  row.on_gpu = trainer::DeviceFrom(config) == runtime::DeviceKind::kCuda;
  row.calibrates = config.memory.calibrate && trainer::LeavesChoice(config);
  for (size_t seed = 0; seed < row.seeds.size(); ++seed) {
    row.run_seeds.push_back(
        SeedsOf(trainer::LoadRun(study.base, AllSets(study, row, seed), row.ranks).config));
  }
  row.facts = FactsOf(config, row.ranks);
}

// The program that runs.
std::string OwnProgram() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw UserError("/proc/self/exe: " + error.message(), ExitCode::kInternal);
  return path.string();
}

}  // namespace

bool KeepsNumbers(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  const auto knob = std::ranges::find(trainer::Knobs(), key, &trainer::Knob::key);
  if (knob != trainer::Knobs().end()) return knob->keeps_numbers();
  return std::ranges::find(kSections, section) != std::end(kSections) ||
         std::ranges::find(kKeys, key) != std::end(kKeys);
}

RowFacts FactsOf(const config::RunConfig& config, int64_t ranks) {
  const std::string resolved = Resolved(config);
  RowFacts facts;
  facts.automatic = config.checkpointing.policy == config::CheckpointPolicy::kAuto;
  facts.but_for_seed = Lines(resolved, [](const std::string& key) { return !IsSeed(key); });
  if (config.train.micro_batch > 0) {  // else the solver's choice changes the sums
    facts.numbers =
        fmt::format("ranks: {}\n", ranks) +
        Lines(facts.but_for_seed, [](const std::string& key) { return !KeepsNumbers(key); });
  }
  return facts;
}

RunSeeds SeedsOf(const config::RunConfig& config) {
  return {config.train.seed, config.model.seed, config.data.seed};
}

std::string RunSeeds::Text() const {
  if (train == model && train == data) return std::to_string(train);
  return fmt::format("train {}, model {}, data {}", train, model, data);
}

std::vector<std::string> MeasuringSets(const Study& study) {
  return {fmt::format("train.eval_every={}", study.measure.EvalEvery()),
          "train.early_stop=0",
          "train.sample_every=0",
          "save.model=false",
          "save.every=0",
          "save.best=false",
          "save.on_exit=false",
          "log.csv=false",
          "log.tensorboard=false",
          "log.report=false",
          "log.mlflow=false",
          "memory.summary=false"};
}

std::string StepsSet(int64_t steps) { return fmt::format("train.stop_after={}", steps); }

std::vector<std::string> TrainArguments(const Study& study, const StudyRow& row, size_t seed,
                                        const std::vector<std::string>& further) {
  std::vector<std::string> arguments;
  if (row.ranks > 1) {
    arguments = WordsOf(Replace(study.launch.mpirun, "{ranks}", std::to_string(row.ranks)));
  }
  arguments.insert(arguments.end(), {OwnProgram(), "train", study.base});
  for (const std::vector<std::string>& sets : {row.Sets(seed), MeasuringSets(study), further}) {
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  }
  return arguments;
}

std::vector<StudyRow> ConfigureRows(const Study& study, const std::vector<GridRow>& grid) {
  std::vector<StudyRow> rows;
  for (const GridRow& of_grid : grid) {
    StudyRow& row = rows.emplace_back(of_grid);
    if (!row.command.empty()) {
      // It has the same seeds as the other rows' runs.
      for (const KeyTrees& seed : row.seeds) {
        KeyTrees settings = study.settings;
        for (const auto& [key, value] : seed) settings[key] = value;
        row.run_seeds.push_back(SeedsOf(
            config::Load(study.base, SetsOf(settings), study.launch.ranks.value_or(1)).config));
      }
      continue;
    }
    try {
      Configure(study, row);
    } catch (const UserError& error) {
      row.refused = error.what();
      if (dynamic_cast<const MissingFile*>(&error) != nullptr) row.refused_as = Status::kFailed;
      // The setting comes from the study file, not from --set.
      if (row.refused.starts_with("--set: ")) row.refused.erase(0, 7);
    }
  }
  return rows;
}

std::string FingerprintOf(const Study& study, const std::vector<StudyRow>& rows) {
  const Measure& measure = study.measure;
  std::string text = fmt::format("{} {} {} {} {}\n", measure.warmup, measure.steps,
                                 measure.check_arena, measure.profile, measure.EvalEvery());
  for (const StudyRow& row : rows) {
    text += fmt::format("{}\n{}\n{}\n{}\n{}\n", row.name, row.command, row.ranks, row.refused,
                        row.resolved);
    for (const RunSeeds& seeds : row.run_seeds) text += seeds.Text() + "\n";
  }
  return fmt::format("{:016x}", Fnv1a(text));
}

}  // namespace plimsoll::studies
