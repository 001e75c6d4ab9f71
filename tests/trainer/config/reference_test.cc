// The pages of docs/ that are made of the schema: docs/configuration.md and docs/configuration/.

#include "trainer/config/reference.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"
#include "tests/trainer/config/load_text.h"
#include "trainer/config/schema.h"
#include "trainer/config/section_examples.h"

namespace plimsoll::config {
namespace {

using Cells = std::vector<std::string>;

constexpr const char* kRemedy = "run: plimsoll config --reference docs";

std::string TextOf(const std::string& path) {
  for (const ReferencePage& page : ReferencePages()) {
    if (page.path == path) return page.text;
  }
  ADD_FAILURE() << "no page " << path;
  return "";
}

// The rows of all tables of a page, each with the header of its table.
std::vector<std::pair<Cells, Cells>> RowsOf(const std::string& text) {
  std::vector<std::pair<Cells, Cells>> rows;
  Cells header;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Cells cells;
    if (line.starts_with("| ")) {
      std::istringstream parts(line.substr(1));
      for (std::string cell; std::getline(parts, cell, '|');) {
        cells.push_back(cell.substr(1, cell.size() - 2));
      }
    }
    if (!cells.empty() && cells[0] != "key") rows.emplace_back(header, cells);
    if (!line.starts_with("|") || (!cells.empty() && cells[0] == "key")) header = cells;
  }
  return rows;
}

// The lines of the first block of code, without their indent.
std::string ExampleOf(const std::string& text) {
  std::string example;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("    ")) example += line.substr(4) + "\n";
    if (!line.starts_with("    ") && !example.empty()) break;
  }
  return example;
}

TEST(Reference, CheckedInPagesAreCurrent) {
  for (const ReferencePage& page : ReferencePages()) {
    const std::string path = "docs/" + page.path;
    ASSERT_TRUE(std::filesystem::is_regular_file(path)) << path << " is missing; " << kRemedy;
    EXPECT_EQ(ReadFile(path), page.text) << path << ": " << kRemedy;
  }
}

TEST(Reference, NoOtherPagesAreCheckedIn) {
  std::set<std::string> made, found;
  for (const ReferencePage& page : ReferencePages()) made.insert("docs/" + page.path);
  for (const auto& file : std::filesystem::directory_iterator("docs/configuration")) {
    found.insert(file.path());
  }
  found.insert("docs/configuration.md");
  EXPECT_EQ(found, made) << "remove the others";
}

TEST(Reference, PagesHaveAtMost200Lines) {
  for (const ReferencePage& page : ReferencePages()) {
    EXPECT_LE(std::ranges::count(page.text, '\n'), 200) << page.path;
  }
}

TEST(Reference, EveryKeyHasItsMeaningOnceOnItsPage) {
  std::map<std::string, int> meanings;
  for (const ReferencePage& page : ReferencePages()) {
    for (const auto& [header, cells] : RowsOf(page.text)) {
      if (!header.empty() && header.back() == "meaning") ++meanings[page.path + " " + cells[0]];
    }
  }
  for (const KeyRow& row : KeyRows()) {
    EXPECT_EQ(meanings[fmt::format("{}.md `{}`", row.topic, row.key)], 1) << row.key;
  }
  EXPECT_EQ(meanings.size(), KeyRows().size());
  EXPECT_EQ(KeyRows().size(), Schema().size() + 1);  // extends
}

// Of a key that several families or sources have, each has a cell with its default, no other one.
TEST(Reference, OwnersAreColumns) {
  for (const std::string section : {"model", "data"}) {
    std::map<std::string, std::set<std::string>> with_default, without;
    for (const auto& [header, cells] : RowsOf(TextOf("configuration/" + section + ".md"))) {
      ASSERT_EQ(header.size(), cells.size()) << cells[0];
      if (header.back() == "meaning") continue;
      for (size_t i = 1; i < cells.size(); ++i) {
        (cells[i] == "–" ? without : with_default)[cells[0]].insert(header[i]);
      }
    }
    for (const Key& key : Schema()) {
      if (key.Section() != section || key.owners.size() < 2) continue;
      std::set<std::string> owners;
      for (const std::string& owner : key.owners) owners.insert("`" + owner + "`");
      EXPECT_EQ(with_default["`" + key.path + "`"], owners) << key.path;
      for (const std::string& owner : without["`" + key.path + "`"]) {
        EXPECT_FALSE(owners.contains(owner)) << key.path;
      }
    }
    EXPECT_GT(with_default.size(), 10u);
  }
}

TEST(Reference, DefaultsOfFamilies) {
  const std::string model = TextOf("configuration/model.md");
  EXPECT_THAT(model, testing::HasSubstr("\n| key | `bert` | `gpt2` | `vit` |\n"));
  EXPECT_THAT(model, testing::HasSubstr("\n| `model.tied` | – | `true` | – |\n"));
  EXPECT_THAT(model, testing::HasSubstr("\n| `model.activation` | `gelu_erf` | `gelu_tanh` | "
                                        "`gelu_erf` |\n"));
}

// Each on top of a small run, for four ranks.
TEST(Reference, ExamplesLoad) {
  for (const SectionInfo& section : Sections()) {
    if (section.name == kObjectives) continue;
    const std::string example = ExampleOf(TextOf(fmt::format("configuration/{}.md", section.name)));
    EXPECT_EQ(example, SectionExample(section.name) + "\n");
    const auto read = [](const std::string&) { return kBase; };
    const Loaded loaded =
        LoadText("extends: base.yaml\n" + example, section.name, {}, RankCount(4), read);
    // Adapters for a model that starts at random are warned of.
    EXPECT_THAT(loaded.warnings, testing::Each(testing::HasSubstr("its model starts at random")))
        << section.name;
  }
  const TempFolder folder;
  folder.Write("run.yaml", ExampleOf(TextOf("configuration.md")));
  EXPECT_THAT(Load(folder / "run.yaml").warnings, testing::IsEmpty());
}

TEST(Reference, PagesThatKeysNameAreLinks) {
  EXPECT_THAT(TextOf("configuration/divergence.md"),
              testing::HasSubstr("diverges ([divergence.md](../divergence.md))."));
  EXPECT_THAT(TextOf("configuration/data.md"),
              testing::HasSubstr("([fine_tuning.md](../fine_tuning.md#chats))"));
  EXPECT_THAT(TextOf("configuration.md"),
              testing::HasSubstr("diverges ([divergence.md](divergence.md))."));
}

}  // namespace
}  // namespace plimsoll::config
