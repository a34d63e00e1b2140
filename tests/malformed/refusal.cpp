#include "tests/malformed/refusal.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>

namespace cria::test {
namespace {

#ifdef CRIA_TEST_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr rlim_t kMemory = 100'000'000;
constexpr rlim_t kProcessorSeconds = kSanitized ? 60 : 1;
constexpr unsigned kPatience = 120;  // seconds until a program that hangs is ended

// Memory that is allocated counts; a sanitizer's own does not, so there the size of single blocks
// is limited.
void set_limits() {
  const rlimit memory{kMemory, kMemory}, time{kProcessorSeconds, kProcessorSeconds};
  if (!kSanitized) setrlimit(RLIMIT_DATA, &memory);
  setrlimit(RLIMIT_CPU, &time);
  alarm(kPatience);
}

std::vector<std::string> block_limit() {
  const char* own = std::getenv("ASAN_OPTIONS");
  return {"ASAN_OPTIONS=" + std::string(own != nullptr ? own : "") + ":max_allocation_size_mb=100"};
}

bool matches(std::string_view text, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  for (std::size_t skipped = star; skipped <= text.size(); ++skipped) {
    if (matches(text.substr(skipped), pattern.substr(star + 1))) return true;
  }
  return false;
}

}  // namespace

Result limited(const std::vector<std::string>& arguments, std::string_view input,
               const std::function<void()>& in_child) {
  const auto limits = [&in_child] {
    set_limits();
    if (in_child) in_child();
  };
  return cria_in({.input = input, .environment = block_limit(), .in_child = limits}, arguments);
}

void obey_file_modes() {
  prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
  prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
}

void expect_error(const Result& result, std::string_view says) {
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(matches(result.err, "cria: error: " + std::string(says) + "\n"))
      << "says:     " << result.err << "expected: cria: error: " << says;
  EXPECT_EQ(count_lines(result.err), 1U) << result.err;
}

std::vector<std::string> answer_from(const std::string& model,
                                     std::initializer_list<std::string> more) {
  std::vector<std::string> arguments = {"run", "-m", model, "-p", "Hi!",          "-n",     "3",
                                        "-t",  "1",  "-c",  "64", "--ignore-eos", "--temp", "0"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void expect_refused(const std::vector<Defect>& defects, const Image& valid,
                    std::initializer_list<std::string> more) {
  const TempDirectory directory;
  for (const Defect& defect : defects) {
    SCOPED_TRACE(defect.says);
    Image image = valid;
    defect.apply(image);
    const std::string path = directory.write("bad.gguf", image.bytes());
    expect_error(limited(answer_from(path, more)), path + ": " + defect.says);
  }
}

void expect_bytes_refused(std::string_view bytes, std::string_view says) {
  const TempDirectory directory;
  const std::string path = directory.write("bad.gguf", bytes);
  expect_error(limited(answer_from(path)), path + ": " + std::string(says));
}

Result expect_answer(const Image& odd, std::initializer_list<std::string> more) {
  const TempDirectory directory;
  Result result = limited(answer_from(directory.write("odd.gguf", odd.bytes()), more));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out, "");
  return result;
}

void expect_same_answer(const Image& odd, const Image& valid) {
  ASSERT_NE(odd.bytes(), valid.bytes());
  EXPECT_EQ(expect_answer(odd).out, expect_answer(valid).out);
}

}  // namespace cria::test
