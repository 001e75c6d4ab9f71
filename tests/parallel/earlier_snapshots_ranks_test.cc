// Snapshots that an earlier version wrote go on with the bits that it gave them, on several ranks.
#include <gtest/gtest.h>

#include "tests/trainer/earlier_snapshots.h"

namespace plimsoll {
namespace {

class EarlierSnapshotOnRanks : public testing::TestWithParam<Continuation> {};

TEST_P(EarlierSnapshotOnRanks, GoesOnWithTheSameBits) { ExpectSameContinuation(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Continuations, EarlierSnapshotOnRanks,
                         testing::ValuesIn(ContinuationsOnRanks()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace plimsoll
