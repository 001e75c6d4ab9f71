#include "trainer/config/run_config.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace plimsoll::config {

std::string RunConfig::PlaceFor(const std::string& key) const {
  const std::string section = key.substr(0, key.find('.') + 1), start = file + ":";
  int first = std::numeric_limits<int>::max();
  for (const auto& [other, origin] : origins) {
    int line = 0;
    if (!other.starts_with(section) || !origin.starts_with(start)) continue;
    const char* const end = origin.data() + origin.size();
    const auto [last, error] = std::from_chars(origin.data() + start.size(), end, line);
    if (error == std::errc() && last == end) first = std::min(first, line);
  }
  return start + std::to_string(first == std::numeric_limits<int>::max() ? 1 : first);
}

RunConfig RunConfig::ForObjective(const std::string& name) const {
  RunConfig config = *this;
  const auto found = objectives.find(name);
  if (found == objectives.end()) return config;
  config.optimizer = found->second.optimizer;
  config.schedule = found->second.schedule;
  for (const auto& [key, text] : found->second.own) {
    config.origins[key] = Origin("objectives." + name + "." + key);
  }
  return config;
}

using Names = std::vector<std::string>;

template <>
const Names& EnumNames<Order>() {
  static const Names names = {"shuffled", "consecutive"};
  return names;
}
template <>
const Names& EnumNames<DataFormat>() {
  static const Names names = {"auto", "uint16", "uint32", "text"};
  return names;
}
template <>
const Names& EnumNames<Packing>() {
  static const Names names = {"concatenate", "best_fit", "none"};
  return names;
}
template <>
const Names& EnumNames<TooLong>() {
  static const Names names = {"truncate", "drop", "split"};
  return names;
}
template <>
const Names& EnumNames<Documents>() {
  static const Names names = {"joined", "apart"};
  return names;
}
template <>
const Names& EnumNames<LossOn>() {
  static const Names names = {"assistant", "all"};
  return names;
}
template <>
const Names& EnumNames<BeginToken>() {
  static const Names names = {"auto", "none"};
  return names;
}
template <>
const Names& EnumNames<Unreadable>() {
  static const Names names = {"error", "skip"};
  return names;
}
template <>
const Names& EnumNames<PreferenceDropout>() {
  static const Names names = {"off", "model"};
  return names;
}
template <>
const Names& EnumNames<PreferenceLoss>() {
  static const Names names = {"none", "dpo", "ipo"};
  return names;
}
template <>
const Names& EnumNames<OptimizerName>() {
  static const Names names = {"adamw", "sgd", "muon"};
  return names;
}
template <>
const Names& EnumNames<AdjustLr>() {
  static const Names names = {"original", "match_rms_adamw"};
  return names;
}
template <>
const Names& EnumNames<ScheduleName>() {
  static const Names names = {"constant", "linear", "cosine", "wsd", "multistep"};
  return names;
}
template <>
const Names& EnumNames<AttentionKind>() {
  static const Names names = {"blockwise", "stored"};
  return names;
}
template <>
const Names& EnumNames<Dtype>() {
  static const Names names = {"fp32", "tf32", "bf16", "fp16"};
  return names;
}
template <>
const Names& EnumNames<LossScale>() {
  static const Names names = {"auto", "none", "static", "dynamic"};
  return names;
}
template <>
const Names& EnumNames<StateDtype>() {
  static const Names names = {"fp32", "bf16", "int8"};
  return names;
}
template <>
const Names& EnumNames<GradDtype>() {
  static const Names names = {"fp32", "bf16"};
  return names;
}
template <>
const Names& EnumNames<Fp8Recipe>() {
  static const Names names = {"none", "current", "delayed"};
  return names;
}
template <>
const Names& EnumNames<Fp8Gradients>() {
  static const Names names = {"e5m2", "e4m3"};
  return names;
}
template <>
const Names& EnumNames<ClipBy>() {
  static const Names names = {"step", "parameter", "last_step"};
  return names;
}
template <>
const Names& EnumNames<PlaceOrAuto>() {
  static const Names names = {"device", "host", "auto"};
  return names;
}
template <>
const Names& EnumNames<OnOrAuto>() {
  static const Names names = {"false", "true", "auto"};
  return names;
}
template <>
const Names& EnumNames<Summary>() {
  static const Names names = {"none", "short", "full"};
  return names;
}
template <>
const Names& EnumNames<SummaryOrder>() {
  static const Names names = {"bytes", "time"};
  return names;
}
template <>
const Names& EnumNames<CheckpointPolicy>() {
  static const Names names = {"none", "block", "every", "selective", "auto"};
  return names;
}
template <>
const Names& EnumNames<Allocator>() {
  static const Names names = {"planned", "caching"};
  return names;
}
template <>
const Names& EnumNames<Device>() {
  static const Names names = {"auto", "cpu", "cuda"};
  return names;
}
template <>
const Names& EnumNames<DivergenceAction>() {
  static const Names names = {"stop", "skip", "rollback"};
  return names;
}
template <>
const Names& EnumNames<OnSaveError>() {
  static const Names names = {"continue", "stop"};
  return names;
}
template <>
const Names& EnumNames<MonitorMode>() {
  static const Names names = {"auto", "min", "max"};
  return names;
}
template <>
const Names& EnumNames<StopSignal>() {
  static const Names names = {"none", "HUP", "USR1", "USR2"};
  return names;
}

}  // namespace plimsoll::config
