#include "trainer/data/image_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/random.h"
#include "formats/json.h"
#include "trainer/data/examples.h"

namespace plimsoll::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetadata = "/metadata.jsonl";
constexpr uint64_t kHeldOutKey = 0x696d61676573, kHeldOutOrder = 1;

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool IsHidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

bool IsCalledImage(const fs::path& path) {
  std::string ending = path.extension();
  std::ranges::transform(ending, ending.begin(), [](unsigned char letter) {
    return static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
  });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

[[noreturn]] void FailToRead(const std::string& folder, const std::error_code& error) {
  throw UserError(fmt::format("{}: cannot be read: {}", folder, error.message()));
}

// The folders in it that aren't hidden, by their names, sorted.
std::vector<std::string> FoldersIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    if (IsFolder(entry->path()) && !IsHidden(entry->path())) {
      names.push_back(entry->path().filename());
    }
  }
  if (error) FailToRead(folder, error);
  std::ranges::sort(names);
  return names;
}

// Adds the images of a class; the number of other files to `passed_over`.
void AddImages(const std::string& folder, int32_t label, std::vector<ImageFile>& images,
               int64_t& passed_over) {
  const size_t before = images.size();
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       !error && entry != fs::end(entry); entry.increment(error)) {
    std::error_code ignored;
    if (IsHidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file(ignored)) {
      if (IsCalledImage(entry->path())) {
        images.push_back({entry->path(), label});
      } else {
        ++passed_over;
      }
    }
  }
  if (error) FailToRead(folder, error);
  if (images.size() == before) {
    throw UserError(folder + ": holds no images (.jpg, .jpeg, .png); remove it, or put some there");
  }
  std::sort(images.begin() + static_cast<ptrdiff_t>(before), images.end(),
            [](const ImageFile& a, const ImageFile& b) { return a.path < b.path; });
}

// The folder below with what is held out.
std::optional<std::string> HeldOutBelow(const std::string& folder) {
  for (const char* name : {"val", "test"}) {
    std::string below = folder + "/" + name;
    if (IsFolder(below)) return below;
  }
  return std::nullopt;
}

bool HasParts(const std::string& folder) { return IsFolder(folder + "/train"); }

std::string TrainFolderOf(const std::string& folder) {
  return HasParts(folder) ? folder + "/train" : folder;
}

// `held_out`: the folder of images that are held out whatever the fraction is.
void RefuseFraction(double eval_fraction, const std::string& held_out) {
  if (eval_fraction == 0) return;
  throw UserError(
      fmt::format("{}: its images are held out already; leave data.eval_fraction out", held_out));
}

bool ListsLabels(const std::string& folder) {
  std::error_code ignored;
  if (!fs::exists(folder + kMetadata, ignored)) return false;
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
  if (std::error_code ignored; !fs::exists(folder + kMetadata, ignored)) {
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

void AddHeldOut(const std::string& folder, const std::string& train, ImageFolder& found) {
  const std::vector<std::string> names = FoldersIn(folder);
  if (names.empty()) {
    throw UserError(folder +
                    ": holds no folders; put the images of each class into a folder of its name");
  }
  for (const std::string& name : names) {
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

// Moves a part of each class, or of all images, from those to train on.
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
  if (HasParts(folder)) return true;
  try {
    return std::ranges::any_of(FoldersIn(folder), [&](const std::string& name) {
      std::error_code error;
      for (auto entry = fs::recursive_directory_iterator(folder + "/" + name, error);
           !error && entry != fs::end(entry); entry.increment(error)) {
        if (IsCalledImage(entry->path())) return true;
      }
      return false;
    });
  } catch (const UserError&) {
    return false;
  }
}

bool HasHeldOutImages(const std::string& folder) {
  return HasParts(folder) && HeldOutBelow(folder).has_value();
}

ImageFolder FindImages(const std::string& folder, double eval_fraction) {
  const std::string train = TrainFolderOf(folder);
  ImageFolder found;
  found.classes = FoldersIn(train);
  if (found.classes.empty()) {
    throw UserError(train +
                    ": holds no folders; put the images of each class into a folder of its name");
  }
  for (size_t label = 0; label < found.classes.size(); ++label) {
    AddImages(train + "/" + found.classes[label], static_cast<int32_t>(label), found.train,
              found.passed_over);
  }
  const std::optional<std::string> held_out =
      HasParts(folder) ? HeldOutBelow(folder) : std::nullopt;
  if (held_out) {
    RefuseFraction(eval_fraction, *held_out);
    AddHeldOut(*held_out, train, found);
  } else if (eval_fraction > 0) {
    HoldOut(eval_fraction, true, found);
    if (found.held_out.empty()) {
      throw UserError(fmt::format(
          "{}: data.eval_fraction: {} of {} images in {} classes holds out none; give more images "
          "or a larger fraction",
          folder, eval_fraction, found.train.size(), found.classes.size()));
    }
  }
  Shuffle(found.held_out);
  return found;
}

bool HasListedImages(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(TrainFolderOf(folder) + kMetadata, ignored);
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

ImageFolder FindListedImages(const std::string& folder, double eval_fraction, LabelKind kind,
                             const std::vector<std::string>& names, int64_t most) {
  ImageFolder found;
  const std::vector<GivenLabel> train = ReadMetadata(TrainFolderOf(folder), kind, found.train);
  std::vector<GivenLabel> held_out;
  const std::optional<std::string> below = HasParts(folder) ? HeldOutBelow(folder) : std::nullopt;
  if (below) {
    RefuseFraction(eval_fraction, *below);
    held_out = ReadMetadata(*below, kind, found.held_out);
  }
  const bool has_class = kind == LabelKind::kClass;
  LabelClasses classes;
  if (kind != LabelKind::kNumber) {
    std::vector<const GivenLabel*> labels;
    for (const GivenLabel& label : train) labels.push_back(&label);
    classes = ClassesOf(labels, names);
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
          fmt::format("{}: data.eval_fraction: {} of {} images holds out none; give "
                      "more images or a larger fraction",
                      folder, eval_fraction, found.train.size()));
    }
  }
  Shuffle(found.held_out);
  return found;
}

}  // namespace plimsoll::data
