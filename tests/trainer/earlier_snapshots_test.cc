// Snapshots that an earlier version wrote go on with the bits that it gave them, on one rank.
#include "tests/trainer/earlier_snapshots.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

class EarlierSnapshot : public testing::TestWithParam<Continuation> {};

TEST_P(EarlierSnapshot, GoesOnWithTheSameBits) { ExpectSameContinuation(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Continuations, EarlierSnapshot,
                         testing::ValuesIn(ContinuationsOnOneRank()),
                         [](const auto& info) { return info.param.name(); });

// Whatever the number of ranks that wrote it.
class ExportedSnapshot : public testing::TestWithParam<std::string> {};

TEST_P(ExportedSnapshot, HasTheSameWeights) { ExpectSameExports(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Snapshots, ExportedSnapshot, testing::ValuesIn(EarlierSnapshots()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace plimsoll
