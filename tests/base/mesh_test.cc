#include "base/mesh.h"

#include <gtest/gtest.h>

#include "base/axes.h"
#include "tests/support/expect_error.h"

namespace plimsoll {
namespace {

using Ranks = std::vector<int64_t>;

MeshAxis ContextAxis(int64_t ranks) { return {.name = "context", .ranks = ranks}; }

// rank = data coordinate · tensor ranks + tensor coordinate: snapshots and logs use this numbering.
TEST(Mesh, RanksOfATensorGroupAreNeighbours) {
  const Mesh mesh({DataAxis(3), TensorAxis(2)});
  EXPECT_EQ(mesh.size(), 6);
  for (int64_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(mesh.Coordinate(rank, "data"), rank / 2);
    EXPECT_EQ(mesh.Coordinate(rank, "tensor"), rank % 2);
    EXPECT_EQ(mesh.RankAt({{"data", rank / 2}, {"tensor", rank % 2}}), rank);
  }
  EXPECT_EQ(mesh.GroupOf(3, "tensor"), (Ranks{2, 3}));
  EXPECT_EQ(mesh.GroupOf(3, "data"), (Ranks{1, 3, 5}));
}

TEST(Mesh, AnAxisIsAnEntry) {
  const Mesh mesh({DataAxis(2), ContextAxis(3), TensorAxis(2)});
  EXPECT_EQ(mesh.size(), 12);
  int64_t rank = 0;
  for (int64_t data = 0; data < 2; ++data) {
    for (int64_t context = 0; context < 3; ++context) {
      for (int64_t tensor = 0; tensor < 2; ++tensor, ++rank) {
        EXPECT_EQ(mesh.Coordinate(rank, "data"), data);
        EXPECT_EQ(mesh.Coordinate(rank, "context"), context);
        EXPECT_EQ(mesh.Coordinate(rank, "tensor"), tensor);
        EXPECT_EQ(mesh.RankAt({{"tensor", tensor}, {"data", data}, {"context", context}}), rank);
      }
    }
  }
  EXPECT_EQ(mesh.GroupOf(7, "context"), (Ranks{7, 9, 11}));
  EXPECT_EQ(mesh.GroupOf(7, "data"), (Ranks{1, 7}));
  EXPECT_EQ(mesh.GroupOf(7, "tensor"), (Ranks{6, 7}));
}

// Each rank is in one group of each axis, and all of a group's ranks describe it alike.
TEST(Mesh, GroupsOfAnAxisShareOutAllRanks) {
  const Mesh mesh({DataAxis(2), ContextAxis(2), TensorAxis(3)});
  for (const MeshAxis& axis : mesh.axes()) {
    for (int64_t rank = 0; rank < mesh.size(); ++rank) {
      const Ranks group = mesh.GroupOf(rank, axis.name);
      ASSERT_EQ(group.size(), static_cast<size_t>(axis.ranks));
      EXPECT_EQ(group[static_cast<size_t>(mesh.Coordinate(rank, axis.name))], rank);
      for (const int64_t other : group) EXPECT_EQ(mesh.GroupOf(other, axis.name), group);
    }
  }
}

TEST(Mesh, HasTheEndsOfStagesThatShareTables) {
  const Mesh mesh({PipelineAxis(3, true), DataAxis(2)});
  EXPECT_TRUE(mesh.Has(kEndsAxis));
  EXPECT_EQ(mesh.ranks(kEndsAxis), 2);
  EXPECT_EQ(mesh.size(), 6);
  for (const Ranks& ends : {Ranks{0, 4}, Ranks{1, 5}}) {
    for (size_t i = 0; i < ends.size(); ++i) {
      EXPECT_EQ(mesh.GroupOf(ends[i], kEndsAxis), ends);
      EXPECT_EQ(mesh.Coordinate(ends[i], kEndsAxis), static_cast<int64_t>(i));
    }
  }
  for (const int64_t between : {2, 3}) {
    EXPECT_EQ(mesh.GroupOf(between, kEndsAxis), Ranks{between});
    EXPECT_EQ(mesh.Coordinate(between, kEndsAxis), 0);
  }
  EXPECT_EQ(mesh.RankAt({{kEndsAxis, 1}, {"data", 1}}), 5);
  EXPECT_EQ(AllAxes(mesh).size(), mesh.axes().size() + 1);
  for (const Mesh& without : {Mesh(), Mesh({DataAxis(4)}), Mesh({PipelineAxis(3), DataAxis(2)}),
                              Mesh({PipelineAxis(2, true), DataAxis(2)})}) {
    EXPECT_FALSE(without.Has(kEndsAxis));
    EXPECT_EQ(without.ranks(kEndsAxis), 1);
    EXPECT_EQ(AllAxes(without).size(), without.axes().size());
  }
}

TEST(Mesh, RanksAreAloneAlongAnAxisThatIsNotThere) {
  for (const Mesh& mesh : {Mesh(), Mesh({DataAxis(4)}), Mesh({DataAxis(4), TensorAxis(1)})}) {
    const int64_t last = mesh.size() - 1;
    EXPECT_EQ(mesh.ranks("tensor"), 1);
    EXPECT_EQ(mesh.Coordinate(last, "tensor"), 0);
    EXPECT_EQ(mesh.GroupOf(last, "tensor"), Ranks{last});
    EXPECT_EQ(mesh.RankAt({{"data", last}, {"tensor", 0}}), last);
  }
  EXPECT_FALSE(Mesh({DataAxis(4)}).Has("tensor"));
  EXPECT_TRUE(Mesh({TensorAxis(1)}).Has("tensor"));
}

TEST(Mesh, RefusesWhatIsNoMesh) {
  ExpectInternalError([] { Mesh({DataAxis(2), DataAxis(2)}); }, {"two axes 'data'"});
  ExpectInternalError([] { Mesh({TensorAxis(0)}); }, {"0 ranks along 'tensor'"});
  ExpectInternalError(
      [] {
        Mesh({DataAxis(2)}).RankAt({{"data", 2}});
      },
      {"no coordinate 2 along 'data'"});
  ExpectInternalError([] { Mesh({DataAxis(2)}).RankAt({{"tensor", 1}}); }, {"'tensor'"});
}

TEST(ByAxis, KnowsWhatItWasGiven) {
  int a = 0;
  ByAxis<int*> list = {{"data", &a}};
  list.Add("tensor", nullptr);
  EXPECT_EQ(list.Of("data"), &a);
  EXPECT_EQ(list.Of("tensor"), nullptr);
  EXPECT_EQ(list.Of("context"), nullptr);
  EXPECT_TRUE(list.Has("tensor"));
  EXPECT_FALSE(list.Has("context"));
  EXPECT_EQ(list.NumberOf("data"), 0u);
  EXPECT_EQ(list.NumberOf("tensor"), 1u);
  EXPECT_EQ(list.NumberOf("context"), 0u);
}

}  // namespace
}  // namespace plimsoll
