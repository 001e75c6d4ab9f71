// Every study in configs/studies can be started unchanged.
#include <gtest/gtest.h>

#include <filesystem>

#include "studies/configure.h"
#include "trainer/settle/from_config.h"

namespace plimsoll::studies {
namespace {

TEST(ShippedStudies, HaveRowsThatCanRun) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("configs/studies")) {
    const std::string file = entry.path().string();
    const Study study = ParseStudy(config::ReadFile(file), file);
    const config::RunConfig base =
        trainer::LoadRun(study.base, {}, study.launch.ranks.value_or(1)).config;
    const std::vector<StudyRow> rows = ConfigureRows(study, ExpandGrid(study, base));
    EXPECT_GE(rows.size(), 3u) << file;
    for (const StudyRow& row : rows) {
      EXPECT_EQ(row.refused, "") << file << ": " << row.name;
    }
    ++files;
  }
  EXPECT_GE(files, 7);
}

}  // namespace
}  // namespace plimsoll::studies
