// plimsoll config --reference: all keys, printed or as pages in a folder.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"
#include "trainer/config/reference.h"

namespace plimsoll::trainer {
namespace {

class ReferenceCommand : public testing::Test {
 protected:
  Outcome Run(const std::string& command) const {
    return RunShell("PLIMSOLL=$PWD/$PLIMSOLL; cd " + folder_.path() + "; " + command);
  }

  const TempFolder folder_;
};

TEST_F(ReferenceCommand, PrintsAllKeys) {
  const std::string printed = ExpectExit(0, Run("$PLIMSOLL config --reference")).out;
  for (const config::ReferencePage& page : config::ReferencePages()) {
    EXPECT_THAT(printed, testing::HasSubstr(page.text)) << page.path;
  }
}

TEST_F(ReferenceCommand, WritesThePagesIntoAFolder) {
  const Outcome outcome = ExpectExit(0, Run("mkdir pages && $PLIMSOLL config --reference pages"));
  EXPECT_EQ(outcome.out, "");
  for (const config::ReferencePage& page : config::ReferencePages()) {
    EXPECT_EQ(ReadFile(folder_ / ("pages/" + page.path)), page.text) << page.path;
  }
}

TEST_F(ReferenceCommand, RefusesWhatIsNoFolder) {
  ExpectRefusal(Run("touch run.yaml && $PLIMSOLL config --reference run.yaml"),
                {"run.yaml", "is no folder"});
  ExpectRefusal(Run("$PLIMSOLL config --reference nowhere"), {"nowhere: is no folder"});
}

}  // namespace
}  // namespace plimsoll::trainer
