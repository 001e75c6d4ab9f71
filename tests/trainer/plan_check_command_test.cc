// `plimsoll plan --check`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainer/budget_command.h"

namespace plimsoll {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

using PlanCheck = BudgetCommand;

TEST_F(PlanCheck, EndsThePlanWithWhatItProved) {
  const std::vector<std::string> mesh = {"--set", "parallel.data=2", "--set", "parallel.zero=1"};
  std::vector<std::string> arguments = mesh;
  arguments.push_back("--check");
  const Outcome outcome = ExpectExit(0, Plan(arguments));
  EXPECT_THAT(outcome.out, HasSubstr("\nchecked 2 ranks: "));
  EXPECT_THAT(outcome.out, HasSubstr(" meet in an order that cannot deadlock; arenas are"));
  const nlohmann::json check = PlanJson(arguments).at("check");
  EXPECT_EQ(check.at("ranks"), 2);
  EXPECT_GT(check.at("collectives"), 0);
  EXPECT_EQ(check.at("pairs"), 0);
  EXPECT_THAT(outcome.out,
              HasSubstr(std::to_string(check.at("collectives").get<int>()) + " collectives in "));
  EXPECT_FALSE(PlanJson(mesh).contains("check"));
}

TEST_F(PlanCheck, IsOfTheChosenPlanWithinABudget) {
  const nlohmann::json plan =
      PlanJson({"--check", "--budget", "1GiB", "--set", "parallel.tensor=2"});
  EXPECT_EQ(plan.at("check").at("ranks"), 2);
  EXPECT_TRUE(plan.contains("candidates"));
}

TEST_F(PlanCheck, OfOneRankHasNothingToMeet) {
  EXPECT_THAT(ExpectExit(0, Plan({"--check"})).out,
              EndsWith("checked 1 rank: it waits for no other; its arena is sound\n"));
}

TEST_F(PlanCheck, RefusesManyRanksAndOtherQuestions) {
  ExpectError(Plan({"--check", "--set", "parallel.data=65"}), 2,
              {"--check", "at most 64", "the mesh has 65"});
  for (const std::vector<std::string>& other :
       std::vector<std::vector<std::string>>{{"--ranks", "2"}, {"--sweep", "2"}}) {
    ExpectError(Plan({"--check", other[0], other[1]}), 2, {"--check is of one plan"});
  }
}

}  // namespace
}  // namespace plimsoll
