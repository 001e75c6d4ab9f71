// Batches of volumes, as models read them.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"

namespace plimsoll::data {

struct VolumeBatch {
  std::vector<float> images;
  std::vector<int32_t> labels;
  bool operator==(const VolumeBatch&) const = default;
};

// `images`: the shape of a batch's images.
inline VolumeBatch ReadVolumes(const Source& source, int64_t first, const graph::Shape& images) {
  const graph::Shape labels = images.DropLast();
  VolumeBatch batch{std::vector<float>(static_cast<size_t>(images.elements()), NAN),
                    std::vector<int32_t>(static_cast<size_t>(labels.elements()), -7)};
  const graph::Slot slots[] = {
      {"images", {graph::DType::kFloat32, images}, std::as_writable_bytes(std::span(batch.images))},
      {"labels", {graph::DType::kInt32, labels}, std::as_writable_bytes(std::span(batch.labels))}};
  source.Fill(first, slots);
  return batch;
}

// The source of that name with the defaults of what is not given.
inline std::unique_ptr<Source> MakeVolumes(const std::string& name, const graph::Shape& images,
                                           int64_t classes,
                                           const std::map<std::string, SettingValue>& given = {},
                                           uint64_t seed = 11) {
  const SourceKind* const kind = FindSource(name);
  Settings settings;
  for (const auto& [setting, value] : given) settings.Set(setting, value);
  CompleteSettings(kind->settings, kind->complete, settings);
  return kind->make(settings, {.classes = classes, .images = images}, seed);
}

}  // namespace plimsoll::data
