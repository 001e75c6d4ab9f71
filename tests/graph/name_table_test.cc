#include "graph/name_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace plimsoll::graph {
namespace {

class NameTableTest : public testing::Test {
 protected:
  TensorId Add(const std::string& name) {
    const TensorId id = static_cast<TensorId>(tensors_.size());
    table_.Insert(name, id);
    tensors_.emplace_back().name = name;
    known_[name] = id;
    return id;
  }
  void Erase(const std::string& name) {
    table_.Erase(name, tensors_);
    known_.erase(name);
  }
  void ExpectAll() {
    for (int i = 0; i < kNames; ++i) {
      const std::string name = NameOf(i);
      const auto found = known_.find(name);
      ASSERT_EQ(table_.Find(name, tensors_), found == known_.end() ? kNoTensor : found->second);
    }
  }
  static std::string NameOf(int i) { return "block." + std::to_string(i) + ".weight"; }

  static constexpr int kNames = 300;
  NameTable table_;
  std::vector<Tensor> tensors_;
  std::map<std::string, TensorId> known_;
};

TEST_F(NameTableTest, FindsNothingWhileEmpty) {
  EXPECT_EQ(table_.Find("x", tensors_), kNoTensor);
  Add("x");
  Erase("x");
  EXPECT_EQ(table_.Find("x", tensors_), kNoTensor);
}

TEST_F(NameTableTest, FindsWhatIsInIt) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::string name = NameOf(static_cast<int>(random() % kNames));
    known_.contains(name) ? Erase(name) : static_cast<void>(Add(name));
    if (round % 50 == 0) ExpectAll();
  }
  ExpectAll();
}

TEST_F(NameTableTest, RenumbersAndForgets) {
  for (int i = 0; i < kNames; ++i) Add(NameOf(i));
  std::vector<TensorId> renumbered(kNames, kNoTensor);
  std::vector<Tensor> kept;
  known_.clear();
  for (int i = 0; i < kNames; i += 3) {
    renumbered[i] = static_cast<TensorId>(kept.size());
    known_[NameOf(i)] = renumbered[i];
    kept.push_back(tensors_[i]);
  }
  tensors_ = kept;
  table_.Renumber(renumbered);
  ExpectAll();
  Add("another");
  EXPECT_EQ(table_.Find("another", tensors_), known_["another"]);
}

TEST_F(NameTableTest, IsCopiedWithItsProgram) {
  for (int i = 0; i < 10; ++i) Add(NameOf(i));
  const NameTable copy = table_;
  const std::vector<Tensor> tensors = tensors_;
  Erase(NameOf(3));
  EXPECT_EQ(copy.Find(NameOf(3), tensors), 3);
}

}  // namespace
}  // namespace plimsoll::graph
