#include "app/documentation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"
#include "tests/trainer/run_plimsoll.h"

namespace plimsoll::trainer {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kBudget =
    "# A budget in bytes\n\nAll of it.\n\n## When nothing fits\n\nIt is refused.\n\n"
    "```\n# no heading\n```\n\n### More\n\nDeeper.\n\n## The end\n\nLast.\n";

// docs/ as a program has it next to it.
struct PagesFolder {
  PagesFolder() {
    for (const char* folder : {"docs/configuration", "docs/how", "docs/measured", "docs/studies"}) {
      std::filesystem::create_directories(root / folder);
    }
    root.Write("docs/budget.md", kBudget);
    root.Write("docs/configuration.md", "# Configuration\n");
    root.Write("docs/configuration/memory.md", "# Keys of memory\n");
    root.Write("docs/commands.md", "# Commands\n");
    root.Write("docs/how/solver.md", "# How the solver works\n\n## Chains of blocks\n");
    root.Write("docs/how/kernels.md", "# How kernels work\n");
    root.Write("docs/measured/kernels.md", "# Kernels, measured\n");
    root.Write("docs/studies/README.md", "# Studies\n");
    root.Write("docs/picture.svg", "<svg/>");
  }
  Documentation Read() const { return Documentation(root / "docs"); }

  TempFolder root;
};

TEST(Documentation, ListsPagesOfSubfoldersLast) {
  EXPECT_THAT(PagesFolder().Read().List(),
              testing::StartsWith("budget                A budget in bytes\n"
                                  "commands              Commands\n"
                                  "configuration         Configuration\n"
                                  "studies               Studies\n"
                                  "configuration/memory  Keys of memory\n"
                                  "how/kernels           How kernels work\n"
                                  "how/solver            How the solver works\n"
                                  "measured/kernels      Kernels, measured\n"));
}

TEST(Documentation, FindsAPageByWhatLinksAndMessagesCallIt) {
  const PagesFolder folder;
  const Documentation documentation = folder.Read();
  for (const char* name :
       {"budget", "Budget", "budget.md", "docs/budget.md", "../budget.md#the-end"}) {
    const DocumentationPage* page = documentation.Find(name);
    ASSERT_NE(page, nullptr) << name;
    EXPECT_EQ(page->path, folder.root / "docs/budget.md");
  }
  EXPECT_EQ(documentation.Find("solver")->topic, "how/solver");
  EXPECT_EQ(documentation.Find("studies/README.md")->topic, "studies");
  EXPECT_EQ(documentation.Find("kernels"), nullptr);  // of two pages
  EXPECT_EQ(documentation.Find("picture"), nullptr);
}

TEST(Documentation, PrintsAPageAsItIsOrASectionOfIt) {
  const PagesFolder folder;
  EXPECT_EQ(folder.Read().Text("budget"), kBudget);
  EXPECT_EQ(folder.Read().Text("budget#when-nothing-fits"),
            "## When nothing fits\n\nIt is refused.\n\n```\n# no heading\n```\n\n### More\n\n"
            "Deeper.\n\n");
  ExpectUserError(
      [&] { folder.Read().Text("budget#wrong"); },
      {"no such section; it has budget#when-nothing-fits, budget#more, budget#the-end"});
}

TEST(Documentation, AnchorsAreThoseOfGitHub) {
  EXPECT_EQ(AnchorOf("ZeRO: dividing what all ranks have alike"),
            "zero-dividing-what-all-ranks-have-alike");
  EXPECT_EQ(AnchorOf("`--profile`"), "--profile");
  EXPECT_EQ(AnchorOf("1. The plan: before anything runs"), "1-the-plan-before-anything-runs");
}

TEST(Documentation, PrintsTheRowsOfKeys) {
  const PagesFolder folder;
  const Documentation documentation = folder.Read();
  EXPECT_THAT(documentation.Text("memory.budget"),
              testing::StartsWith("memory.budget\n  type: size\n  default: not set\n"
                                  "  meaning: Most memory the run may use: "));
  EXPECT_THAT(documentation.Text("device"),
              testing::StartsWith("device\n  type: `auto`, `cpu`, `cuda`\n  default: `auto`\n"));
  EXPECT_THAT(
      documentation.Text("model.tied"),
      testing::AllOf(HasSubstr("gpt2: true; llama"), HasSubstr("`model.family`: `gemma2`")));
  EXPECT_THAT(documentation.Text("amp.fp8"), testing::StartsWith("amp.fp8.recipe\n"));
  EXPECT_THAT(documentation.Text("memory"),  // not the page of that name
              testing::AllOf(HasSubstr("memory.budget\n"), HasSubstr("\nmemory.device\n"),
                             Not(HasSubstr("# Keys")), Not(HasSubstr("lora.rank"))));
  EXPECT_EQ(documentation.Text("configuration/memory"), "# Keys of memory\n");
  EXPECT_EQ(documentation.PageOf("memory.budget").topic, "configuration/memory");
  EXPECT_EQ(documentation.PageOf("extends").topic, "configuration");
}

TEST(Documentation, PrintsAWordOfTheGlossary) {
  const PagesFolder folder;
  folder.root.Write(
      "docs/glossary.md",
      "# Glossary\n\nWords.\n\n- **Arena**: the one\n  allocation.\n- **Max live**: most "
      "bytes.\n\nThe end.\n");
  EXPECT_EQ(folder.Read().Text("arena"), "**Arena**: the one\nallocation.\n");
  EXPECT_EQ(folder.Read().Text("max live"), "**Max live**: most bytes.\n");
  ExpectUserError([&] { folder.Read().Text("max"); }, {"no such topic"});
}

TEST(Documentation, NamesWhatIsNearAnUnknownTopic) {
  const PagesFolder folder;
  const auto refused = [&](const std::string& name) {
    return UserErrorOf([&] { folder.Read().Text(name); });
  };
  EXPECT_EQ(refused("budgte"),
            "plimsoll docs budgte: no such topic, key or word; near: budget; plimsoll docs lists "
            "all topics");
  EXPECT_THAT(refused("memory.buget"), HasSubstr("near: memory.budget;"));
  EXPECT_THAT(refused("kernels"), HasSubstr("how/kernels, measured/kernels;"));
  EXPECT_THAT(refused("chains"), HasSubstr("near: how/solver;"));  // in a heading
  EXPECT_EQ(refused("qqqq"),
            "plimsoll docs qqqq: no such topic, key or word; plimsoll docs lists all topics");
}

// A program that lies as in a wheel or an archive, bin/plimsoll next to docs/.
class DocsCommand : public testing::Test {
 protected:
  Outcome Run(const std::string& script) const {
    return RunShell(
        fmt::format("set -e; mkdir -p '{0}/bin' '{0}/elsewhere'\n"
                    "cp -L $PLIMSOLL '{0}/bin/plimsoll'; cd '{0}/elsewhere'\n"
                    "plimsoll='{0}/bin/plimsoll'; unset DISPLAY\n{1}",
                    folder_.root.path(), script));
  }

  const PagesFolder folder_;
};

TEST_F(DocsCommand, PrintsThePagesNextToTheProgram) {
  EXPECT_EQ(ExpectExit(0, Run("$plimsoll docs docs/budget.md")).out, kBudget);
  EXPECT_THAT(ExpectExit(0, Run("$plimsoll docs")).out, HasSubstr("measured/kernels      Kernels"));
  ExpectRefusal(Run("$plimsoll docs budgte"), {"near: budget"});
}

TEST_F(DocsCommand, OpensTheBuiltSiteElseTheFile) {
  const std::string open =
      "printf '#!/bin/sh\\necho opened $1\\n' >../bin/xdg-open; chmod +x ../bin/xdg-open\n"
      "PATH=$PWD/../bin:$PATH $plimsoll docs --open ";
  EXPECT_THAT(ExpectExit(0, Run(open + "budget")).out, HasSubstr("/docs/budget.md\n"));
  for (const char* folder : {"configuration", "studies"}) {
    std::filesystem::create_directories(folder_.root / std::string(".cache/docs/site/") + folder);
  }
  for (const char* page : {"index", "budget", "configuration/memory", "studies/index"}) {
    folder_.root.Write(fmt::format(".cache/docs/site/{}.html", page), "<html>");
  }
  EXPECT_THAT(ExpectExit(0, Run(open + "budget#the-end")).out,
              testing::ContainsRegex("opened file://.*/site/budget.html#the-end\n"));
  EXPECT_THAT(ExpectExit(0, Run(open + "studies")).out, HasSubstr("/site/studies/index.html\n"));
  EXPECT_THAT(ExpectExit(0, Run(open + "memory.budget")).out,
              HasSubstr("/site/configuration/memory.html\n"));
  EXPECT_THAT(ExpectExit(0, Run(open)).out, HasSubstr("/site/index.html\n"));
  ExpectRefusal(Run(open + "budgte"), {"near: budget"});
}

TEST_F(DocsCommand, SaysThatNoBrowserOpened) {
  ExpectRefusal(Run("printf '#!/bin/sh\\nexit 3\\n' >../bin/xdg-open; chmod +x ../bin/xdg-open\n"
                    "PATH=$PWD/../bin:$PATH $plimsoll docs --open budget"),
                {"xdg-open", "budget.md", "plimsoll docs TOPIC prints pages"});
}

}  // namespace
}  // namespace plimsoll::trainer
