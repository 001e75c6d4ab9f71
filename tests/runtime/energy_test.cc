#include "runtime/energy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace plimsoll::runtime {
namespace {

// Zones as Linux shows them: a folder each, with parts of a package as zones of their own.
void AddZone(const TempFolder& folder, const std::string& zone, const std::string& name,
             const std::string& microjoules) {
  std::filesystem::create_directory(folder / zone);
  folder.Write(zone + "/name", name + "\n");
  folder.Write(zone + "/energy_uj", microjoules + "\n");
  folder.Write(zone + "/max_energy_range_uj", "1000000000\n");
}

TEST(Rapl, AddsThePackagesAndLeavesTheirPartsOut) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "intel-rapl");  // the control type: no name
  AddZone(folder, "intel-rapl:0", "package-0", "5000000");
  AddZone(folder, "intel-rapl:0:0", "core", "1000000");
  AddZone(folder, "intel-rapl:1", "package-1", "7000000");
  AddZone(folder, "intel-rapl:2", "psys", "90000000");
  const FoundEnergyCounter found = FindRapl(folder.path());
  ASSERT_TRUE(found.counter) << found.problem;
  EXPECT_EQ(found.counter->Counts(), "package-0, package-1, by RAPL, with all that runs there");
  const double before = found.counter->Joules().value();
  AddZone(folder, "intel-rapl:0", "package-0", "8000000");
  AddZone(folder, "intel-rapl:0:0", "core", "3000000");
  AddZone(folder, "intel-rapl:1", "package-1", "7500000");
  EXPECT_DOUBLE_EQ(found.counter->Joules().value() - before, 3.5);
}

TEST(Rapl, CountsOnBehindAWrap) {
  const TempFolder folder;
  AddZone(folder, "intel-rapl:0", "package-0", "999000000");
  const FoundEnergyCounter found = FindRapl(folder.path());
  ASSERT_TRUE(found.counter) << found.problem;
  const double before = found.counter->Joules().value();
  AddZone(folder, "intel-rapl:0", "package-0", "2000000");
  EXPECT_DOUBLE_EQ(found.counter->Joules().value() - before, 3.0);
  AddZone(folder, "intel-rapl:0", "package-0", "2500000");
  EXPECT_DOUBLE_EQ(found.counter->Joules().value() - before, 3.5);
}

TEST(Rapl, SaysWhyThereIsNone) {
  const TempFolder folder;
  EXPECT_EQ(FindRapl(folder / "absent").problem,
            "this machine shows no energy counters (RAPL) in " + folder / "absent");
  AddZone(folder, "intel-rapl:0", "package-0", "");
  const FoundEnergyCounter unreadable = FindRapl(folder.path());
  EXPECT_FALSE(unreadable.counter);
  EXPECT_NE(unreadable.problem.find("intel-rapl:0/energy_uj: cannot be read"), std::string::npos)
      << unreadable.problem;
}

TEST(Rapl, ACounterThatGoesAwayGivesNothing) {
  const TempFolder folder;
  AddZone(folder, "intel-rapl:0", "package-0", "1000000");
  const FoundEnergyCounter found = FindRapl(folder.path());
  ASSERT_TRUE(found.counter) << found.problem;
  std::filesystem::remove_all(folder / "intel-rapl:0");
  EXPECT_FALSE(found.counter->Joules());
}

TEST(EnergyCounter, IsThereOrSaysWhyNot) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    const FoundEnergyCounter found = FindEnergyCounter(kind);
    EXPECT_EQ(found.counter == nullptr, !found.problem.empty());
    if (found.counter) {
      EXPECT_TRUE(found.counter->Joules());
      EXPECT_FALSE(found.counter->Counts().empty());
    }
  }
}

}  // namespace
}  // namespace plimsoll::runtime
