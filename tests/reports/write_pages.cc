// usage: write_pages FOLDER: writes the pages that browser_test.py tests.

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "reports/study_page.h"
#include "tests/reports/sample_study.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_pages FOLDER\n";
    return 2;
  }
  const auto write = [&](const std::string& name, const nlohmann::ordered_json& study) {
    std::ofstream file(std::string(argv[1]) + "/" + name);
    file << plimsoll::reports::StudyPage(study);
    file.close();
    return file.good();
  };
  return write("study.html", plimsoll::reports::SampleStudy()) &&
                 write("crowded.html", plimsoll::reports::CrowdedStudy())
             ? 0
             : 1;
}
