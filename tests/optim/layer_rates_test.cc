#include "optim/layer_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::optim {
namespace {

using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

using Names = std::vector<std::string>;

// timm's param_groups_layer_decay of a vision transformer with two blocks.
TEST(LayerRates, FallFromTheHeadToTheEmbeddings) {
  const Names names = {"embed.patch.weight",
                       "embed.class.weight",
                       "block.0.norm_1.weight",
                       "block.0.attn.qkv.weight",
                       "block.1.mlp.fc.weight",
                       "norm.weight",
                       "head.weight"};
  EXPECT_THAT(
      LayerRates(names, 0.5),
      UnorderedElementsAre(
          Pair("embed.patch.weight", 0.125), Pair("embed.class.weight", 0.125),
          Pair("block.0.norm_1.weight", 0.25), Pair("block.0.attn.qkv.weight", 0.25),
          Pair("block.1.mlp.fc.weight", 0.5), Pair("norm.weight", 1), Pair("head.weight", 1)));
}

// Blocks of all stages count, in the order of the forward pass; what lies between two belongs to
// the one before.
TEST(LayerRates, OfStages) {
  const Names names = {
      "stem.weight",    "stage.0.block.0.conv.weight", "stage.0.block.1.conv.weight",
      "between.weight", "stage.1.block.0.conv.weight", "head.weight"};
  EXPECT_THAT(
      LayerRates(names, 0.5),
      UnorderedElementsAre(Pair("stem.weight", 0.0625), Pair("stage.0.block.0.conv.weight", 0.125),
                           Pair("stage.0.block.1.conv.weight", 0.25), Pair("between.weight", 0.25),
                           Pair("stage.1.block.0.conv.weight", 0.5), Pair("head.weight", 1)));
}

TEST(LayerRates, WithoutBlocksThereAreNone) {
  EXPECT_THAT(LayerRates(Names{"a.weight", "b.weight"}, 0.5), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::optim
