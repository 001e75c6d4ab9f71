// docs/how/checkpointing.md shows programs before and after each pass. They are the passes' golden
// programs: a block ```program starts with a new program; ```tags, ```recompute and ```offload are
// the results of that pass on the program before.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "checkpointing/offload.h"
#include "checkpointing/recompute.h"
#include "checkpointing/retention_policy.h"
#include "tests/graph/expect_program.h"

namespace plimsoll::checkpointing {
namespace {

struct Block {
  int line;
  std::string language, arguments, text;
};

std::vector<Block> ReadBlocks(const std::string& path) {
  std::ifstream file(path);
  std::vector<Block> blocks;
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      if (!inside) continue;
      const size_t space = std::min(line.find(' '), line.size());
      blocks.push_back({number, line.substr(3, space - 3), line.substr(space), ""});
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  EXPECT_FALSE(inside) << path << " ends within a block";
  return blocks;
}

// "block", "selective activations", "none offload=*".
Options OptionsFrom(const std::string& arguments) {
  Options options;
  std::istringstream words(arguments);
  for (std::string word; words >> word;) {
    if (word == "block") {
      options.policy = Options::Policy::kBlock;
    } else if (word == "selective") {
      options.policy = Options::Policy::kSelective;
    } else if (word.starts_with("offload=")) {
      options.offload.patterns.push_back(word.substr(8));
    } else if (word != "none") {
      options.recompute.patterns.push_back(word);
    }
  }
  return options;
}

std::unique_ptr<graph::Pass> PassOf(const Block& block) {
  if (block.language == "tags") {
    return std::make_unique<TagActivations>(OptionsFrom(block.arguments));
  }
  if (block.language == "recompute") return std::make_unique<Recompute>();
  if (block.language == "offload") return std::make_unique<Offload>();
  return nullptr;
}

TEST(CheckpointingDocs, ShowWhatThePassesPrint) {
  graph::Program program;
  int compared = 0;
  for (const Block& block : ReadBlocks("docs/how/checkpointing.md")) {
    SCOPED_TRACE("docs/how/checkpointing.md:" + std::to_string(block.line));
    if (block.language == "program") {
      program = graph::Parse(block.text);
      continue;
    }
    const std::unique_ptr<graph::Pass> pass = PassOf(block);
    if (pass == nullptr) continue;
    EXPECT_TRUE(pass->Run(program).changed);
    graph::Verify(program);
    EXPECT_EQ(ToText(program), block.text);
    ++compared;
  }
  EXPECT_GE(compared, 6);
}

}  // namespace
}  // namespace plimsoll::checkpointing
