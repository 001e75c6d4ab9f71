// What PyTorch makes of a few steps of training (trajectories/*.safetensors, by
// make_trajectories.py): where they start from, and how far each tensor has moved.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/huggingface.h"
#include "tests/models/formula_weights.h"
#include "tests/models/recorded_case.h"
#include "tests/support/temp_folder.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

struct Trajectory : models::RecordedCase {
  explicit Trajectory(const std::string& name)
      : RecordedCase("tests/models/trajectories/" + name + ".safetensors") {}

  Settings OwnSettings() const {
    Settings settings;
    const formats::JsonObject given = json.RequireObject("settings");
    for (const std::string& key : given.Keys()) {
      const auto& value = given.json().at(key);
      SettingValue setting = value.is_boolean()          ? SettingValue(value.get<bool>())
                             : value.is_string()         ? SettingValue(value.get<std::string>())
                             : value.is_number_integer() ? SettingValue(value.get<int64_t>())
                                                         : SettingValue(value.get<double>());
      settings.Set(key, std::move(setting), "test");
    }
    return settings;
  }
};

struct Moved {
  std::string name;
  double distance;
};

// How far the tensors of a checkpoint are from where they began.
inline std::vector<Moved> Distances(const Trajectory& c, const std::string& folder) {
  const formats::SafetensorsReader file(folder + "/model.safetensors");
  std::vector<Moved> moved;
  for (size_t i = 0; i < c.names.size(); ++i) {
    const formats::TensorEntry& entry = file.Require(c.names[i]);
    EXPECT_EQ(entry.shape, c.shapes[i]) << c.names[i];
    if (models::IsCount(c.names[i])) {
      int64_t count = 0;
      std::memcpy(&count, file.Raw(c.names[i]).data(), sizeof(count));
      moved.push_back({c.names[i], static_cast<double>(count - models::CountByName(c.names[i]))});
      continue;
    }
    std::vector<float> values(static_cast<size_t>(entry.elements));
    file.ReadFloat32(c.names[i], values.data(), entry.elements);
    const std::vector<float> first = models::WeightsByName(c.names[i], c.shapes[i]);
    double squares = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      squares += std::pow(static_cast<double>(values[k]) - first[k], 2);
    }
    moved.push_back({c.names[i], std::sqrt(squares)});
  }
  return moved;
}

inline void ExpectMoved(const Trajectory& c, Session& session, const models::Model& model) {
  const TempFolder end;
  models::SaveWeights(end.path(), model, [&](const models::ParameterInfo& parameter) {
    static std::vector<float> values;
    values = session.ReadParameter(parameter.name);
    return values.data();
  });
  const std::vector<double> expected = c.Numbers("moved");
  const std::vector<Moved> moved = Distances(c, end.path());
  for (size_t i = 0; i < moved.size(); ++i) {
    EXPECT_NEAR(moved[i].distance, expected[i], 1e-3 * expected[i] + 1e-6) << moved[i].name;
  }
}

}  // namespace plimsoll::trainer
