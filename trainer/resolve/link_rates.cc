#include "trainer/resolve/link_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/message.h"
#include "base/output_file.h"
#include "base/version.h"
#include "formats/json.h"
#include "trainer/resolve/calibration.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_device.h"

namespace plimsoll::trainer {
namespace {

using memory::LinkRates;
using nlohmann::ordered_json;

struct NamedRate {
  const char* name;
  double LinkRates::*rate;
};
constexpr NamedRate kRates[] = {{"to_device", &LinkRates::to_device},
                                {"to_host", &LinkRates::to_host},
                                {"both_to_device", &LinkRates::both_to_device},
                                {"both_to_host", &LinkRates::both_to_host}};

bool TimesThisMachine(const config::RunConfig& config) {
  return DeviceFrom(config) == runtime::DeviceKind::kCuda && config.memory.calibrate &&
         config.planned_gpu.empty();
}

bool MayUseHost(const config::RunConfig& config) {
  return !config.checkpointing.offload.empty() ||
         std::ranges::any_of(Techniques(), [&](const Knob& knob) {
           return knob.is_place() && knob.get(config) != knob.unused();
         });
}

// The path of the link's file; empty means that speeds are not kept.
std::string LinkFileOf(const config::RunConfig& config) {
  const int64_t ranks = RanksFrom(config);
  return CalibrationPath(CalibrationFolder(config), "link", GpuFrom(config),
                         ranks > 1 ? fmt::format("-{}-ranks", ranks) : "");
}

// Throws a UserError unless the member is a plausible rate.
LinkRates RatesFrom(const formats::JsonObject& file) {
  LinkRates rates{.measured = true};
  for (const auto& [name, rate] : kRates) {
    rates.*rate = file.RequireFloat(name);
    constexpr double kLeast = 1e7, kMost = 1e13;
    if (!(rates.*rate >= kLeast && rates.*rate <= kMost)) file.Fail(name, "no plausible rate");
  }
  return rates;
}

ordered_json JsonOf(const LinkRates& rates) {
  ordered_json json;
  for (const auto& [name, rate] : kRates) json[name] = rates.*rate;
  return json;
}

void KeepLink(const std::string& path, const LinkRates& rates) {
  ordered_json json = JsonOf(rates);
  json["program"] = Version();
  try {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    WriteWhole(path, json.dump(1) + "\n");
  } catch (const UserError& problem) {
    PrintWarning(fmt::format("{}; the speed of the link to the host is not kept", problem.what()));
  }
}

// The speed of the slowest rank; nullopt if a rank cannot measure the link.
std::optional<LinkRates> SlowestLink(runtime::RankGroup& ranks,
                                     const std::optional<runtime::HostLink>& here) {
  std::string text;
  if (here) {
    text =
        JsonOf({here->to_device, here->to_host, here->both_to_device, here->both_to_host}).dump();
  }
  std::optional<LinkRates> slowest;
  for (const std::string& told : ranks.Gather(text)) {
    if (told.empty()) return std::nullopt;
    const LinkRates rates = RatesFrom(formats::JsonObject::FromText(told, "a rank's link"));
    if (!slowest) slowest = rates;
    for (const auto& [name, rate] : kRates) {
      (*slowest).*rate = std::min((*slowest).*rate, rates.*rate);
    }
  }
  // Without measurement noise, a direction is never faster while the other one is busy.
  slowest->both_to_device = std::min(slowest->both_to_device, slowest->to_device);
  slowest->both_to_host = std::min(slowest->both_to_host, slowest->to_host);
  return slowest;
}

}  // namespace

void MeasureLink(const config::RunConfig& config, runtime::RankGroup& ranks,
                 const std::function<std::optional<runtime::HostLink>()>& measure) {
  if (!TimesThisMachine(config) || !MayUseHost(config) || !config.memory.calibration.empty() ||
      ranks.size() != RanksFrom(config)) {
    return;
  }
  // Rank 0 decides, because ranks may see different files and only rank 0 plans.
  const bool known = ranks.rank() == 0 && (LinkFileOf(config).empty() || KnownLink(config));
  if (ranks.Broadcast(known ? "known" : "") == "known") return;
  ranks.Barrier();
  const std::optional<LinkRates> slowest = SlowestLink(ranks, measure());
  if (slowest && ranks.rank() == 0) KeepLink(LinkFileOf(config), *slowest);
}

std::optional<LinkRates> KnownLink(const config::RunConfig& config) {
  if (!TimesThisMachine(config)) return std::nullopt;
  const std::string path = LinkFileOf(config);
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return std::nullopt;
  try {
    const formats::JsonObject file = formats::JsonObject::FromFile(path);
    if (file.RequireString("program") != Version()) return std::nullopt;
    return RatesFrom(file);
  } catch (const UserError& problem) {
    PrintWarning(fmt::format("{}; the built-in speed of the link is used", problem.what()));
    return std::nullopt;
  }
}

std::string LinkText(const memory::DeviceRates& rates) {
  const LinkRates& link = rates.link();
  constexpr double kGb = 1e9;
  if (!link.measured) {
    return fmt::format("link {:.1f} GB/s to the GPU, {:.1f} back: built in, {}",
                       link.to_device / kGb, link.to_host / kGb, rates.Origin());
  }
  return fmt::format(
      "link {:.1f} GB/s to the GPU, {:.1f} back, {:.1f} and {:.1f} both ways at once: measured",
      link.to_device / kGb, link.to_host / kGb, link.both_to_device / kGb, link.both_to_host / kGb);
}

}  // namespace plimsoll::trainer
