// Ten steps of training BERT, ViT, ResNet-50 and U-Nets agree with PyTorch's: losses, gradient norms and
// how far each tensor has moved. trajectories/ is made by make_trajectories.py, which has the
// formulas of weights and data.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/huggingface.h"
#include "tests/models/formula_weights.h"
#include "tests/support/temp_folder.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

constexpr int64_t kVocab = 61, kClasses = 7;

struct Case {
  explicit Case(const std::string& name)
      : json(formats::JsonObject::FromFile("tests/models/trajectories/" + name + ".json")) {
    names = json.RequireStrings("names");
    for (const std::string& shape : json.RequireStrings("shapes")) {
      std::istringstream text(shape);
      shapes.emplace_back();
      for (int64_t dim; text >> dim;) shapes.back().push_back(dim);
    }
  }

  // Writes the checkpoint that training starts from.
  void Write(const TempFolder& folder) const {
    std::map<std::string, std::vector<int64_t>> by_name;
    for (size_t i = 0; i < names.size(); ++i) by_name[names[i]] = shapes[i];
    models::WriteWeightsByName(folder / "model.safetensors", by_name);
    folder.Write("config.json", json.RequireObject("config").json().dump());
  }

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

  formats::JsonObject json;
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;
};

std::vector<int32_t> Integers(const std::string& kind, int64_t step, int64_t count, int64_t below) {
  std::vector<int32_t> values;
  for (const double x : models::UniformByName(kind + "." + std::to_string(step), count)) {
    values.push_back(static_cast<int32_t>((x + 1) / 2 * static_cast<double>(below)));
  }
  return values;
}

// Fills the slots, and returns how many targets count.
int64_t Fill(Session& session, int64_t step, int64_t batch, int64_t sequence) {
  std::vector<int32_t> lengths(batch, static_cast<int32_t>(sequence));
  int64_t targets = batch;
  for (const graph::Slot& slot : session.slots(0)) {
    if (slot.name != "lengths") continue;
    lengths = Integers("lengths", step, batch, sequence);
    for (int32_t& length : lengths) ++length;
  }
  for (const graph::Slot& slot : session.slots(0)) {
    const int64_t count = slot.type.shape.elements();
    if (slot.name == "images") {
      const std::vector<double> pixels =
          models::UniformByName("images." + std::to_string(step), count);
      std::ranges::copy(pixels, slot.values<float>().begin());
      continue;
    }
    std::vector<int32_t> values;
    if (slot.name == "lengths") {
      values = lengths;
    } else if (slot.name == "tokens") {
      values = Integers("tokens", step, count, kVocab - 1);
      for (int32_t& token : values) ++token;
    } else if (slot.name == "targets") {
      values = Integers("targets", step, count, kVocab);
      targets = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t place = i % sequence;
        const bool counts = place % 3 == 0 && place < lengths[i / sequence];
        if (!counts) values[i] = -100;
        targets += counts;
      }
    } else {
      values = Integers(slot.name, step, count, slot.name == "labels" ? kClasses : 2);
    }
    std::ranges::copy(values, slot.values<int32_t>().begin());
  }
  return targets;
}

struct Moved {
  std::string name;
  double distance;
};

// How far the tensors of a checkpoint are from where they began.
std::vector<Moved> Distances(const Case& c, const std::string& folder) {
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

class TrajectoryTest : public testing::TestWithParam<const char*> {};

TEST_P(TrajectoryTest, AgreesWithPyTorch) {
  const Case c(GetParam());
  const TempFolder start, end;
  c.Write(start);
  Settings settings = c.OwnSettings();
  const auto model = models::ModelFromHuggingFace(start.path(), settings);
  CompileOptions options;
  options.micro_batch = c.json.RequireInt("batch");
  options.sequence = settings.IntOr("sequence", 1);
  options.threads = 2;
  options.update.algorithm = optim::UpdateOptions::Algorithm::kSgd;
  options.update.momentum = c.json.RequireFloat("momentum");
  options.update.weight_decay = 0;
  options.update.clip_grad_norm = 0;
  ThreadPool pool(2);
  Session session(Compile(*model, options), pool);
  session.LoadWeights(*model, start.path());
  const std::vector<double> losses = c.json.RequireFloats("losses");
  const std::vector<double> norms = c.json.RequireFloats("norms");
  // Sums of float32 in other orders; the differences grow from step to step.
  for (int64_t step = 0; step < std::ssize(losses); ++step) {
    const int64_t targets = Fill(session, step, options.micro_batch, options.sequence);
    session.BeginStep(targets, c.json.RequireFloat("lr"), 1);
    session.Run(step, 0);
    const double tolerance = 1e-5 * static_cast<double>(1 + step);
    EXPECT_NEAR(session.Metrics().loss, losses[step], tolerance * losses[step]) << "step " << step;
    EXPECT_NEAR(session.Metrics().grad_norm, norms[step], 3 * tolerance * norms[step])
        << "step " << step;
  }
  models::SaveWeights(end.path(), *model, [&](const models::ParameterInfo& parameter) {
    static std::vector<float> values;
    values = session.ReadParameter(parameter.name);
    return values.data();
  });
  const std::vector<double> expected = c.json.RequireFloats("moved");
  const std::vector<Moved> moved = Distances(c, end.path());
  for (size_t i = 0; i < moved.size(); ++i) {
    EXPECT_NEAR(moved[i].distance, expected[i], 1e-3 * expected[i] + 1e-6) << moved[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrajectoryTest,
                         testing::Values("bert-masked", "bert-masked-padded", "bert-pretraining",
                                         "bert-classification", "vit", "resnet50", "unet-2d",
                                         "unet-3d"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace plimsoll::trainer
