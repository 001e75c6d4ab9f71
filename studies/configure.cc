#include "studies/configure.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "trainer/config/schema.h"
#include "trainer/config/value.h"
#include "trainer/from_config.h"
#include "trainer/ranks.h"

namespace plimsoll::studies {
namespace {

// Where bytes are, what is computed twice, what is watched and told. Each is documented, and
// tested, to leave every bit as it was: docs/checkpointing.md, docs/budget.md, docs/allocators.md,
// docs/mixed_precision.md (optimizer.place), docs/architecture.md (train.threads).
constexpr const char* kSections[] = {"checkpointing", "memory", "run",  "log",
                                     "save",          "sample", "debug"};
constexpr const char* kKeys[] = {"optimizer.place",  "train.threads",      "train.log_every",
                                 "train.eval_every", "train.eval_batches", "train.sample_every",
                                 "train.early_stop", "train.stop_after",   "parallel.timeout"};

// Without what only says where a run's files are.
std::string Resolved(const config::RunConfig& config) {
  std::string text;
  for (const config::Key& key : config::Schema()) {
    if (key.Section() == "run") continue;
    text += fmt::format("{}: {}\n", key.path, config::ToText(key.type, key.get(config)));
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

// How many ranks a configuration is for.
int64_t RanksOf(const Study& study, const config::RunConfig& config) {
  const config::ParallelConfig& mesh = config.parallel;
  if (mesh.data) return *mesh.data * mesh.tensor * mesh.pipeline;
  return study.launch.ranks.value_or(mesh.tensor * mesh.pipeline);
}

void Configure(const Study& study, StudyRow& row) {
  std::vector<std::string> sets = row.Sets();
  const std::vector<std::string> own = MeasuringSets(study);
  sets.insert(sets.end(), own.begin(), own.end());
  // Once to learn the mesh, and once on as many ranks.
  const int64_t guess = study.launch.ranks.value_or(1);
  const config::Loaded first = trainer::LoadRun(study.base, sets, guess);
  row.ranks = RanksOf(study, first.config);
  const config::Loaded loaded =
      row.ranks == guess ? first : trainer::LoadRun(study.base, sets, row.ranks);
  config::RunConfig config = loaded.config;
  trainer::CheckMesh(config, row.ranks);
  if (config.train.steps < study.measure.all_steps()) {
    throw config.Error(
        "train.steps",
        fmt::format("{}, but the study measures {} after {} of warm-up; raise it, or "
                    "lower measure.steps",
                    config.train.steps, study.measure.steps, study.measure.warmup));
  }
  row.resolved = Resolved(config);
  row.has_arena = config.memory.allocator == config::Allocator::kPlanned;
  row.facts = FactsOf(config, row.ranks);
}

// FNV-1a, 64 bits.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace

bool KeepsNumbers(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  return std::find(std::begin(kSections), std::end(kSections), section) != std::end(kSections) ||
         std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

RowFacts FactsOf(const config::RunConfig& config, int64_t ranks) {
  const std::string resolved = Resolved(config);
  RowFacts facts;
  facts.automatic = config.checkpointing.policy == config::CheckpointPolicy::kAuto;
  if (config.train.micro_batch > 0) {  // else the solver's choice changes sums
    facts.numbers = fmt::format("ranks: {}\n", ranks) +
                    Lines(resolved, [](const std::string& key) { return !KeepsNumbers(key); });
  }
  facts.but_for_seed = Lines(resolved, [](const std::string& key) { return key != "train.seed"; });
  facts.seed = std::to_string(config.train.seed);
  return facts;
}

std::vector<std::string> MeasuringSets(const Study& study) {
  return {fmt::format("train.stop_after={}", study.measure.all_steps()),
          "train.eval_every=0",
          "train.early_stop=0",
          "train.sample_every=0",
          "save.model=false",
          "save.every=0",
          "save.on_exit=false",
          "log.csv=false",
          "log.tensorboard=false",
          "log.report=false",
          "memory.summary=false"};
}

std::vector<StudyRow> ConfigureRows(const Study& study, const std::vector<GridRow>& grid) {
  std::vector<StudyRow> rows;
  for (const GridRow& of_grid : grid) {
    StudyRow& row = rows.emplace_back(of_grid);
    if (!row.command.empty()) continue;
    try {
      Configure(study, row);
    } catch (const UserError& error) {
      row.refused = error.what();
      // Where it stands is the study file.
      if (row.refused.starts_with("--set: ")) row.refused.erase(0, 7);
    }
  }
  return rows;
}

std::string FingerprintOf(const Study& study, const std::vector<StudyRow>& rows) {
  const Measure& measure = study.measure;
  std::string text = fmt::format("{} {} {} {}\n", measure.warmup, measure.steps,
                                 measure.check_arena, measure.profile);
  for (const StudyRow& row : rows) {
    text += fmt::format("{}\n{}\n{}\n{}\n{}\n", row.name, row.command, row.ranks, row.refused,
                        row.resolved);
  }
  return fmt::format("{:016x}", HashOf(text));
}

}  // namespace plimsoll::studies
