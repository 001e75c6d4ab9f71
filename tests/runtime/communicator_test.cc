// The suite of communicators on CPUs: alone, and through MPI.
#include <cstring>

#include "tests/runtime/communicator_suite.h"

namespace plimsoll {
namespace {

class CpuBed : public CommunicatorBed {
 public:
  std::unique_ptr<ops::Communicator> MakeCommunicator(runtime::RankGroup& group) override {
    return group.MakeCpuCommunicator();
  }
  std::vector<graph::DType> ReducibleTypes() const override {
    using enum graph::DType;
    return {kFloat32, kFloat64, kInt32, kBFloat16, kFloat16, kUInt8};
  }
  bool AddsInRankOrder() const override { return true; }

  std::byte* Allocate(int64_t bytes) override { return new std::byte[static_cast<size_t>(bytes)]; }
  void Free(std::byte* memory) override { delete[] memory; }
  void Write(std::byte* to, const std::byte* from, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void Read(const std::byte* from, std::byte* to, int64_t bytes) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
};

}  // namespace

std::unique_ptr<CommunicatorBed> MakeCommunicatorBed(runtime::World& /*world*/) {
  return std::make_unique<CpuBed>();
}

}  // namespace plimsoll
