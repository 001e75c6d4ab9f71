#include "studies/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/replaced.h"
#include "base/spelling.h"
#include "studies/values.h"
#include "trainer/config/derived_values.h"
#include "trainer/config/rank_counts.h"
#include "trainer/config/schema.h"
#include "trainer/config/value.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::studies {
namespace {

// True for keys whose axis gives runs of one row instead of separate rows.
bool IsSeed(const std::string& key) {
  return key == "train.seed" || key == "model.seed" || key == "data.seed";
}

constexpr int64_t kMostRows = 100'000;

// The last word of a key; the complete key if another axis has the same last word.
std::string LabelOf(const std::string& key, const std::vector<Axis>& axes) {
  const auto leaf = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  const auto same = std::count_if(axes.begin(), axes.end(),
                                  [&](const Axis& axis) { return leaf(axis.key) == leaf(key); });
  return same > 1 ? key : leaf(key);
}

std::string FolderName(size_t index, const std::string& name) {
  std::string folder = fmt::format("{:03}-", index + 1);
  for (const char c : name) {
    const bool word = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    if (word) {
      folder += c;
    } else if (folder.back() != '-') {
      folder += '-';
    }
    if (folder.size() >= 60) break;
  }
  while (folder.ends_with('-') || folder.ends_with('.')) folder.pop_back();
  return folder;
}

bool Matches(const KeyTrees& settings, const config::RunConfig& base, const Combination& pattern) {
  return std::ranges::all_of(pattern.settings, [&](const auto& setting) {
    const auto& [key, value] = setting;
    const auto found = settings.find(key);
    if (found != settings.end()) return SetArgument(key, found->second) == SetArgument(key, value);
    if (value.kind == config::Tree::Kind::kNull) return !base.IsSet(key);
    const config::Key& row_of_schema = *config::FindKey(key);
    return row_of_schema.get(base) == config::ParseKey(row_of_schema, value);
  });
}

// All combinations of the axes' values; the last axis varies fastest. Without axes, one empty
// combination.
std::vector<KeyTrees> Combinations(const std::vector<const Axis*>& axes) {
  std::vector<KeyTrees> combinations = {{}};
  for (const Axis* axis : axes) {
    std::vector<KeyTrees> longer;
    for (const KeyTrees& settings : combinations) {
      for (const config::Tree& value : axis->values) {
        longer.push_back(settings);
        longer.back()[axis->key] = value;
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

// The number of rows times seeds, before `exclude` and `include`; capped at 10⁹.
int64_t GridSize(const Study& study) {
  constexpr int64_t kCap = 1'000'000'000;
  int64_t size = 1;
  for (const Axis& axis : study.axes) {
    size = std::min(kCap, size * static_cast<int64_t>(axis.values.size()));
  }
  if (study.variants.empty()) return size;
  const int64_t runs = std::ranges::count(study.variants, "", &Variant::command);
  return std::min(kCap, size * runs + std::ssize(study.variants) - runs);
}

bool HasRun(const StudyRow& row, const std::vector<std::string>& sets) {
  for (size_t seed = 0; seed < row.seeds.size(); ++seed) {
    if (row.Sets(seed) == sets) return true;
  }
  return false;
}

class Expander {
 public:
  Expander(const Study& study, const config::RunConfig& base) : study_(study), base_(base) {
    std::vector<const Axis*> seeds;
    for (const Axis& axis : study.axes) (IsSeed(axis.key) ? seeds : axes_).push_back(&axis);
    seeds_ = Combinations(seeds);
  }

  std::vector<StudyRow> Rows() {
    if (study_.variants.empty()) {
      if (!study_.axes.empty()) AddGrid({});
    } else {
      for (const Variant& variant : study_.variants) AddGrid(variant);
    }
    if (rows_.empty() && study_.include.empty()) {
      throw UserError(study_.file + ": nothing to compare: give `variants`, `axes` or `include`");
    }
    Exclude();
    for (const Combination& combination : study_.include) Include(combination);
    if (rows_.empty()) {
      throw UserError(study_.file + ": `exclude` leaves no row of the grid");
    }
    RequireDifferentNames();
    RequireBaseline();
    for (size_t i = 0; i < rows_.size(); ++i) rows_[i].folder = FolderName(i, rows_[i].name);
    return std::move(rows_);
  }

 private:
  void AddGrid(const Variant& variant) {
    if (!variant.command.empty()) {
      StudyRow& row = rows_.emplace_back();
      row.name = variant.name;
      row.command = variant.command;
      row.seeds = seeds_;
      return;
    }
    for (const KeyTrees& combination : Combinations(axes_)) {
      rows_.push_back(RowAt(variant, combination));
    }
  }

  void AddAxis(StudyRow& row, const std::string& key, const config::Tree& value) const {
    row.axes.emplace_back(key, ShortText(key, value));
    row.name += fmt::format("{}{}={}", row.name.empty() ? "" : ", ", LabelOf(key, study_.axes),
                            row.axes.back().second);
  }

  StudyRow RowAt(const Variant& variant, const KeyTrees& combination) const {
    StudyRow row;
    row.name = variant.name;
    row.settings = Overlaid(Overlaid(study_.settings, variant.settings), combination);
    row.seeds = seeds_;
    for (const Axis* axis : axes_) AddAxis(row, axis->key, combination.at(axis->key));
    if (row.name.empty()) row.name = "base";  // all axes are seeds
    return row;
  }

  void Exclude() {
    for (size_t i = 0; i < study_.exclude.size(); ++i) {
      const Combination& pattern = study_.exclude[i];
      size_t left_out = 0;
      for (StudyRow& row : rows_) {
        if (!row.command.empty()) continue;
        left_out += std::erase_if(row.seeds, [&](const KeyTrees& seed) {
          return Matches(Overlaid(row.settings, seed), base_, pattern);
        });
      }
      std::erase_if(rows_, [](const StudyRow& row) { return row.seeds.empty(); });
      if (left_out == 0) {
        RefuseAt(pattern.origin, fmt::format("exclude[{}]", i), "no row is like that");
      }
    }
  }

  void Include(const Combination& combination) {
    StudyRow row;
    row.settings = Overlaid(study_.settings, combination.settings);
    const bool names_seed = std::ranges::any_of(
        combination.settings, [](const auto& setting) { return IsSeed(setting.first); });
    if (!names_seed) row.seeds = seeds_;
    for (const auto& [key, value] : combination.settings) AddAxis(row, key, value);
    for (const StudyRow& other : rows_) {
      if (other.command.empty() && HasRun(other, row.Sets())) {
        RefuseAt(combination.origin, "include", "the row \"" + other.name + "\" is there already");
      }
    }
    rows_.push_back(std::move(row));
  }

  void RequireDifferentNames() const {
    std::map<std::string, int> names;
    for (const StudyRow& row : rows_) {
      if (++names[row.name] == 1) continue;
      throw UserError(
          fmt::format("{}: two rows would be called \"{}\"; give one of them another "
                      "name as a variant",
                      study_.file, row.name));
    }
  }

  void RequireBaseline() const {
    if (study_.baseline.empty()) return;
    std::vector<std::string> names;
    for (const StudyRow& row : rows_) {
      if (row.name == study_.baseline) return;
      names.push_back(row.name);
    }
    const std::string nearest = NearestName(study_.baseline, names);
    throw UserError(fmt::format(
        "{}: baseline: no row is called \"{}\"{}", study_.baseline_origin, study_.baseline,
        nearest.empty() ? fmt::format("; the first is \"{}\"", names.front())
                        : fmt::format(", did you mean \"{}\"?", nearest)));
  }

  const Study& study_;
  const config::RunConfig& base_;
  std::vector<const Axis*> axes_;  // axes except those of seeds
  std::vector<KeyTrees> seeds_;
  std::vector<StudyRow> rows_;
};

// Keys that never change a computed bit: they place bytes, choose what is recomputed, or monitor
// and report. Pages document this, and tests check it, for each key: docs/checkpointing.md,
// docs/budget.md, docs/allocators.md, docs/how/kernels.md (train.threads). The same holds for knobs
// (keys that the program may choose) whose table says so.
constexpr const char* kSections[] = {"checkpointing", "memory", "run",  "log",
                                     "save",          "sample", "debug"};
constexpr const char* kKeys[] = {
    "train.threads",        "train.log_every",    "train.eval_every",
    "train.eval_sequences", "train.sample_every", "train.early_stop",
    "train.stop_after",     "parallel.timeout",   "parallel.reshard_after_forward"};

// The values of the keys that `keep` accepts, without keys that only place a run's files.
template <typename Keep>
std::string Resolved(const config::RunConfig& config, const Keep& keep) {
  std::string text;
  for (const config::Key& key : config::Schema()) {
    if (key.Section() == "run" || !keep(key.path)) continue;
    text += fmt::format("{}: {}\n", key.path, key.Text(config));
  }
  return text;
}

// The number of ranks that the configuration runs on.
int64_t RanksOf(const Study& study, const config::RunConfig& config) {
  const int64_t others = config::NonDataRanks(config);
  if (config.parallel.data) return *config.parallel.data * others;
  return study.launch.ranks.value_or(others);
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The settings that the study adds to every run. They override the row's settings.
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

std::vector<std::string> AllSets(const Study& study, const StudyRow& row, size_t seed,
                                 const std::vector<std::string>& further) {
  std::vector<std::string> sets = row.Sets(seed);
  const std::vector<std::string> own = MeasuringSets(study);
  sets.insert(sets.end(), own.begin(), own.end());
  sets.insert(sets.end(), further.begin(), further.end());
  return sets;
}

// Throws a UserError unless the files that a run starts from exist.
void RequireFiles(const config::RunConfig& config) {
  const auto require = [&](const char* key, const std::string& folder, const char* file) {
    std::error_code error;
    const std::string path = folder + "/" + file;
    if (folder.empty() || std::filesystem::exists(path, error)) return;
    RefuseAt(config.Origin(key), key, path + ": there is no such file");
  };
  require("model.init_from", config.model.init_from, "config.json");
  require("lora.init_from", config.lora.init_from, "adapter_config.json");
}

// Throws a UserError for a configuration that cannot run with any files and any budget.
void CheckPossible(config::RunConfig& config, int64_t ranks) {
  trainer::CheckMesh(config, ranks);
  const std::unique_ptr<models::Model> model = trainer::ModelFrom(config);
  (void)trainer::CompileFrom(config, *model);
}

void Configure(const Study& study, StudyRow& row) {
  const std::vector<std::string> steps = {StepsSet(study.measure.all_steps())},
                                 sets = AllSets(study, row, 0, steps);
  // Loads the configuration once to learn its mesh, and again for that number of ranks.
  const int64_t guess = study.launch.ranks.value_or(1);
  const config::RunConfig unchecked = config::Load(study.base, sets, guess).config;
  row.refused_as = Status::kFailed;
  RequireFiles(unchecked);
  row.refused_as = Status::kInfeasible;
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
  row.resolved = Resolved(config, [](const std::string&) { return true; });
  row.has_arena = config.memory.allocator == config::Allocator::kPlanned;
  row.on_gpu = trainer::DeviceFrom(config) == runtime::DeviceKind::kCuda;
  row.calibrates = config.memory.calibrate && trainer::LeavesChoice(config);
  for (size_t seed = 0; seed < row.seeds.size(); ++seed) {
    row.run_seeds.push_back(
        SeedsOf(trainer::LoadRun(study.base, AllSets(study, row, seed, steps), row.ranks).config));
  }
  row.facts = FactsOf(config, row.ranks);
}

// The path of the running program.
std::string OwnProgram() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw UserError("/proc/self/exe: " + error.message(), ExitCode::kInternal);
  return path.string();
}

}  // namespace

std::vector<std::string> StudyRow::Sets(size_t seed) const {
  return SetsOf(Overlaid(settings, seeds[seed]));
}

std::vector<StudyRow> ExpandGrid(const Study& study, const config::RunConfig& base) {
  const int64_t size = GridSize(study);
  if (size > kMostRows) {
    throw UserError(
        fmt::format("{}: a grid of {} rows; a study has at most {}: shorten some axes, "
                    "or list rows as `variants` or `include`",
                    study.file, size, kMostRows));
  }
  return Expander(study, base).Rows();
}

bool KeepsNumbers(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  const auto knob = std::ranges::find(trainer::Knobs(), key, &trainer::Knob::key);
  if (knob != trainer::Knobs().end()) return knob->keeps_numbers();
  return std::ranges::find(kSections, section) != std::end(kSections) ||
         std::ranges::find(kKeys, key) != std::end(kKeys);
}

namespace {

// Whether stages, if there are any, train as one rank does, to the bit (docs/pipeline_stages.md).
// On a GPU kernels are chosen by program.
bool TrainsAsOneRank(const config::RunConfig& config, int64_t ranks) {
  if (ranks != config.parallel.pipeline) return false;
  if (ranks == 1) return true;
  if (trainer::DeviceFrom(config) != runtime::DeviceKind::kCpu ||
      config.amp.fp8_recipe != config::Fp8Recipe::kNone) {
    return false;
  }
  try {
    return !trainer::ModelFrom(config)->shares_parameters();
  } catch (const UserError&) {  // the model's files have gone since
    return false;
  }
}

}  // namespace

RowFacts FactsOf(const config::RunConfig& config, int64_t ranks) {
  RowFacts facts;
  facts.automatic = config.checkpointing.policy == config::CheckpointPolicy::kAuto;
  facts.but_for_seed = Resolved(config, [](const std::string& key) { return !IsSeed(key); });
  if (config.train.micro_batch > 0) {  // else the solver's choice changes the sums
    const bool as_one = TrainsAsOneRank(config, ranks);
    facts.numbers = fmt::format("ranks: {}\n", as_one ? 1 : ranks) +
                    Resolved(config, [&](const std::string& key) {
                      const bool stages = key == "parallel.pipeline" || key == "parallel.stages";
                      return !IsSeed(key) && !KeepsNumbers(key) && !(as_one && stages);
                    });
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

std::string StepsSet(int64_t steps) { return fmt::format("train.stop_after={}", steps); }

std::vector<std::string> TrainArguments(const Study& study, const StudyRow& row, size_t seed,
                                        const std::vector<std::string>& further) {
  std::vector<std::string> arguments;
  if (row.ranks > 1) {
    arguments = WordsOf(Replaced(study.launch.mpirun, {{"{ranks}", std::to_string(row.ranks)}}));
  }
  arguments.insert(arguments.end(), {OwnProgram(), "train", study.base});
  for (const std::string& set : AllSets(study, row, seed, further)) {
    arguments.insert(arguments.end(), {"--set", set});
  }
  return arguments;
}

std::vector<StudyRow> ConfigureRows(const Study& study, std::vector<StudyRow> rows) {
  for (StudyRow& row : rows) {
    if (!row.command.empty()) {
      // A row whose `command` runs another program gets the same seeds as the runs of other rows.
      for (const KeyTrees& seed : row.seeds) {
        const std::vector<std::string> sets = SetsOf(Overlaid(study.settings, seed));
        row.run_seeds.push_back(
            SeedsOf(config::Load(study.base, sets, study.launch.ranks.value_or(1)).config));
      }
      continue;
    }
    try {
      Configure(study, row);
    } catch (const UserError& error) {
      row.refused = error.what();
      // The setting comes from the study file, so "--set" would mislead.
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
