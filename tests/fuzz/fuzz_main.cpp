// cria_fuzz --target=NAME [libFuzzer's options] CORPUS…: libFuzzer on one of the targets.
// cria_fuzz --list: their names. cria_fuzz --target=NAME --seeds=DIR: writes its seeds there, and
// DIR.dict.
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace cria::fuzz;

const Target* target = nullptr;

// libFuzzer's -timeout counts wall time, which is long on a busy machine.
constexpr int kSecondsOfCpu = 10;
void limit_cpu() {
  const itimerval limit{{0, 0}, {kSecondsOfCpu, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}
[[noreturn]] void too_slow(int) {
  constexpr char kText[] = "an input takes more than 10 seconds of CPU\n";
  (void)!write(STDERR_FILENO, kText, sizeof kText - 1);
  std::abort();
}

std::string dictionary_line(const std::string& word) {
  std::string line = "\"";
  for (const char c : word) {
    char hex[5];
    std::snprintf(hex, sizeof hex, "\\x%02X", static_cast<unsigned char>(c));
    line += hex;
  }
  return line + "\"\n";
}

void write_seeds(const std::string& directory) {
  std::filesystem::create_directories(directory);
  std::size_t n = 0;
  for (const std::string& seed : target->seeds())
    std::ofstream(directory + "/seed-" + std::to_string(n++), std::ios::binary) << seed;
  std::ofstream words(directory + ".dict");
  words << dictionary_line("\xFF\xFF");  // libFuzzer rejects an empty file
  if (target->words == nullptr) return;
  for (const std::string& word : target->words())
    if (!word.empty() && word.size() <= 64) words << dictionary_line(word);
}

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "cria_fuzz: error: %s\n", what.c_str());
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::string name, seeds;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = (*argv)[i];
    if (argument == "--list") {
      for (const Target& each : targets()) std::printf("%s\n", std::string(each.name).c_str());
      std::exit(0);
    }
    if (argument.starts_with("--target=")) name = argument.substr(9);
    if (argument.starts_with("--seeds=")) seeds = argument.substr(8);
  }
  target = find_target(name);
  if (target == nullptr) fail("no target " + name + " (--list tells them)");
  if (!seeds.empty()) {
    write_seeds(seeds);
    std::exit(0);
  }
  std::signal(SIGPROF, too_slow);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  limit_cpu();
  run(*target, {reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  Random random(seed);
  if (target->mutate == nullptr || random() % 3 == 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string changed =
      target->mutate({reinterpret_cast<const char*>(data), size}, random, max_size)
          .substr(0, max_size);
  if (changed.empty()) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}
