// The settings of the source "images", and the images that they name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/settings.h"
#include "data/images/image_mixing.h"
#include "data/images/image_set.h"
#include "data/source.h"

namespace plimsoll::data {

std::vector<Setting> ImageSettings();

struct NamedImages {
  std::shared_ptr<const ImageSet> images;
  std::vector<std::string> class_names;  // empty: they have none
};

// Files of MNIST's or CIFAR-10's form, or folders of JPEG and PNG files, as the folder has them.
// SettingError: there are none, or a setting is not for them or not for the model.
NamedImages ImagesFrom(const Settings& settings, const ModelSizes& model);

// SourceKind::follow.
std::vector<std::string> FollowPreparation(Settings& settings,
                                           const std::function<ImagePreparation()>& read);

// SourceKind::follow_maker: mean and standard deviation ½, whole pictures in training, too, resized
// to what the model makes.
std::vector<std::string> FollowMaker(Settings& settings, int64_t height, int64_t width);

ImageMixing MixingFrom(const Settings& settings);

// SourceKind::count_classes.
std::optional<int64_t> CountImageClasses(const Settings& settings, LabelKind kind);

// True if images are held out.
bool HoldsOutImages(const Settings& settings);

}  // namespace plimsoll::data
