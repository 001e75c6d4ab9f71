#include "graph/tensor.h"

#include <array>

namespace plimsoll::graph {
namespace {

constexpr std::array<std::string_view, kRoles> kRoleNames = {
    "input",   "parameter",  "gradient",  "master", "optimizer_state", "state",
    "pending", "activation", "workspace", "metric", "snapshot"};
static_assert(!kRoleNames.back().empty(), "every role has a name");
constexpr std::array<std::string_view, 9> kOwnedAsNames = {
    "gradient", "remainder", "master", "moment", "variance", "scale", "average", "history", "pending"};
constexpr std::array<std::string_view, 4> kOverMicroStepsNames = {"last", "sum", "mean", "max"};
constexpr std::array<std::string_view, 6> kOverRanksNames = {"same", "sum",   "mean",
                                                             "max",  "first", "own"};
constexpr std::array<std::string_view, 2> kPlaceNames = {"device", "host"};
constexpr std::array<std::string_view, 3> kRetentionNames = {"save", "recompute", "offload"};

template <typename Enum, size_t kSize>
std::optional<Enum> Find(const std::array<std::string_view, kSize>& names, std::string_view name) {
  for (size_t i = 0; i < kSize; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

bool OutlivesSteps(const Tensor& tensor) {
  if (!tensor.persistent || tensor.alias) return false;
  return tensor.role == Role::kParameter || tensor.role == Role::kMaster ||
         tensor.role == Role::kOptimizerState || tensor.role == Role::kState;
}

bool IsPending(const Tensor& tensor) {
  return tensor.owner && tensor.owner->as == OwnedAs::kPending;
}

std::string PendingName(std::string_view state) { return std::string(state) + ".pending"; }

std::string TensorType::ToString() const { return std::string(Name(dtype)) + shape.ToString(); }

std::string_view Name(OwnedAs as) { return kOwnedAsNames[static_cast<size_t>(as)]; }
std::optional<OwnedAs> ParseOwnedAs(std::string_view name) {
  return Find<OwnedAs>(kOwnedAsNames, name);
}
std::string_view Name(OverMicroSteps over) {
  return kOverMicroStepsNames[static_cast<size_t>(over)];
}
std::optional<OverMicroSteps> ParseOverMicroSteps(std::string_view name) {
  return Find<OverMicroSteps>(kOverMicroStepsNames, name);
}
std::string_view Name(OverRanks over) { return kOverRanksNames[static_cast<size_t>(over)]; }
std::optional<OverRanks> ParseOverRanks(std::string_view name) {
  return Find<OverRanks>(kOverRanksNames, name);
}
std::string_view Name(Role role) { return kRoleNames[static_cast<size_t>(role)]; }
std::optional<Role> ParseRole(std::string_view name) { return Find<Role>(kRoleNames, name); }
std::string_view Name(Place place) { return kPlaceNames[static_cast<size_t>(place)]; }
std::optional<Place> ParsePlace(std::string_view name) { return Find<Place>(kPlaceNames, name); }
std::string_view Name(Retention retention) {
  return kRetentionNames[static_cast<size_t>(retention)];
}
std::optional<Retention> ParseRetention(std::string_view name) {
  return Find<Retention>(kRetentionNames, name);
}

}  // namespace plimsoll::graph
