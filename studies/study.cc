#include "studies/study.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/spelling.h"
#include "studies/study_keys.h"

namespace plimsoll::studies {
namespace {

using config::Tree;
using config::TreeEntry;

const StudyKey* Find(const std::string& path) {
  for (const StudyKey& key : StudyKeys()) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

bool IsSection(const std::string& name) {
  for (const StudyKey& key : StudyKeys()) {
    if (key.path.starts_with(name + ".")) return true;
  }
  return false;
}

[[noreturn]] void Unknown(const std::string& path, const std::string& origin) {
  std::vector<std::string> known;
  std::set<std::string> sections;
  for (const StudyKey& key : StudyKeys()) {
    known.push_back(key.path);
    const size_t dot = key.path.find('.');
    if (dot == key.path.npos) continue;
    if (sections.insert(key.path.substr(0, dot)).second) known.push_back(key.path.substr(0, dot));
  }
  const std::string nearest = NearestName(path, known);
  throw UserError(fmt::format("{}: {}: unknown key{}", origin, config::ShowKey(path),
                              nearest.empty() ? "; plimsoll ablate --reference lists all keys"
                                              : fmt::format(", did you mean {}?", nearest)));
}

void Read(Study& study, const std::string& path, const TreeEntry& entry) {
  const StudyKey* key = Find(path);
  if (key == nullptr) Unknown(path, entry.origin);
  if (entry.value.kind == Tree::Kind::kNull) {
    throw UserError(fmt::format("{}: {}: has no value; give one or remove it", entry.origin, path));
  }
  key->read(study, entry.value, entry.origin);
}

void RefuseRunFiles(const Tree& document) {
  for (const TreeEntry& entry : document.entries) {
    if (entry.key != "model" && entry.key != "extends" && entry.key != "train") continue;
    throw UserError(fmt::format(
        "{}: {}: belongs in a run file; a study names one as `base` and varies it with `set`, "
        "`variants` and `axes`",
        entry.origin, entry.key));
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
  Study study;
  study.file = name;
  const std::string stem = std::filesystem::path(name).stem().string();
  study.title = stem;
  study.dir = "runs/" + stem;
  for (const TreeEntry& entry : document.entries) {
    if (!IsSection(entry.key)) {
      Read(study, entry.key, entry);
      continue;
    }
    if (entry.value.kind != Tree::Kind::kMap) {
      throw UserError(fmt::format("{}: {}: expected keys of this section, got {}", entry.origin,
                                  entry.key, config::Describe(entry.value)));
    }
    for (const TreeEntry& inner : entry.value.entries) {
      Read(study, entry.key + "." + inner.key, inner);
    }
  }
  if (study.base.empty()) {
    throw UserError(
        fmt::format("{}: base: missing; name the run file that the study varies", name));
  }
  return study;
}

std::string StudyReference() {
  std::string text = "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const StudyKey& key : StudyKeys()) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", key.path, key.type, key.default_text, key.doc);
  }
  return text;
}

}  // namespace plimsoll::studies
