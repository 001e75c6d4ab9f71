// Finds labelled images: in folders whose names are the classes, as torchvision's ImageFolder does,
// or listed in files metadata.jsonl, as the `imagefolder` of Hugging Face's datasets does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/labels.h"

namespace plimsoll::data {

struct ImageFile {
  std::string path;
  int32_t label = 0;  // the class number, or the row in ImageFolder::labels
};

struct ImageFolder {
  // Sorted names; empty for listed images whose label is a number.
  std::vector<std::string> classes;
  std::vector<ImageFile> train;     // sorted by class, then by path
  std::vector<ImageFile> held_out;  // shuffled, since an evaluation may read only the first ones
  int64_t passed_over = 0;          // the number of files that are not called .jpg, .jpeg or .png
  LabelTable labels;                // for listed images with several labels or a numeric label
};

// True if the folder has the layout of an image folder. FindImages may still refuse its images. Two
// layouts are known:
//   FOLDER/train/CLASS/… and FOLDER/val/CLASS/…, which is held out; valid, validation and dev mean
//   the same as val, and test is held out where there is none of these
//   FOLDER/CLASS/…
bool IsImageFolder(const std::string& folder);
// True if the layout holds out images, whatever `eval_fraction` is.
bool HasHeldOutImages(const std::string& folder);

// Lists the images at any depth below their class folder. Follows links; opens no file. Images are
// files called .jpg, .jpeg and .png in lower or upper case; names that begin with a dot are
// ignored. `eval_fraction`: if the layout holds out no images, this fraction of each class,
// rounded, is held out, always the same images; at least one image of each class stays for
// training. `has_classes`: false for a model without classes, for which one folder of images
// suffices. UserErrors: images without class folders, a class without images, a held-out class that
// train lacks, held-out folders of two names or without train, a folder or link that cannot be
// followed, a fraction although images are already held out, or a fraction that holds out no image.
ImageFolder FindImages(const std::string& folder, double eval_fraction, bool has_classes = true);

// Returns the class names in the order in which FindImages numbers them. Throws the same errors, as
// far as folder names show them.
std::vector<std::string> FindClasses(const std::string& folder, bool has_classes = true);

// True if images are listed in FOLDER/train/metadata.jsonl or, without FOLDER/train, in
// FOLDER/metadata.jsonl.
bool HasListedImages(const std::string& folder);
// True if a line of the list of training images, or of the list of held-out images, gives a label.
// A list without labels may describe images in class folders. UserError: a line is not JSON, or
// FOLDER/metadata.jsonl exists next to FOLDER/train.
bool HasListedLabels(const std::string& folder);
// Reads the images that metadata.jsonl lists, each with a class, several classes or a number
// (labels.h):
//   {"file_name": "a/1.png", "label": ["cat", "dog"]}
// The images listed in FOLDER/val/metadata.jsonl or FOLDER/test/metadata.jsonl are held out. If the
// training images are listed in FOLDER/metadata.jsonl, or no such folder exists, `eval_fraction` of
// all images, or of each class if images have one class each, is held out. `names`: the class names
// in order, or empty. `most`: the model's number of classes. UserErrors name the line.
ImageFolder FindListedImages(const std::string& folder, double eval_fraction, LabelKind kind,
                             const std::vector<std::string>& names, int64_t most);
// The class names in the lists that FindListedImages reads, by class number.
std::vector<std::string> FindListedClasses(const std::string& folder, LabelKind kind,
                                           const std::vector<std::string>& names);

}  // namespace plimsoll::data
