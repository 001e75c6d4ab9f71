// Finds labelled images: in folders whose names are the classes, as torchvision's ImageFolder does,
// or by the lines of files metadata.jsonl, as the `imagefolder` of Hugging Face's datasets does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/labels.h"

namespace plimsoll::data {

struct ImageFile {
  std::string path;
  int32_t label = 0;  // the number of its class, or the row of its labels in ImageFolder::labels
};

struct ImageFolder {
  std::vector<std::string> classes;  // sorted; of listed numbers none
  std::vector<ImageFile> train;      // by class, then by path
  std::vector<ImageFile> held_out;  // in an order of their own: evaluations may read the first ones
  int64_t passed_over = 0;  // files beside them that are called neither .jpg, .jpeg nor .png
  LabelTable labels;        // of listed images with several labels, or with a number
};

// True if the folder holds images, whose list may be refused all the same (FindImages). Two layouts
// are known:
//   FOLDER/train/CLASS/… and FOLDER/val/CLASS/…, which is held out; valid, validation and dev mean
//   the same as val, and test is held out where there is none of these
//   FOLDER/CLASS/…
bool IsImageFolder(const std::string& folder);
// True if images are held out by such a layout, whatever `eval_fraction` is.
bool HasHeldOutImages(const std::string& folder);

// Lists the images, at any depth below their class, links followed; no file is opened. Names are
// those of files .jpg, .jpeg and .png in small or capital letters; those that begin with a dot are
// left out. `eval_fraction`: of the second layout, or of train where nothing is held out, this part
// of each class, rounded, is held out, always the same, but one image of each stays. `has_classes`:
// false for a model without any, which one folder of images is enough for. UserError: images
// without folders of classes, a class without images, a class held out that train lacks, held-out
// folders of two names or without train, a folder or link that cannot be followed, a fraction
// beside images that are held out, or one that holds out none.
ImageFolder FindImages(const std::string& folder, double eval_fraction, bool has_classes = true);

// The classes that FindImages numbers the images by, in order. Throws what it throws, as far as the
// names of folders show them.
std::vector<std::string> FindClasses(const std::string& folder, bool has_classes = true);

// True if images are listed in FOLDER/train/metadata.jsonl or, without FOLDER/train, in
// FOLDER/metadata.jsonl.
bool HasListedImages(const std::string& folder);
// True if a line of that list, or of the one of images held out, gives a label; without one the
// list may say something else of images in folders of classes. UserError: a line is no JSON, or
// such a list is next to FOLDER/train.
bool HasListedLabels(const std::string& folder);
// The images that the lines of metadata.jsonl name, with a class, several or a number (labels.h):
//   {"file_name": "a/1.png", "label": ["cat", "dog"]}
// Held out are those of FOLDER/val/metadata.jsonl or FOLDER/test/metadata.jsonl; where the images
// to train on are listed in FOLDER/metadata.jsonl, or without such a folder, `eval_fraction` of
// all, or of each class where images have one. `names`: those of the classes, in order, or empty;
// `most`: the model's classes. UserErrors name the line.
ImageFolder FindListedImages(const std::string& folder, double eval_fraction, LabelKind kind,
                             const std::vector<std::string>& names, int64_t most);
// The classes of that list, by their numbers.
std::vector<std::string> FindListedClasses(const std::string& folder, LabelKind kind,
                                           const std::vector<std::string>& names);

}  // namespace plimsoll::data
