#include "runtime/ranks/rank_group.h"

#include "base/error.h"
#include "runtime/ranks/communicator_of_one.h"

namespace plimsoll::runtime {
namespace {

class GroupOfOne : public RankGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string Broadcast(std::string_view text, int /*root*/) override { return std::string(text); }
  std::vector<std::string> Gather(std::string_view text) override { return {std::string(text)}; }
  void Barrier() override {}
  std::unique_ptr<RankGroup> Split(int /*color*/, int /*key*/) override {
    return std::make_unique<GroupOfOne>();
  }
  std::unique_ptr<ops::Communicator> MakeCpuCommunicator() override {
    return std::make_unique<CpuCommunicatorOfOne>();
  }
  std::unique_ptr<StageLink> MakeCpuStageLink(std::vector<int64_t> /*ranks*/) override {
    throw InternalError("a pipeline of one rank has no links");
  }
};

}  // namespace

std::unique_ptr<RankGroup> MakeGroupOfOne() { return std::make_unique<GroupOfOne>(); }

}  // namespace plimsoll::runtime
