// The commands `plimsoll data …`: what they take on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "app/images_command.h"
#include "app/tokenize_command.h"
#include "app/volumes_command.h"
#include "app/wordpiece_command.h"

namespace plimsoll::trainer {

class DataCommandLine {
 public:
  // Adds the commands to the program's. This must outlive their run.
  void AddTo(CLI::App& app);

 private:
  void AddTokenize(CLI::App& command);
  void AddWordPiece(CLI::App& command);
  void AddInspectData(CLI::App& command);
  void AddVolumes(CLI::App& command);
  void AddImages(CLI::App& command);

  data::TokenizeOptions tokenize_;
  data::WordPieceOptions word_pieces_;
  data::WriteVolumesOptions volumes_;
  data::WriteImagesOptions images_;
  std::vector<int64_t> volume_size_ = {64};
  std::string inspect_file_, inspect_tokenizer_, inspect_format_ = "auto";
};

}  // namespace plimsoll::trainer
