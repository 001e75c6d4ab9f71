#include "studies/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/spelling.h"
#include "studies/values.h"
#include "trainer/config/value.h"

namespace plimsoll::studies {
namespace {

using config::ParseValue;
using config::Tree;
using config::TreeEntry;
using config::Type;

// A key of a study file: its path, its value, and its position in the file.
using Given = const TreeEntry&;

// The schema: one row per key. It drives parsing, suggestions and the reference.
struct StudyKey {
  std::string_view path;  // "measure.warmup"
  const char* type;       // type shown in the reference
  const char* default_text;
  const char* doc;                    // one sentence, Markdown
  void (*read)(Study& study, Given);  // checks and stores the value
};

int64_t Integer(Given given, int64_t min, int64_t max = 1'000'000) {
  const auto number = std::get<int64_t>(ParseValue(Type::kInt, given.key, given.value));
  if (number >= min && number <= max) return number;
  RefuseAt(given.value.origin, given.key,
           fmt::format("{} is out of range; it must be between {} and {}", number, min, max));
}

double Positive(Given given) {
  const auto number = std::get<double>(ParseValue(Type::kFloat, given.key, given.value));
  if (number > 0) return number;
  RefuseAt(given.value.origin, given.key,
           fmt::format("{} is out of range; it must be above 0", number));
}

bool Bool(Given given) { return std::get<bool>(ParseValue(Type::kBool, given.key, given.value)); }

std::string Text(Given given) {
  auto text = std::get<std::string>(ParseValue(Type::kString, given.key, given.value));
  if (text.empty()) RefuseAt(given.value.origin, given.key, "is empty");
  return text;
}

void RequireMap(Given given, const char* what) {
  RequireKind(Tree::Kind::kMap, what, given.origin, given.key, given.value);
  if (given.value.entries.empty()) {
    RefuseAt(given.origin, given.key, fmt::format("expected {}, got none", what));
  }
}

Variant ReadVariant(const TreeEntry& entry) {
  const std::string where = "variants." + config::ShowKey(entry.key);
  Variant variant{.name = entry.key, .origin = entry.origin, .settings = {}, .command = ""};
  for (const TreeEntry& inner : entry.value.entries) {
    if (inner.key != "command") continue;
    variant.command = Text({where + ".command", inner.origin, inner.value});
    if (entry.value.entries.size() == 1) return variant;
    RefuseAt(inner.origin, where + ".command",
             "must be the only key: another program takes no keys of a run file");
  }
  variant.settings = ReadSettings(entry.value, where);
  return variant;
}

void ReadVariants(Study& study, Given given) {
  RequireMap(given, "names, each with its keys");
  for (const TreeEntry& entry : given.value.entries) study.variants.push_back(ReadVariant(entry));
}

void ReadAxes(Study& study, Given given) {
  RequireMap(given, "keys, each with its values");
  ForEachKey(given.value, "axes", [&](const config::Key& key, const TreeEntry& entry) {
    for (const Axis& axis : study.axes) {
      if (axis.key != key.path) continue;
      RefuseAt(entry.origin, "axes." + key.path,
               "given twice, first at " + axis.origin + "; keep one");
    }
    study.axes.push_back(
        {key.path, entry.origin, ReadValues(key, entry.value, "axes." + key.path)});
  });
}

std::vector<Combination> ReadCombinations(Given given) {
  RequireKind(Tree::Kind::kList, "a list of combinations, [{key: value, …}, …]", given.value.origin,
              given.key, given.value);
  std::vector<Combination> combinations;
  for (const Tree& item : given.value.items) {
    const std::string where = fmt::format("{}[{}]", given.key, combinations.size());
    combinations.push_back({item.origin, ReadSettings(item, where)});
    if (combinations.back().settings.empty()) RefuseAt(item.origin, where, "names no keys");
  }
  return combinations;
}

std::string BesideTheStudy(const Study& study, const std::string& path) {
  return (std::filesystem::path(study.file).parent_path() / path).lexically_normal().string();
}

RunOrder ReadOrder(Given given) {
  const std::string text = Text(given);
  if (text == "shuffled") return RunOrder::kShuffled;
  if (text == "written") return RunOrder::kWritten;
  RefuseAt(given.value.origin, given.key, config::Quote(text) + " is not one of shuffled, written");
}

std::string ReadMpirun(Given given) {
  std::string text = Text(given);
  if (text.find("{ranks}") != text.npos) return text;
  RefuseAt(given.value.origin, given.key,
           "write {ranks} where the number of ranks belongs, as in mpirun -np {ranks}");
}

using S = Study&;
using G = Given;

const StudyKey kStudyKeys[] = {
    {"base", "path", "required", "The run file that all rows vary; relative to the study file.",
     [](S s, G g) { s.base = BesideTheStudy(s, Text(g)); }},
    {"title", "string", "the file's name", "Heading of the report.",
     [](S s, G g) { s.title = Text(g); }},
    {"dir", "path", "`runs/` and the name of the file",
     "The study's directory: a run directory for each run, and the results.",
     [](S s, G g) { s.dir = Text(g); }},
    {"set", "keys of a run file", "none",
     "Over the base in all rows: sections (`train: {micro_batch: 8}`) or dotted keys.",
     [](S s, G g) { s.settings = ReadSettings(g.value, g.key); }},
    {"variants", "map of names", "none",
     "Named rows, each with the keys that it changes, or `{}`: the base as it is. "
     "`{command: …}` is a program of another kind, whose last line of JSON is its row.",
     ReadVariants},
    {"axes", "map of keys", "none",
     "Keys of a run file, each with a list of values or a range: `{from, to, step}`, `{from, to, "
     "count}` or `{from, to, times}`. Every combination is a row, of every variant; seeds "
     "(`train.seed`, `model.seed`, `data.seed`) are runs of each row.",
     ReadAxes},
    {"exclude", "list of combinations", "none",
     "Rows in which all these keys have these values are left out.",
     [](S s, G g) { s.exclude = ReadCombinations(g); }},
    {"include", "list of combinations", "none", "Further rows, in addition to those of the grid.",
     [](S s, G g) { s.include = ReadCombinations(g); }},
    {"baseline", "name of a row", "the first row", "What the others are compared with.",
     [](S s, G g) {
       s.baseline = Text(g);
       s.baseline_origin = g.origin;
     }},
    {"repeats", "integer", "1", "Runs of every row, with each seed.",
     [](S s, G g) { s.repeats = Integer(g, 1, 1000); }},
    {"order", "`shuffled`, `written`", "`shuffled`",
     "Of the runs; shuffled, what drifts over time falls on all rows alike.",
     [](S s, G g) { s.order = ReadOrder(g); }},
    {"order_seed", "integer", "1", "Of the shuffled order.",
     [](S s, G g) { s.order_seed = Integer(g, 0, std::numeric_limits<int64_t>::max()); }},
    {"measure.warmup", "integer", "3", "Steps at the start of a run whose times don't count.",
     [](S s, G g) { s.measure.warmup = Integer(g, 0); }},
    {"measure.steps", "integer", "20", "Steps after those, whose times count.",
     [](S s, G g) { s.measure.steps = Integer(g, 1); }},
    {"measure.eval_every", "integer", "after the last step",
     "Steps between evaluations on held-out data, which are not timed; 0: none.",
     [](S s, G g) { s.measure.eval_every = Integer(g, 0); }},
    {"measure.check_arena", "bool", "`true`",
     "Run one step of every row apart, with canaries: the arena bytes that are really used.",
     [](S s, G g) { s.measure.check_arena = Bool(g); }},
    {"measure.repeat_unsteady", "bool", "`true`",
     "Run rows again, at most five times, whose times vary by more than 3 % (the range between "
     "the quartiles of their steps over the median), as they do where the machine is busy.",
     [](S s, G g) { s.measure.repeat_unsteady = Bool(g); }},
    {"measure.profile", "bool", "`false`",
     "Run a few steps of every row apart, node by node: the time of collectives and copies, and "
     "what of it computing waited for.",
     [](S s, G g) { s.measure.profile = Bool(g); }},
    {"broken.loss_above", "number", "not set",
     "A row whose last loss is above is marked as broken. One that is not finite always is.",
     [](S s, G g) { s.broken.loss_above = Positive(g); }},
    {"broken.loss_difference", "number", "not set",
     "The same for a loss further than this share from the baseline's.",
     [](S s, G g) { s.broken.loss_difference = Positive(g); }},
    {"broken.seconds", "number", "not set", "A run that takes longer is ended.",
     [](S s, G g) { s.broken.seconds = Positive(g); }},
    {"launch.ranks", "integer", "by the mesh",
     "Ranks of every run, of which `parallel.data: auto` takes what other axes leave. Without it: "
     "`parallel.data` × `parallel.tensor` × `parallel.pipeline` of each row.",
     [](S s, G g) { s.launch.ranks = Integer(g, 1, 100'000); }},
    {"launch.mpirun", "string", "`mpirun -np {ranks}`",
     "Command that starts a row of several ranks; its words come before the program.",
     [](S s, G g) { s.launch.mpirun = ReadMpirun(g); }},
};

// The section of a key ("measure"); empty if it has no section.
std::string SectionOf(const StudyKey& key) {
  const size_t dot = key.path.find('.');
  return std::string(key.path.substr(0, dot == key.path.npos ? 0 : dot));
}

[[noreturn]] void Unknown(Given given) {
  std::vector<std::string> known;
  std::set<std::string> sections = {""};
  for (const StudyKey& key : kStudyKeys) {
    known.emplace_back(key.path);
    if (sections.insert(SectionOf(key)).second) known.push_back(SectionOf(key));
  }
  RefuseUnknown(given.origin, config::ShowKey(given.key), NearestName(given.key, known), "ablate");
}

void Read(Study& study, Given given) {
  const auto key = std::ranges::find(kStudyKeys, given.key, &StudyKey::path);
  if (key == std::end(kStudyKeys)) Unknown(given);
  if (given.value.kind == Tree::Kind::kNull) {
    RefuseAt(given.origin, given.key, "has no value; give one or remove it");
  }
  key->read(study, given);
}

void RefuseRunFiles(const Tree& document) {
  for (const TreeEntry& entry : document.entries) {
    if (entry.key != "model" && entry.key != "extends" && entry.key != "train") continue;
    RefuseAt(entry.origin, entry.key,
             "belongs in a run file; a study names one as `base` and varies it with `set`, "
             "`variants` and `axes`");
  }
}

}  // namespace

Study ParseStudy(const std::string& text, const std::string& name) {
  Tree document = config::ParseYaml(text, name);
  config::ExpandEnvironment(document);
  if (document.kind != Tree::Kind::kMap) {
    throw UserError(fmt::format("{}: expected the keys of a study (base: …), got {}", name,
                                config::Describe(document)));
  }
  RefuseRunFiles(document);
  const std::string stem = std::filesystem::path(name).stem().string();
  Study study;
  study.file = name;
  study.title = stem;
  study.dir = "runs/" + stem;
  for (const TreeEntry& entry : document.entries) {
    if (entry.key.empty() ||
        std::ranges::find(kStudyKeys, entry.key, SectionOf) == std::end(kStudyKeys)) {
      Read(study, entry);
      continue;
    }
    RequireKind(Tree::Kind::kMap, "keys of this section", entry.origin, entry.key, entry.value);
    for (const TreeEntry& inner : entry.value.entries) {
      Read(study, {entry.key + "." + inner.key, inner.origin, inner.value});
    }
  }
  if (study.base.empty()) {
    RefuseAt(name, "base", "missing; name the run file that the study varies");
  }
  return study;
}

std::string StudyReference() {
  std::string text = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const StudyKey& key : kStudyKeys) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", key.path, key.type, key.default_text, key.doc);
  }
  return text;
}

}  // namespace plimsoll::studies
