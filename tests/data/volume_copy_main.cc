// volume_copy FILE FOLDER reads a NIfTI-1 file and prints, as JSON, how its voxels lie:
//   {"size": [x, y, z], "channels": C, "affine": [12 numbers, by rows], "ras_size": [D, H, W],
//    "spacing": [3 numbers, along D, H, W]}
// and writes into FOLDER
//   values         its values, float32 [C,z,y,x]
//   ras            its values in RAS+, float32 [D,H,W,C]
//   copy.nii.gz    the values as float32 in a NIfTI-1 file
//   labels.nii.gz  labels that count up to 250 again and again along W, H, D, as the file lies
// check_with_nibabel.py compares all with nibabel's.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "data/volumes/volume_files.h"
#include "formats/nifti.h"

namespace plimsoll::data {
namespace {

void WriteFloats(const std::string& path, const std::vector<float>& values) {
  OutputFile file(path);
  file.Write(std::as_bytes(std::span(values)));
  file.Commit();
}

void Copy(const std::string& path, const std::string& folder) {
  const ReadVolumeOptions options;
  const formats::NiftiVolume file = formats::ReadNifti(path, options.most_voxels);
  WriteFloats(folder + "/values", file.values);
  formats::WriteNifti(folder + "/copy.nii.gz", file.grid, std::span<const float>(file.values));

  formats::NiftiGrid grid;
  const Volume volume = ReadVolume({"volume", {path}, ""}, options, &grid);
  WriteFloats(folder + "/ras", volume.voxels);
  std::vector<uint8_t> labels;
  for (int64_t i = 0; i < volume.size.voxels(); ++i)
    labels.push_back(static_cast<uint8_t>(i % 251));
  WriteLabels(folder + "/labels.nii.gz", labels, grid);

  std::vector<double> affine;
  for (const auto& row : file.grid.affine) affine.insert(affine.end(), row.begin(), row.end());
  fmt::print(
      "{{\"size\": [{}], \"channels\": {}, \"affine\": [{}], \"ras_size\": [{}, {}, {}], "
      "\"spacing\": [{}]}}\n",
      fmt::join(file.grid.size, ", "), file.grid.channels, fmt::join(affine, ", "),
      volume.size.depth, volume.size.height, volume.size.width, fmt::join(volume.spacing, ", "));
}

}  // namespace
}  // namespace plimsoll::data

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: volume_copy FILE FOLDER\n");
    return 2;
  }
  try {
    plimsoll::data::Copy(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
