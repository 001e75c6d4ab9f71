#include "studies/study_keys.h"

#include <fmt/format.h>

#include <filesystem>
#include <limits>

#include "base/error.h"
#include "studies/values.h"
#include "trainer/config/value.h"

namespace plimsoll::studies {
namespace {

using config::ParseValue;
using config::Tree;
using config::TreeEntry;
using config::Type;

constexpr int64_t kMany = 1'000'000;

int64_t Integer(const std::string& path, const Tree& value, int64_t min, int64_t max = kMany) {
  const auto number = std::get<int64_t>(ParseValue(Type::kInt, path, value));
  if (number >= min && number <= max) return number;
  throw UserError(fmt::format("{}: {}: {} is out of range; it must be between {} and {}",
                              value.origin, path, number, min, max));
}

double Positive(const std::string& path, const Tree& value) {
  const auto number = std::get<double>(ParseValue(Type::kFloat, path, value));
  if (number > 0) return number;
  throw UserError(
      fmt::format("{}: {}: {} is out of range; it must be above 0", value.origin, path, number));
}

std::string Text(const std::string& path, const Tree& value) {
  auto text = std::get<std::string>(ParseValue(Type::kString, path, value));
  if (text.empty()) throw UserError(fmt::format("{}: {}: is empty", value.origin, path));
  return text;
}

void RequireMap(const std::string& path, const Tree& value, const std::string& origin,
                const char* what) {
  if (value.kind == Tree::Kind::kMap && !value.entries.empty()) return;
  throw UserError(fmt::format("{}: {}: expected {}, got {}", origin, path, what,
                              value.kind == Tree::Kind::kMap ? "none" : config::Describe(value)));
}

Variant ReadVariant(const TreeEntry& entry) {
  const std::string where = "variants." + config::ShowKey(entry.key);
  Variant variant{.name = entry.key, .origin = entry.origin, .settings = {}, .command = ""};
  for (const TreeEntry& inner : entry.value.entries) {
    if (inner.key != "command") continue;
    variant.command = Text(where + ".command", inner.value);
    if (entry.value.entries.size() > 1) {
      throw UserError(
          fmt::format("{}: {}.command: stands alone: a program of its own takes no "
                      "keys of a run file",
                      inner.origin, where));
    }
    return variant;
  }
  variant.settings = ReadSettings(entry.value, where);
  return variant;
}

void ReadVariants(Study& study, const Tree& value, const std::string& origin) {
  RequireMap("variants", value, origin, "names, each with its keys");
  for (const TreeEntry& entry : value.entries) study.variants.push_back(ReadVariant(entry));
}

void ReadAxes(Study& study, const Tree& value, const std::string& origin) {
  RequireMap("axes", value, origin, "keys, each with its values");
  ForEachKey(value, "axes", [&](const config::Key& key, const TreeEntry& entry) {
    for (const Axis& axis : study.axes) {
      if (axis.key != key.path) continue;
      throw UserError(fmt::format("{}: axes.{}: given twice, first at {}; keep one", entry.origin,
                                  key.path, axis.origin));
    }
    study.axes.push_back(
        {key.path, entry.origin, ReadValues(key, entry.value, "axes." + key.path)});
  });
}

std::vector<Combination> ReadCombinations(const char* name, const Tree& value) {
  if (value.kind != Tree::Kind::kList) {
    throw UserError(
        fmt::format("{}: {}: expected a list of combinations, [{{key: value, …}}, …], "
                    "got {}",
                    value.origin, name, config::Describe(value)));
  }
  std::vector<Combination> combinations;
  for (const Tree& item : value.items) {
    const std::string where = fmt::format("{}[{}]", name, combinations.size());
    combinations.push_back({item.origin, ReadSettings(item, where)});
    if (combinations.back().settings.empty()) {
      throw UserError(fmt::format("{}: {}: names no keys", item.origin, where));
    }
  }
  return combinations;
}

std::string BesideTheStudy(const Study& study, const std::string& path) {
  return (std::filesystem::path(study.file).parent_path() / path).lexically_normal().string();
}

RunOrder ReadOrder(const Tree& value) {
  const std::string text = Text("order", value);
  if (text == "shuffled") return RunOrder::kShuffled;
  if (text == "written") return RunOrder::kWritten;
  throw UserError(fmt::format("{}: order: {} is not one of shuffled, written", value.origin,
                              config::Quote(text)));
}

std::string ReadMpirun(const Tree& value) {
  std::string text = Text("launch.mpirun", value);
  if (text.find("{ranks}") != text.npos) return text;
  throw UserError(
      fmt::format("{}: launch.mpirun: write {{ranks}} where the number of ranks belongs, "
                  "as in mpirun -np {{ranks}}",
                  value.origin));
}

std::vector<StudyKey> MakeKeys() {
  std::vector<StudyKey> keys;
  const auto add = [&](const char* path, const char* type, const char* default_text,
                       const char* doc, auto read) {
    keys.push_back({path, type, default_text, doc, read});
  };
  using S = Study&;
  using T = const Tree&;
  using O = const std::string&;
  add("base", "path", "required", "The run file that all rows vary; relative to the study file.",
      [](S study, T value, O) { study.base = BesideTheStudy(study, Text("base", value)); });
  add("title", "string", "the file's name", "Heading of the report.",
      [](S study, T value, O) { study.title = Text("title", value); });
  add("dir", "path", "`runs/` and the name of the file",
      "The study's directory: a run directory for each run, and the results.",
      [](S study, T value, O) { study.dir = Text("dir", value); });
  add("set", "keys of a run file", "none",
      "Over the base in all rows: sections (`train: {micro_batch: 8}`) or dotted keys.",
      [](S study, T value, O) { study.settings = ReadSettings(value, "set"); });
  add("variants", "map of names", "none",
      "Named rows, each with the keys that it changes, or `{}`: the base as it is. "
      "`{command: …}` is a program of another kind, whose last line of JSON is its row.",
      ReadVariants);
  add("axes", "map of keys", "none",
      "Keys of a run file, each with a list of values or a range: `{from, to, step}`, `{from, to, "
      "count}` or `{from, to, times}`. Every combination is a row, of every variant; seeds "
      "(`train.seed`, `model.seed`, `data.seed`) are runs of each row.",
      ReadAxes);
  add("exclude", "list of combinations", "none",
      "Rows in which all these keys have these values are left out.",
      [](S study, T value, O) { study.exclude = ReadCombinations("exclude", value); });
  add("include", "list of combinations", "none", "Further rows beside those of the grid.",
      [](S study, T value, O) { study.include = ReadCombinations("include", value); });
  add("baseline", "name of a row", "the first row", "What the others are compared with.",
      [](S study, T value, O origin) {
        study.baseline = Text("baseline", value);
        study.baseline_origin = origin;
      });
  add("repeats", "integer", "1", "Runs of every row, with each seed.",
      [](S study, T value, O) { study.repeats = Integer("repeats", value, 1, 1000); });
  add("order", "`shuffled`, `written`", "`shuffled`",
      "Of the runs; shuffled, what drifts over time falls on all rows alike.",
      [](S study, T value, O) { study.order = ReadOrder(value); });
  add("order_seed", "integer", "1", "Of the shuffled order.", [](S study, T value, O) {
    study.order_seed = Integer("order_seed", value, 0, std::numeric_limits<int64_t>::max());
  });
  add("measure.warmup", "integer", "3", "Steps at the start of a run whose times don't count.",
      [](S study, T value, O) { study.measure.warmup = Integer("measure.warmup", value, 0); });
  add("measure.steps", "integer", "20", "Steps after those, whose times count.",
      [](S study, T value, O) { study.measure.steps = Integer("measure.steps", value, 1); });
  add("measure.eval_every", "integer", "after the last step",
      "Steps between evaluations on held-out data, which are not timed; 0: none.",
      [](S study, T value, O) {
        study.measure.eval_every = Integer("measure.eval_every", value, 0);
      });
  add("measure.check_arena", "bool", "`true`",
      "Run one step of every row apart, with canaries: the arena bytes that are really used.",
      [](S study, T value, O) {
        study.measure.check_arena =
            std::get<bool>(ParseValue(Type::kBool, "measure.check_arena", value));
      });
  add("measure.repeat_unsteady", "bool", "`true`",
      "Run rows again, at most five times, whose times vary by more than 3 % (the range between "
      "the "
      "quartiles of their steps over the median), as they do where the machine is busy.",
      [](S study, T value, O) {
        study.measure.repeat_unsteady =
            std::get<bool>(ParseValue(Type::kBool, "measure.repeat_unsteady", value));
      });
  add("measure.profile", "bool", "`false`",
      "Run a few steps of every row apart, node by node: the time of collectives and copies, and "
      "what of it computing waited for.",
      [](S study, T value, O) {
        study.measure.profile = std::get<bool>(ParseValue(Type::kBool, "measure.profile", value));
      });
  add("broken.loss_above", "number", "not set",
      "A row whose last loss is above is marked as broken. One that is not finite always is.",
      [](S study, T value, O) { study.broken.loss_above = Positive("broken.loss_above", value); });
  add("broken.loss_difference", "number", "not set",
      "The same for a loss further than this share from the baseline's.", [](S study, T value, O) {
        study.broken.loss_difference = Positive("broken.loss_difference", value);
      });
  add("broken.seconds", "number", "not set", "A run that takes longer is ended.",
      [](S study, T value, O) { study.broken.seconds = Positive("broken.seconds", value); });
  add("launch.ranks", "integer", "by the mesh",
      "Ranks of every run, of which `parallel.data: auto` takes what other axes leave. Without it: "
      "`parallel.data` × `parallel.tensor` of each row.",
      [](S study, T value, O) { study.launch.ranks = Integer("launch.ranks", value, 1, 100'000); });
  add("launch.mpirun", "string", "`mpirun -np {ranks}`",
      "Command that starts a row of several ranks; its words stand before the program.",
      [](S study, T value, O) { study.launch.mpirun = ReadMpirun(value); });
  return keys;
}

}  // namespace

const std::vector<StudyKey>& StudyKeys() {
  static const std::vector<StudyKey> keys = MakeKeys();
  return keys;
}

}  // namespace plimsoll::studies
