#include "data/images/image_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "data/texts/examples.h"
#include "formats/json.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetadata = "/metadata.jsonl";
constexpr const char* kHeldOut[] = {"val", "valid", "validation", "dev"};
constexpr const char* kTest = "test";
constexpr uint64_t kHeldOutKey = 0x696d61676573, kHeldOutOrder = 1;

bool IsCalledImage(const fs::path& path) {
  std::string ending = path.extension();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) {
    return static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

// The classes in a folder are the names of its subfolders.
std::vector<std::string> ClassesIn(const std::string& folder, bool has_classes) {
  const FolderNames names = NamesIn(folder);
  if (!names.folders.empty()) return names.folders;
  const bool flat = std::ranges::any_of(names.files, &IsCalledImage);
  if (!has_classes) {
    throw UserError(
        fmt::format("{0}: holds {1}; put the images into one sub-folder, as in "
                    "{0}/all/NAME.jpg",
                    folder, flat ? "images, but no folder of them" : "no folders"));
  }
  if (!flat) {
    throw UserError(folder +
                    ": holds no folders; put the images of each class into a folder of its name");
  }
  throw UserError(fmt::format(
      "{0}: holds images, but no folders of classes; put those of each class into one sub-folder "
      "of its name, or list them with their labels in {0}{1}",
      folder, kMetadata));
}

// Adds the images of a class, and counts other files in `passed_over`.
void AddImages(const std::string& folder, int32_t label, std::vector<ImageFile>& images,
               int64_t& passed_over) {
  const size_t before = images.size();
  ForEachFileBelow(folder, [&](const std::string& path) {
    if (IsCalledImage(path)) {
      images.push_back({path, label});
    } else {
      ++passed_over;
    }
    return true;
  });
  if (images.size() == before) {
    throw UserError(folder + ": holds no images (.jpg, .jpeg, .png); remove it, or put some there");
  }
  std::sort(images.begin() + static_cast<ptrdiff_t>(before), images.end(),
            [](const ImageFile& a, const ImageFile& b) { return a.path < b.path; });
}

// Finds the subfolder of held-out images: one of `kHeldOut`, or else `kTest`. Throws a UserError if
// there are several.
std::optional<std::string> HeldOutBelow(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* name : kHeldOut) {
    if (IsFolder(folder + "/" + name)) found.push_back(folder + "/" + name);
  }
  if (found.size() > 1) {
    throw UserError(
        fmt::format("{}: there is also {}, and images of both would be held out; keep one of them "
                    "there",
                    found[1], found[0]));
  }
  if (!found.empty()) return found.front();
  const std::string test = folder + "/" + kTest;
  return IsFolder(test) ? std::optional(test) : std::nullopt;
}

bool HasParts(const std::string& folder) { return IsFolder(folder + "/train"); }

std::string TrainFolderOf(const std::string& folder) {
  return HasParts(folder) ? folder + "/train" : folder;
}

// Throws the error for a folder that has held-out images (in `held_out`) but no folder train.
[[noreturn]] void RefuseAlone(const std::string& folder, const std::string& held_out) {
  throw UserError(
      fmt::format("{0}: is called as images that are held out, and there is no {1}/train beside "
                  "it; move what to train on into {1}/train, or rename it if it is a class",
                  held_out, folder));
}

// Throws a UserError if a fraction is given although the folder `held_out` already holds out
// images.
void RefuseFraction(double eval_fraction, const std::string& held_out) {
  if (eval_fraction == 0) return;
  throw UserError(
      fmt::format("{}: its images are held out already; leave data.eval_fraction out", held_out));
}

bool ListsLabels(const std::string& folder) {
  if (!IsThere(folder + kMetadata)) return false;
  bool found = false;
  ForEachLine(MappedFile(folder + kMetadata), [&](std::string_view text, const std::string& where) {
    if (found) return;
    const formats::JsonObject line = formats::JsonObject::FromText(text, where);
    found = line.Has("label") || line.Has("labels");
  });
  return found;
}

// Appends the images that a folder's metadata.jsonl lists, and returns their labels.
std::vector<GivenLabel> ReadMetadata(const std::string& folder, LabelKind kind,
                                     std::vector<ImageFile>& images) {
  if (!IsThere(folder + kMetadata)) {
    throw UserError(fmt::format(
        "{}{}: is missing, and the other images are listed with their labels in such a file; list "
        "those of this folder, too",
        folder, kMetadata));
  }
  const MappedFile file(folder + kMetadata);
  std::vector<GivenLabel> labels;
  ForEachLine(file, [&](std::string_view text, const std::string& where) {
    const formats::JsonObject line = formats::JsonObject::FromText(text, where);
    const std::string name = line.RequireString("file_name");
    const std::string path = folder + "/" + name;
    std::error_code ignored;
    if (!IsCalledImage(path)) line.Fail("file_name", "is called neither .jpg, .jpeg nor .png");
    if (!fs::is_regular_file(path, ignored)) line.Fail("file_name", path + " does not exist");
    labels.push_back(ParseLabel(line, where, kind));
    images.push_back({path, 0});
  });
  if (labels.empty()) throw UserError(file.path() + ": is empty; give it a line an image");
  return labels;
}

void AddHeldOut(const std::string& folder, const std::string& train, bool has_classes,
                ImageFolder& found) {
  for (const std::string& name : ClassesIn(folder, has_classes)) {
    const std::string path = folder + "/" + name;
    const auto known = std::ranges::lower_bound(found.classes, name);
    if (known == found.classes.end() || *known != name) {
      throw UserError(
          fmt::format("{}: unknown class: {} has no folder '{}'; train on it, too, or remove it",
                      path, train, name));
    }
    AddImages(path, static_cast<int32_t>(known - found.classes.begin()), found.held_out,
              found.passed_over);
  }
}

// Moves a fraction of each class, or of all images, from the training images to the held-out ones.
void HoldOut(double fraction, bool by_class, ImageFolder& found) {
  std::vector<ImageFile> train;
  for (size_t begin = 0, end = 0; begin < found.train.size(); begin = end) {
    const int32_t label = found.train[begin].label;
    while (end < found.train.size() && (!by_class || found.train[end].label == label)) ++end;
    const size_t count = end - begin;
    const auto wanted = static_cast<size_t>(std::llround(static_cast<double>(count) * fraction));
    const Permutation order(count, Hash(kHeldOutKey, static_cast<uint64_t>(label)));
    std::vector<bool> is_held_out(count);
    for (size_t i = 0; i < std::min(wanted, count - 1); ++i) is_held_out[order(i)] = true;
    for (size_t i = 0; i < count; ++i) {
      (is_held_out[i] ? found.held_out : train).push_back(std::move(found.train[begin + i]));
    }
  }
  found.train = std::move(train);
}

void Shuffle(std::vector<ImageFile>& images) {
  std::vector<ImageFile> shuffled;
  if (images.empty()) return;
  const Permutation order(images.size(), Hash(kHeldOutKey, kHeldOutOrder, images.size()));
  for (size_t i = 0; i < images.size(); ++i) shuffled.push_back(std::move(images[order(i)]));
  images = std::move(shuffled);
}

}  // namespace

bool IsImageFolder(const std::string& folder) {
  try {
    if (HasParts(folder)) return true;
    bool found = false;
    ForEachFileBelow(folder, [&](const std::string& path) {
      found = IsCalledImage(path);
      return !found;
    });
    return found;
  } catch (const UserError&) {  // listing the images will fail, too, and say why
    std::error_code ignored;
    return fs::is_directory(folder, ignored);
  }
}

bool HasHeldOutImages(const std::string& folder) {
  try {
    return HasParts(folder) && HeldOutBelow(folder).has_value();
  } catch (const UserError&) {
    return true;
  }
}

std::vector<std::string> FindClasses(const std::string& folder, bool has_classes) {
  if (!HasParts(folder)) {
    const std::optional<std::string> alone = HeldOutBelow(folder);
    if (alone) RefuseAlone(folder, *alone);
  }
  return ClassesIn(TrainFolderOf(folder), has_classes);
}

ImageFolder FindImages(const std::string& folder, double eval_fraction, bool has_classes) {
  ImageFolder found;
  found.classes = FindClasses(folder, has_classes);
  const std::string train = TrainFolderOf(folder);
  for (size_t label = 0; label < found.classes.size(); ++label) {
    AddImages(train + "/" + found.classes[label], static_cast<int32_t>(label), found.train,
              found.passed_over);
  }
  const std::optional<std::string> held_out =
      HasParts(folder) ? HeldOutBelow(folder) : std::nullopt;
  if (held_out) {
    RefuseFraction(eval_fraction, *held_out);
    AddHeldOut(*held_out, train, has_classes, found);
  } else if (eval_fraction > 0) {
    HoldOut(eval_fraction, true, found);
    if (found.held_out.empty()) {
      throw UserError(
          fmt::format("{}: data.eval_fraction: {} of {} in {} holds out none; give more images "
                      "or a larger fraction",
                      folder, eval_fraction, Counted(found.train.size(), "image"),
                      Counted(found.classes.size(), "class")));
    }
  }
  Shuffle(found.held_out);
  return found;
}

bool HasListedImages(const std::string& folder) {
  return IsThere(TrainFolderOf(folder) + kMetadata);
}

bool HasListedLabels(const std::string& folder) {
  if (HasParts(folder) && ListsLabels(folder)) {
    throw UserError(fmt::format(
        "{0}{1}: gives labels, and the images to train on are those of {0}/train; list them in "
        "{0}/train{1}, by names relative to it",
        folder, kMetadata));
  }
  if (ListsLabels(TrainFolderOf(folder))) return true;
  const std::optional<std::string> below = HasParts(folder) ? HeldOutBelow(folder) : std::nullopt;
  return below && ListsLabels(*below);
}

std::vector<std::string> FindListedClasses(const std::string& folder, LabelKind kind,
                                           const std::vector<std::string>& names) {
  std::vector<ImageFile> images;
  return ClassesOf(ReadMetadata(TrainFolderOf(folder), kind, images), names).names;
}

ImageFolder FindListedImages(const std::string& folder, double eval_fraction, LabelKind kind,
                             const std::vector<std::string>& names, int64_t most) {
  ImageFolder found;
  const std::vector<GivenLabel> train = ReadMetadata(TrainFolderOf(folder), kind, found.train);
  std::vector<GivenLabel> held_out;
  std::optional<std::string> below = HeldOutBelow(folder);
  if (below && !HasParts(folder)) {
    // A folder without metadata.jsonl is an ordinary folder, whose images the main list may name.
    if (IsThere(*below + kMetadata)) RefuseAlone(folder, *below);
    below.reset();
  }
  if (below) {
    RefuseFraction(eval_fraction, *below);
    held_out = ReadMetadata(*below, kind, found.held_out);
  }
  const bool has_class = kind == LabelKind::kClass;
  LabelClasses classes;
  if (kind != LabelKind::kNumber) {
    classes = ClassesOf(train, names);
  }
  classes.from = "data.class_names or the images to train on";
  for (auto* const part : {&found.train, &found.held_out}) {
    const std::vector<GivenLabel>& labels = part == &found.train ? train : held_out;
    for (size_t i = 0; i < labels.size(); ++i) {
      const SampleLabel label = classes.Of(labels[i], kind, most);
      (*part)[i].label = has_class ? label.number : static_cast<int32_t>(found.labels.count());
      if (!has_class) found.labels.Add(label);
    }
  }
  if (has_class) std::ranges::stable_sort(found.train, {}, &ImageFile::label);
  found.classes = std::move(classes.names);
  if (!below && eval_fraction > 0) {
    HoldOut(eval_fraction, has_class, found);
    if (found.held_out.empty()) {
      throw UserError(
          fmt::format("{}: data.eval_fraction: {} of {} holds out none; give "
                      "more images or a larger fraction",
                      folder, eval_fraction, Counted(found.train.size(), "image")));
    }
  }
  Shuffle(found.held_out);
  return found;
}

}  // namespace plimsoll::data
