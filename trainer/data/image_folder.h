// Finds labelled images in folders whose names are the classes, as torchvision's ImageFolder does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::data {

struct ImageFile {
  std::string path;
  int32_t label = 0;  // the number of its class
};

struct ImageFolder {
  std::vector<std::string> classes;  // sorted
  std::vector<ImageFile> train;      // by class, then by path
  std::vector<ImageFile> held_out;  // in an order of their own: evaluations may read the first ones
  int64_t passed_over = 0;  // files beside them that are called neither .jpg, .jpeg nor .png
};

// True if the folder has folders of images below it, in one of the two layouts:
//   FOLDER/train/CLASS/… and FOLDER/val/CLASS/… or FOLDER/test/CLASS/…, which is held out
//   FOLDER/CLASS/…
bool IsImageFolder(const std::string& folder);
// True if images are held out by such a layout, whatever `eval_fraction` is.
bool HasHeldOutImages(const std::string& folder);

// Lists the images, at any depth below their class; no file is opened. Names are those of files
// .jpg, .jpeg and .png in small or capital letters; those that begin with a dot are left out.
// `eval_fraction`: of the second layout, or of train where nothing is held out, this part of each
// class, rounded, is held out, always the same, but one image of each stays. UserError: a class
// without images, a class held out that train lacks, a folder that cannot be read, a fraction
// beside images that are held out, or one that holds out none.
ImageFolder FindImages(const std::string& folder, double eval_fraction);

}  // namespace plimsoll::data
