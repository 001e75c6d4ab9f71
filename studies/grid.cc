#include "studies/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/error.h"
#include "base/spelling.h"
#include "studies/values.h"
#include "trainer/config/schema.h"
#include "trainer/config/value.h"

namespace plimsoll::studies {
namespace {

constexpr int64_t kMostRows = 100'000;

// The last word of a key, unless two axes share it; then the whole key.
std::string LabelOf(const std::string& key, const std::vector<Axis>& axes) {
  const auto leaf = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  const auto same = std::count_if(axes.begin(), axes.end(),
                                  [&](const Axis& axis) { return leaf(axis.key) == leaf(key); });
  return same > 1 ? key : leaf(key);
}

void Overlay(const KeyTrees& layer, KeyTrees& settings) {
  for (const auto& [key, value] : layer) settings[key] = value;
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

bool Has(const KeyTrees& settings, const config::RunConfig& base, const std::string& key,
         const config::Tree& value) {
  const auto found = settings.find(key);
  if (found != settings.end()) return SetArgument(key, found->second) == SetArgument(key, value);
  if (value.kind == config::Tree::Kind::kNull) return !base.IsSet(key);
  const config::Key& row_of_schema = *config::FindKey(key);
  return row_of_schema.get(base) == config::ParseKey(row_of_schema, value);
}

bool Matches(const KeyTrees& settings, const config::RunConfig& base, const Combination& pattern) {
  return std::all_of(pattern.settings.begin(), pattern.settings.end(), [&](const auto& setting) {
    return Has(settings, base, setting.first, setting.second);
  });
}

// All combinations of the axes' values, in the order of counting; one empty combination without
// axes.
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

bool HasRun(const GridRow& row, const std::vector<std::string>& sets) {
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

  std::vector<GridRow> Rows() {
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
      rows_.push_back({.name = variant.name,
                       .folder = "",
                       .settings = {},
                       .command = variant.command,
                       .axes = {},
                       .seeds = seeds_});
      return;
    }
    for (const KeyTrees& combination : Combinations(axes_)) {
      rows_.push_back(RowAt(variant, combination));
    }
  }

  GridRow RowAt(const Variant& variant, const KeyTrees& combination) const {
    GridRow row;
    row.name = variant.name;
    row.settings = study_.settings;
    row.seeds = seeds_;
    Overlay(variant.settings, row.settings);
    Overlay(combination, row.settings);
    for (const Axis* axis : axes_) {
      row.axes.emplace_back(axis->key, ShortText(axis->key, combination.at(axis->key)));
      row.name += fmt::format("{}{}={}", row.name.empty() ? "" : ", ",
                              LabelOf(axis->key, study_.axes), row.axes.back().second);
    }
    if (row.name.empty()) row.name = "base";  // all axes are seeds
    return row;
  }

  void Exclude() {
    for (size_t i = 0; i < study_.exclude.size(); ++i) {
      const Combination& pattern = study_.exclude[i];
      size_t left_out = 0;
      for (GridRow& row : rows_) {
        if (!row.command.empty()) continue;
        left_out += std::erase_if(row.seeds, [&](const KeyTrees& seed) {
          KeyTrees settings = row.settings;
          Overlay(seed, settings);
          return Matches(settings, base_, pattern);
        });
      }
      std::erase_if(rows_, [](const GridRow& row) { return row.seeds.empty(); });
      if (left_out == 0) {
        throw UserError(fmt::format("{}: exclude[{}]: no row is like that", pattern.origin, i));
      }
    }
  }

  void Include(const Combination& combination) {
    GridRow row;
    row.settings = study_.settings;
    Overlay(combination.settings, row.settings);
    const bool names_seed = std::ranges::any_of(
        combination.settings, [](const auto& setting) { return IsSeed(setting.first); });
    if (!names_seed) row.seeds = seeds_;
    for (const auto& [key, value] : combination.settings) {
      const std::string text = ShortText(key, value);
      row.name +=
          fmt::format("{}{}={}", row.name.empty() ? "" : ", ", LabelOf(key, study_.axes), text);
      row.axes.emplace_back(key, text);
    }
    for (const GridRow& other : rows_) {
      if (other.command.empty() && HasRun(other, row.Sets())) {
        throw UserError(fmt::format("{}: include: the row \"{}\" is there already",
                                    combination.origin, other.name));
      }
    }
    rows_.push_back(std::move(row));
  }

  void RequireDifferentNames() const {
    std::map<std::string, int> names;
    for (const GridRow& row : rows_) {
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
    for (const GridRow& row : rows_) {
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
  std::vector<const Axis*> axes_;  // except for seeds
  std::vector<KeyTrees> seeds_;
  std::vector<GridRow> rows_;
};

}  // namespace

std::vector<std::string> GridRow::Sets(size_t seed) const {
  KeyTrees all = settings;
  Overlay(seeds[seed], all);
  return SetsOf(all);
}

std::vector<std::string> SetsOf(const KeyTrees& settings) {
  std::vector<std::string> sets;
  for (const auto& [key, value] : settings) sets.push_back(SetArgument(key, value));
  return sets;
}

bool IsSeed(const std::string& key) {
  return key == "train.seed" || key == "model.seed" || key == "data.seed";
}

int64_t GridSize(const Study& study) {
  constexpr int64_t kCap = 1'000'000'000;
  int64_t size = 1;
  for (const Axis& axis : study.axes) {
    size = std::min(kCap, size * static_cast<int64_t>(axis.values.size()));
  }
  int64_t commands = 0;
  for (const Variant& variant : study.variants) commands += !variant.command.empty();
  const auto variants = static_cast<int64_t>(study.variants.size()) - commands;
  if (study.variants.empty()) return size;
  return std::min(kCap, size * variants + commands);
}

std::vector<GridRow> ExpandGrid(const Study& study, const config::RunConfig& base) {
  const int64_t size = GridSize(study);
  if (size > kMostRows) {
    throw UserError(
        fmt::format("{}: a grid of {} rows; a study has at most {}: shorten some axes, "
                    "or list rows as `variants` or `include`",
                    study.file, size, kMostRows));
  }
  return Expander(study, base).Rows();
}

}  // namespace plimsoll::studies
