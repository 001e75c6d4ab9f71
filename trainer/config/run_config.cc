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

using Names = std::vector<std::string>;

template <>
const Names& EnumNames<Family>() {
  static const Names names = {"gpt2", "llama", "qwen2"};
  return names;
}
template <>
const Names& EnumNames<Activation>() {
  static const Names names = {"gelu_tanh", "gelu_erf"};
  return names;
}
template <>
const Names& EnumNames<RopeType>() {
  static const Names names = {"default", "linear"};
  return names;
}
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
const Names& EnumNames<OptimizerName>() {
  static const Names names = {"adamw", "sgd"};
  return names;
}
template <>
const Names& EnumNames<ScheduleName>() {
  static const Names names = {"constant", "linear", "cosine", "wsd"};
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
const Names& EnumNames<OptimizerPlace>() {
  static const Names names = {"device", "host", "auto"};
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
