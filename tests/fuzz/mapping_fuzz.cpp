// Files that are mapped and read by path: a letter for the kind of file, then its bytes.
#include "model/file/mapping.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "model/error.h"
#include "tests/fuzz/memory_file.h"

namespace cria::fuzz {
namespace {

bool same(const Mapping& mapping, std::string_view bytes) {
  return std::ranges::equal(mapping.bytes(), std::as_bytes(std::span(bytes)));
}

void check_file(const std::string& path, MapMode mode, std::string_view bytes) {
  Mapping file(path, mode);
  require(same(file, bytes), "other bytes than the file's");
  const auto part = file.bytes().subspan(bytes.size() / 3, bytes.size() / 2);
  file.prefetch();
  file.prefetch(part);
  file.release(part);
  file.release(file.bytes());
  require(same(file, bytes), "other bytes after they were let go");
  static_cast<void>(file.lock());
  Mapping moved(std::move(file));
  Mapping other(path, mode == MapMode::Read ? MapMode::Mmap : MapMode::Read);
  other = std::move(moved);
  require(same(other, bytes), "other bytes in another place");
}

/// Files without bytes, or with fewer than their size, are refused.
void check_refused(const std::string& path, MapMode mode) {
  try {
    const Mapping file(path, mode, "a test's file");
  } catch (const Error& error) {
    require(std::string_view(error.what()).starts_with(printable(path) + ": "),
            "a refusal without the path");
    return;
  }
  require(false, "accepted a file without bytes");
}

void run_mapping(std::string_view input) {
  static const MemoryDirectory directory;
  const char kind = input.empty() ? '\0' : input.front();
  const std::string_view bytes = input.substr(std::min<std::size_t>(1, input.size()));
  for (const MapMode mode : {MapMode::Mmap, MapMode::Read}) {
    if (kind == 'd') {
      check_refused(directory.path(), mode);
    } else if (kind == 'n') {
      check_refused("/dev/null", mode);
    } else if (kind == 'p') {
      directory.clear();
      require(::mkfifo(directory.path("pipe").c_str(), 0600) == 0, "no pipe");
      check_refused(directory.path("pipe"), mode);
    } else if (kind == 's') {
      // Files of /sys report a page but cannot be mapped, and reads end earlier.
      check_refused("/sys/kernel/mm/transparent_hugepage/enabled", mode);
    } else if (kind == 'm') {
      check_refused(directory.path(bytes.substr(0, bytes.find('\0')).substr(0, 300)) + "/none",
                    mode);
    } else {
      check_file(directory.write("file", bytes), mode, bytes);
      const MemoryFile file(bytes);
      check_file(file.path(), mode, bytes);
    }
  }
}

std::vector<std::string> mapping_seeds() {
  return {"f",
          "fGGUF",
          "f" + std::string(10'000, 'x'),
          "f" + std::string(4096, 'y'),
          "d",
          "n",
          "p",
          "s",
          "ma",
          "m/.."};
}

}  // namespace

const Target kMapping{"mapping", run_mapping, mapping_seeds};

}  // namespace cria::fuzz
